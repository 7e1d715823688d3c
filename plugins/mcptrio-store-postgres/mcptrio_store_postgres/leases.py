"""The lease of this replica, and the completion of the streams of replicas that have ended.

A replica has ended if its lease has expired and did not change while this process watched it, without an interruption,
for a whole lease. So another replica does not count as ended after a restart of the engine or a pause of this process.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import trio

from mcptrio.errors import StoreFailed
from mcptrio.stores import MAX_LISTED, SeenReplica
from mcptrio_store_postgres.database import PostgresDatabase
from mcptrio_store_postgres.effects import RESULT_SECONDS
from mcptrio_store_postgres.event_writes import EventWrites
from mcptrio_store_postgres.links import Connection
from mcptrio_store_postgres.operations import DatabaseOperation, OperationBatch, Results

__all__ = ["Leases", "read_replicas"]

# Renewals within one lease.
_RENEWALS: Final = 3

_RENEW: Final = """
INSERT INTO leases (replica, expires, host, process) VALUES (%s, now() + %s * interval '1 s', %s, %s)
ON CONFLICT (replica) DO UPDATE SET expires = excluded.expires
"""
_ALL: Final = """
SELECT replica, expires, expires <= now(), host, process, extract(epoch FROM now() - began)::float8,
    extract(epoch FROM expires - now())::float8
FROM leases ORDER BY began
"""
_LOCK_EXPIRED: Final = "SELECT FROM leases WHERE replica = %s AND expires <= now() FOR UPDATE SKIP LOCKED"
_EXPIRE_CLAIMS: Final = """
UPDATE effects SET expires = now() + %s * interval '1 s' WHERE holder = %s AND result IS NULL AND expires IS NULL
"""

_log = logging.getLogger("mcptrio.stores")


class Leases:
    """Renews the lease of this replica, and completes the streams of replicas that have ended.

    Args:
        writes: The operations that change streams.
        replica: The id of this process.
        seconds: Seconds of a lease.
        repair: Repeats failed settlements and releases; called after each renewal.
        release: Queues the tasks of replicas that have ended; called after each renewal.
        on_ended: A function called when another replica has ended without closing.
    """

    def __init__(
        self,
        database: PostgresDatabase,
        writes: EventWrites,
        *,
        replica: str,
        seconds: float,
        repair: Callable[[], Awaitable[None]],
        release: Callable[[], Awaitable[None]],
        on_ended: Callable[[], None],
    ) -> None:
        self._database = database
        self._writes = writes
        self._replica = replica
        self._seconds = seconds
        self._repair = repair
        self._release = release
        self._on_ended = on_ended
        # The expiry of each other replica's lease as last read, and the monotonic time since which it is unchanged.
        self._seen: dict[str, tuple[Any, float]] = {}
        self._last_check = 0.0
        # The monotonic time of the last renewal. Used by the writer's thread only.
        self._renewed_at = 0.0
        self.replicas = 1
        """The number of replicas that have not ended. After a failure of the engine, a replica with an expired lease
        may still run."""
        self.live: list[SeenReplica] = []

    def renew(self, batch: OperationBatch) -> None:
        """Renew the lease in a transaction that needs it. Called by the writer's thread."""
        now = time.monotonic()
        if now - self._renewed_at > self._seconds / _RENEWALS:
            self._upsert(batch)
            self._renewed_at = now

    async def enter(self) -> None:
        """Register this replica.

        Raises:
            StoreFailed: The engine failed.
        """
        rows = await self._database.write(DatabaseOperation(self._renew, None))
        self._note(rows, ())

    async def run(self) -> None:
        """Renew the lease, and complete the streams of replicas that have ended, until cancelled."""
        while True:
            await trio.sleep(self._seconds / _RENEWALS)
            try:
                ended = self._ended_replicas(await self._database.write(DatabaseOperation(self._renew, None)))
                await self._repair()
                for replica in ended:
                    await self.settle(replica)
                await self._release()
            except StoreFailed as error:
                # After an interruption, each replica has another whole lease of time.
                self._seen.clear()
                _log.warning("lease: %s", error)

    async def settle(self, replica: str, *, only_expired: bool = True) -> None:
        """Complete the streams of a replica and delete its lease.

        Args:
            only_expired: True to do so only if the lease has expired.

        Raises:
            StoreFailed: The engine failed.
        """
        work = DatabaseOperation(self._settle, (replica, only_expired), replica)
        has_more: bool | None = True
        while has_more:
            has_more = await self._database.write(work)
        self._seen.pop(replica, None)
        if only_expired and has_more is not None:
            _log.warning("replica %s has ended without closing; its streams have been completed", replica)
            # The replica may have acknowledged a change before it published the message about it.
            self._on_ended()

    def _ended_replicas(self, rows: Sequence[tuple[Any, ...]]) -> list[str]:
        """Return the replicas that have ended."""
        now = time.monotonic()
        if now - self._last_check > self._seconds * 2 / _RENEWALS:
            # This process was suspended, so it does not know if the others renewed their leases in the meantime.
            self._seen.clear()
        self._last_check = now
        ended = []
        seen: dict[str, tuple[Any, float]] = {}
        for replica, expires, is_expired, *_ in rows:
            if replica == self._replica:
                continue
            before, since = self._seen.get(replica, (None, now))
            seen[replica] = (expires, since if before == expires else now)
            if is_expired and now - seen[replica][1] > self._seconds:
                ended.append(replica)
        self._seen = seen
        self._note(rows, ended)
        return ended

    def _note(self, rows: Sequence[tuple[Any, ...]], ended: Sequence[str]) -> None:
        rows = [row for row in rows if row[0] not in ended]
        self.replicas = len(rows)
        self.live = _seen_replicas(rows, self._seconds)

    # In a thread

    def _renew(self, batch: OperationBatch, items: Sequence[None]) -> Results:
        self._upsert(batch)
        cursor = batch.connection.execute(_ALL)
        yield
        rows = cursor.fetchall()
        self._renewed_at = time.monotonic()
        return [rows] * len(items)

    def _upsert(self, batch: OperationBatch) -> None:
        batch.connection.execute(_RENEW, (self._replica, self._seconds, socket.gethostname(), os.getpid()))

    def _settle(self, batch: OperationBatch, items: Sequence[tuple[str, bool]]) -> Results:
        """Complete some streams of replicas. The result is True if there may be more streams, and ``None`` if the
        replica has renewed its lease or another replica completes its streams."""
        yield
        results: list[bool | None] = []
        for replica, only_expired in items:
            if only_expired and batch.connection.execute(_LOCK_EXPIRED, (replica,)).fetchone() is None:
                results.append(None)
                continue
            has_more = self._writes.settle_writer(batch, replica)
            if not has_more:
                batch.connection.execute(_EXPIRE_CLAIMS, (RESULT_SECONDS, replica))
                batch.connection.execute("DELETE FROM leases WHERE replica = %s", (replica,))
            results.append(has_more)
        return results


def read_replicas(connection: Connection, seconds: float) -> tuple[list[SeenReplica], int]:
    """Return some of the replicas with a lease, and the number of all.

    Args:
        seconds: Seconds of a lease.
    """
    rows = connection.execute(_ALL).fetchall()
    return _seen_replicas(rows, seconds), len(rows)


def _seen_replicas(rows: Sequence[tuple[Any, ...]], seconds: float) -> list[SeenReplica]:
    now = time.monotonic()
    return [
        SeenReplica(id, host, process, age, max(0.0, seconds - seconds_left), now)
        for id, _, _, host, process, age, seconds_left in rows[:MAX_LISTED]
    ]
