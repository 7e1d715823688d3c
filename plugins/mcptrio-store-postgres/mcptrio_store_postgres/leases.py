"""The lease of this replica, and the completion of streams of replicas that have ended.

A replica has ended if its lease did not change while this process watched it, without an interruption, for a whole
lease. So neither a restart of the engine nor a pause of this process ends another replica.
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
from mcptrio_store_postgres.works import DatabaseWork, Results, WorkBatch

__all__ = ["Leases", "read_replicas"]

# Renewals in the time of a lease.
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
_OVER: Final = "SELECT FROM leases WHERE replica = %s AND expires <= now() FOR UPDATE SKIP LOCKED"
_LOSE: Final = """
UPDATE effects SET expires = now() + %s * interval '1 s' WHERE holder = %s AND result IS NULL AND expires IS NULL
"""

_log = logging.getLogger("mcptrio.stores")


class Leases:
    """
    Args:
        writes: The works that change streams.
        replica: The id of this process.
        seconds: The time of a lease.
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
        # The lease of each other replica as it was last read, and since when it is the same.
        self._seen: dict[str, tuple[Any, float]] = {}
        self._ticked = 0.0
        # When this replica renewed last, as the writer's thread knows it.
        self._renewed = 0.0
        self.replicas = 1
        """Replicas that have not ended. An expired lease is no end: after a failure of the engine all have expired."""
        self.live: list[SeenReplica] = []

    def renew(self, batch: WorkBatch) -> None:
        """Renew the lease in a transaction that needs it. Called by the writer's thread."""
        now = time.monotonic()
        if now - self._renewed > self._seconds / _RENEWALS:
            self._upsert(batch)
            self._renewed = now

    async def enter(self) -> None:
        """Register this replica.

        Raises:
            StoreFailed: The engine failed.
        """
        rows = await self._database.write(DatabaseWork(self._renew, None))
        self._note(rows, ())

    async def run(self) -> None:
        """Renew the lease, and complete the streams of replicas that have ended, until cancelled."""
        while True:
            await trio.sleep(self._seconds / _RENEWALS)
            try:
                ended = self._ended(await self._database.write(DatabaseWork(self._renew, None)))
                await self._repair()
                for replica in ended:
                    await self.settle(replica)
                await self._release()
            except StoreFailed as error:
                # After an interruption each replica has the time of a lease again.
                self._seen.clear()
                _log.warning("lease: %s", error)

    async def settle(self, replica: str, *, is_over: bool = True) -> None:
        """Complete the streams of a replica and delete its lease.

        Args:
            is_over: True to do so only if the lease has expired.

        Raises:
            StoreFailed: The engine failed.
        """
        work = DatabaseWork(self._settle, (replica, is_over), replica)
        has_more: bool | None = True
        while has_more:
            has_more = await self._database.write(work)
        self._seen.pop(replica, None)
        if is_over and has_more is not None:
            _log.warning("replica %s has ended without closing; its streams have been completed", replica)
            # It may have acknowledged a change whose message it had not published yet.
            self._on_ended()

    def _ended(self, rows: Sequence[tuple[Any, ...]]) -> list[str]:
        """Return the replicas that have ended."""
        now = time.monotonic()
        if now - self._ticked > self._seconds * 2 / _RENEWALS:
            # This process stood still, so it does not know for how long the others did.
            self._seen.clear()
        self._ticked = now
        ended = []
        seen: dict[str, tuple[Any, float]] = {}
        for replica, expires, is_over, *_ in rows:
            if replica == self._replica:
                continue
            before, since = self._seen.get(replica, (None, now))
            seen[replica] = (expires, since if before == expires else now)
            if is_over and now - seen[replica][1] > self._seconds:
                ended.append(replica)
        self._seen = seen
        self._note(rows, ended)
        return ended

    def _note(self, rows: Sequence[tuple[Any, ...]], ended: Sequence[str]) -> None:
        rows = [row for row in rows if row[0] not in ended]
        self.replicas = len(rows)
        self.live = _seen(rows, self._seconds)

    # In a thread

    def _renew(self, batch: WorkBatch, items: Sequence[None]) -> Results:
        self._upsert(batch)
        cursor = batch.connection.execute(_ALL)
        yield
        rows = cursor.fetchall()
        self._renewed = time.monotonic()
        return [rows] * len(items)

    def _upsert(self, batch: WorkBatch) -> None:
        batch.connection.execute(_RENEW, (self._replica, self._seconds, socket.gethostname(), os.getpid()))

    def _settle(self, batch: WorkBatch, items: Sequence[tuple[str, bool]]) -> Results:
        """Complete some streams of replicas. The result says whether there may be more; ``None``: not its turn."""
        yield
        results: list[bool | None] = []
        for replica, is_over in items:
            if is_over and batch.connection.execute(_OVER, (replica,)).fetchone() is None:
                # It is back, or another replica is completing its streams.
                results.append(None)
                continue
            has_more = self._writes.settle_writer(batch, replica)
            if not has_more:
                batch.connection.execute(_LOSE, (RESULT_SECONDS, replica))
                batch.connection.execute("DELETE FROM leases WHERE replica = %s", (replica,))
            results.append(has_more)
        return results


def read_replicas(connection: Connection, seconds: float) -> tuple[list[SeenReplica], int]:
    """Return some of the replicas with a lease, and how many there are.

    Args:
        seconds: The time of a lease.
    """
    rows = connection.execute(_ALL).fetchall()
    return _seen(rows, seconds), len(rows)


def _seen(rows: Sequence[tuple[Any, ...]], seconds: float) -> list[SeenReplica]:
    now = time.monotonic()
    return [
        SeenReplica(id, host, process, age, max(0.0, seconds - left), now)
        for id, _, _, host, process, age, left in rows[:MAX_LISTED]
    ]
