"""Session and event stores in one SQLite file; sessions and undelivered events survive the process, even a kill.

:mod:`mcptrio.serve.http_options` opens them for the store ``sqlite:PATH``, and embedding programs do. Several processes
of one machine may share the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from attrs import frozen

from mcptrio.abc import EventStore, SessionStore
from mcptrio.stores.process_locks import ProcessRegistry
from mcptrio.stores.sqlite_database import Database, open_database
from mcptrio.stores.sqlite_events import SQLiteEventStore, drop_events
from mcptrio.stores.sqlite_file import FileBounds
from mcptrio.stores.sqlite_sessions import SQLiteSessionStore
from mcptrio.stores.wall_clock import WallClock

__all__ = ["SQLiteBounds", "SQLiteStores", "open_sqlite_stores"]

# Seconds that sessions and events are kept at least after a restart, so clients can reconnect, however long the restart
# took and whatever time the clock shows.
_RESTART_GRACE_SECONDS: Final = 60.0


@frozen(kw_only=True)
class SQLiteBounds:
    """The limits of the stores.

    Above a limit on events the oldest are dropped; above a limit on sessions a new one is refused.

    Args:
        idle_timeout: Seconds without use after which a session expires.
        sessions: The number of sessions.
        record_bytes: Bytes of all session records.
        stream_events: Events of one stream.
        session_bytes: Bytes of the events of one session.
        total_bytes: Bytes of all events; those of the least recently active session are dropped first.
        event_timeout: Seconds without a new event after which the events of a stream are dropped.
        file_bytes: The size at which the file is full; then writes fail, as on a full disk.
        busy_timeout: Seconds to wait for another process that writes.
    """

    idle_timeout: float = 1800.0
    sessions: int = 100_000
    record_bytes: int = 256 * 1024 * 1024
    stream_events: int = 1000
    session_bytes: int = 16 * 1024 * 1024
    total_bytes: int = 256 * 1024 * 1024
    event_timeout: float = 3600.0
    file_bytes: int = 1024 * 1024 * 1024
    busy_timeout: float = 5.0


@frozen(kw_only=True)
class SQLiteStores:
    """The two stores of an open file."""

    sessions: SessionStore
    events: EventStore


@asynccontextmanager
async def open_sqlite_stores(
    path: str | Path, bounds: SQLiteBounds | None = None, *, clock: WallClock | None = None
) -> AsyncIterator[SQLiteStores]:
    """Open the stores in a file, which is created if it is missing.

    Leave the context when the stores are no longer in use.

    Args:
        path: The file.
        bounds: The limits.
        clock: A clock for tests.

    Raises:
        StoreFailed: The file cannot be opened, is not a store of mcptrio, or was made by a newer version.
    """
    opening = _Opening(path, bounds or SQLiteBounds(), clock or WallClock())
    async with open_database(
        opening.path,
        bounds=FileBounds(bytes=opening.bounds.file_bytes, busy_timeout=opening.bounds.busy_timeout),
        begin=opening.begin,
        watch=opening.watch,
        end=opening.end,
    ):
        yield SQLiteStores(sessions=opening.sessions, events=opening.events)


class _Opening:
    """One opening of the file. ``begin`` and ``end`` block and run in threads."""

    sessions: SQLiteSessionStore
    events: SQLiteEventStore
    processes: ProcessRegistry

    def __init__(self, path: str | Path, bounds: SQLiteBounds, clock: WallClock) -> None:
        self.path = Path(path).absolute()
        self.bounds = bounds
        self._clock = clock

    def begin(self, database: Database) -> None:
        """Register this process, and complete the streams of processes that have ended.

        Raises:
            StoreFailed: The file cannot be written.
        """
        self.processes = ProcessRegistry(self.path)
        begun = False
        try:
            self.processes.sweep()
            self._make_stores(database)
            for gone in database.write_now(self._enter):
                self._settle(database, gone)
            begun = True
        finally:
            if not begun:
                self.processes.leave()

    async def watch(self, _: Database) -> None:
        await self.events.check_processes()

    def end(self, database: Database) -> None:
        """Store what was collected, and complete the streams of this process.

        Raises:
            StoreFailed: The file cannot be written; the next opening does the rest.
        """
        try:
            database.write_now(self.sessions.note)
            self._settle(database, self.processes.id)
        finally:
            self.processes.leave()

    def _make_stores(self, database: Database) -> None:
        bounds = self.bounds
        self.sessions = SQLiteSessionStore(
            database,
            self._clock,
            idle_timeout=bounds.idle_timeout,
            most=bounds.sessions,
            total_bytes=bounds.record_bytes,
            forget=drop_events,
        )
        self.events = SQLiteEventStore(
            database,
            self._clock,
            self.processes,
            stream_events=bounds.stream_events,
            session_bytes=bounds.session_bytes,
            total_bytes=bounds.total_bytes,
            event_timeout=bounds.event_timeout,
        )

    def _settle(self, database: Database, writer: str) -> None:
        def work(connection: sqlite3.Connection) -> bool:
            return self.events.settle_writer(connection, writer=writer, now=self._clock.now())

        while database.write_now(work):
            pass

    def _enter(self, connection: sqlite3.Connection) -> list[str]:
        """Register this process as a writer; return the writers that have ended."""
        writers = [id for (id,) in connection.execute("SELECT id FROM writers")]
        gone = [id for id in writers if not self.processes.is_alive(id)]
        # Other processes use the file, so use their epoch; alone, set a new one.
        if len(gone) < len(writers):
            self._clock.join(connection.execute("SELECT value FROM meta WHERE name = 'epoch'").fetchone()[0])
        else:
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('epoch', ?)", (self._clock.place(),))
            self._bound_ages(connection)
        connection.execute("INSERT INTO writers VALUES (?)", (self.processes.id,))
        return gone

    def _bound_ages(self, connection: sqlite3.Connection) -> None:
        """Limit stored times to the possible range."""
        # The wall clock may have been set since the last use: no time is in the future, and nothing expires in the
        # first minute.
        now, bounds = self._clock.now(), self.bounds
        for table, column, lives in (
            ("sessions", "used", bounds.idle_timeout),
            ("streams", "touched", bounds.event_timeout),
            ("kept", "touched", bounds.event_timeout),
        ):
            oldest = now - lives + min(_RESTART_GRACE_SECONDS, lives)
            connection.execute(
                f"UPDATE {table} SET {column} = max(min({column}, :now), :oldest)"
                f" WHERE {column} > :now OR {column} < :oldest",
                {"now": now, "oldest": oldest},
            )
