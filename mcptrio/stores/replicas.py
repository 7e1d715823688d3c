"""The live replicas of shared stores, for the status of a server and for ``mcptrio store check``."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from attrs import frozen

from mcptrio.abc import ReplicaStatus
from mcptrio.stores.checks import Check

__all__ = ["MAX_LISTED", "SeenReplica", "check_replicas", "list_replicas"]

MAX_LISTED: Final = 100
"""Replicas that a status lists."""


@frozen
class SeenReplica:
    """A replica as this process last saw it.

    Args:
        id: The id of the process, as in the log.
        host: The name of the machine of the process.
        process: The process id.
        age: Seconds for which the replica had been live at ``seen``.
        heartbeat: Seconds since the replica's last renewal of its lease at ``seen``.
        seen: The time of the observation, on the monotonic clock.
    """

    id: str
    host: str = ""
    process: int = 0
    age: float | None = None
    heartbeat: float | None = None
    seen: float = 0.0

    def status(self, now: float) -> ReplicaStatus:
        passed = now - self.seen
        return ReplicaStatus(
            id=self.id,
            host=self.host,
            process=self.process,
            age=None if self.age is None else self.age + passed,
            heartbeat=None if self.heartbeat is None else self.heartbeat + passed,
        )


def list_replicas(seen: Iterable[SeenReplica]) -> tuple[ReplicaStatus, ...]:
    """Return the current status of replicas, the oldest first, at most :data:`MAX_LISTED`."""
    now = time.monotonic()
    listed = sorted((each.status(now) for each in seen), key=lambda each: (-(each.age or 0.0), each.id))
    return tuple(listed[:MAX_LISTED])


def check_replicas(live: Sequence[ReplicaStatus], total: int) -> Check:
    """Return the finding of ``mcptrio store check`` about the replicas. An empty list is not a problem.

    Args:
        live: The replicas to list.
        total: The number of replicas.
    """
    more = [f"and {total - len(live)} more"] if total > len(live) else []
    return Check("replicas", True, "; ".join([f"{total} live", *map(_describe, live), *more]))


def _describe(replica: ReplicaStatus) -> str:
    where = f" at {replica.host}, process {replica.process}" if replica.host else ""
    since = ""
    if replica.age is not None:
        began = datetime.now(UTC) - timedelta(seconds=replica.age)
        since = f", since {began:%Y-%m-%d %H:%M:%S} UTC"
    heartbeat = f", last heartbeat {replica.heartbeat:.1f} s ago" if replica.heartbeat is not None else ""
    return f"{replica.id}{where}{since}{heartbeat}"
