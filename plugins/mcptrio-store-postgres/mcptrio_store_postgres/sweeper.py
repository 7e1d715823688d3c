"""Deletes expired rows in bounded batches. All replicas do it, and skip rows that another one has locked."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

import trio

from mcptrio.errors import StoreFailed
from mcptrio_store_postgres.database import PostgresDatabase
from mcptrio_store_postgres.event_writes import EventWrites
from mcptrio_store_postgres.operations import DatabaseOperation, OperationBatch, Results

__all__ = ["Sweeper"]

# Seconds between two sweeps, at most.
_MAX_INTERVAL: Final = 15.0
# Rows that one transaction deletes.
_MAX_ROWS: Final = 1000
# Seconds for which the inbox of a session is kept if the table of sessions does not have the session.
_INBOX_SECONDS: Final = 86_400

_STREAMS: Final = """
WITH due AS (
    SELECT number FROM streams WHERE ends <= now() ORDER BY ends LIMIT %s FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM streams USING due WHERE streams.number = due.number
), events_gone AS (
    DELETE FROM events USING due WHERE stream = due.number
)
SELECT FROM due
"""
# Deletes the expired events of open streams. A stream keeps its row, so that its positions are not used again.
_OLD_EVENTS: Final = """
WITH due AS (
    SELECT number FROM streams
    WHERE (writer = %s OR writer IS NULL) AND NOT is_complete AND next > first
        AND touched <= now() - %s * interval '1 s'
    LIMIT %s FOR UPDATE SKIP LOCKED
), emptied AS (
    UPDATE streams AS s SET first = next, bytes = 0 FROM due WHERE s.number = due.number
), events_gone AS (
    DELETE FROM events USING due WHERE stream = due.number
)
SELECT FROM due
"""
_INBOXES: Final = """
WITH due AS (
    SELECT number FROM streams AS s
    WHERE writer IS NULL AND NOT is_complete AND touched <= now() - %s * interval '1 s'
        AND NOT EXISTS (SELECT FROM sessions WHERE id = s.session)
    LIMIT %s FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM streams USING due WHERE streams.number = due.number
), events_gone AS (
    DELETE FROM events USING due WHERE stream = due.number
)
SELECT FROM due
"""
_ROWS: Final = """
WITH due AS (SELECT ctid FROM {table} WHERE {when} LIMIT %s FOR UPDATE SKIP LOCKED)
DELETE FROM {table} USING due WHERE {table}.ctid = due.ctid
"""
_ORPHANS: Final = """
SELECT DISTINCT writer FROM streams AS s
WHERE NOT is_complete AND writer IS NOT NULL AND NOT EXISTS (SELECT FROM leases WHERE replica = s.writer)
"""

_log = logging.getLogger("mcptrio.stores")


class Sweeper:
    """Deletes expired rows regularly.

    Args:
        writes: Completes the streams of replicas that have no lease.
        replica: The id of this process.
    """

    def __init__(self, database: PostgresDatabase, writes: EventWrites, *, replica: str) -> None:
        self._database = database
        self._writes = writes
        self._interval = min(_MAX_INTERVAL, writes.age / 2)
        self._kinds: tuple[tuple[str, tuple[Any, ...]], ...] = (
            (_STREAMS, ()),
            (_OLD_EVENTS, (replica, writes.age)),
            (_INBOXES, (max(_INBOX_SECONDS, writes.age),)),
            (_ROWS.format(table="effects", when="expires <= now()"), ()),
            (_ROWS.format(table="replays", when="expires <= now()"), ()),
            # A quota whose arrival time has passed is full, like one without a row. The second keeps the rows of quotas
            # in constant use, which would otherwise be deleted and inserted again.
            (_ROWS.format(table="quotas", when="arrival <= now() - interval '1 s'"), ()),
        )

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await trio.sleep(self._interval)
            try:
                await self.sweep()
            except StoreFailed as error:
                _log.warning("expiry: %s", error)

    async def sweep(self) -> None:
        """Delete all expired rows.

        Raises:
            StoreFailed: The engine failed.
        """
        for statement, parameters in self._kinds:
            while (
                await self._database.write(DatabaseOperation(_delete, (statement, (*parameters, _MAX_ROWS))))
                == _MAX_ROWS
            ):
                pass
        await self._database.write(DatabaseOperation(self._settle_orphans, None))

    def _settle_orphans(self, batch: OperationBatch, items: Sequence[None]) -> Results:
        """Complete streams whose replica has no lease: the streams began while another replica deleted the lease."""
        yield
        for (writer,) in batch.connection.execute(_ORPHANS).fetchall():
            self._writes.settle_writer(batch, str(writer))
        return [None] * len(items)


def _delete(batch: OperationBatch, items: Sequence[tuple[str, tuple[Any, ...]]]) -> Results:
    cursors = [batch.connection.execute(statement.encode(), parameters) for statement, parameters in items]
    yield
    return [cursor.rowcount for cursor in cursors]
