"""The stores in one SQLite file: sessions and undelivered events outlive the process, a kill included.

Opened by :mod:`mcptrio.serve.http_options` for the store ``sqlite:PATH``, and by embedders. Several processes of one
machine may share the file.
The one rule: opening puts things in order. The streams of processes that are gone end by their wills, and nothing is
older than the clock can say.
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

_RESTART_GRACE_SECONDS: Final = 60.0
"""Seconds that whatever is kept has left after a restart, however long that took or whatever the clock says: clients
come back."""


@frozen(kw_only=True)
class SQLiteBounds:
    """What is kept. Past each bound on events the oldest go, past those on sessions a new one is refused.

    Args:
        idle_timeout: seconds without use after which a session has expired.
        sessions: kept at the same time.
        record_bytes: of all session records together.
        stream_events: events kept for one stream.
        session_bytes: bytes of events kept for one session.
        total_bytes: bytes of events kept for all; the session that was quiet longest pays.
        event_timeout: seconds without a new event after which the events of a stream are dropped.
        file_bytes: what the file may grow to; then nothing more can be stored, as on a full disk.
        busy_timeout: seconds to wait for another process that writes.
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
    """What :func:`open_sqlite_stores` gives."""

    sessions: SessionStore
    events: EventStore


@asynccontextmanager
async def open_sqlite_stores(
    path: str | Path, bounds: SQLiteBounds | None = None, *, clock: WallClock | None = None
) -> AsyncIterator[SQLiteStores]:
    """The stores in a file, which is made if it is not there. To be left when nobody uses them any more.

    Args:
        clock: for tests of ages.

    Raises:
        StoreFailed: the file cannot be opened, is no store of ours, or was made by a newer version.
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
    """One opening of the file, from its beginning to its end, which block and run in a thread."""

    sessions: SQLiteSessionStore
    events: SQLiteEventStore
    processes: ProcessRegistry

    def __init__(self, path: str | Path, bounds: SQLiteBounds, clock: WallClock) -> None:
        self.path = Path(path).absolute()
        self.bounds = bounds
        self._clock = clock

    def begin(self, database: Database) -> None:
        """
        Raises:
            StoreFailed: the file cannot be written.
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
        """
        Raises:
            StoreFailed: the file cannot be written; the next opening does what was to be done.
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
        """Be one of the writers. Returns those that are gone."""
        writers = [id for (id,) in connection.execute("SELECT id FROM writers")]
        gone = [id for id in writers if not self.processes.is_alive(id)]
        if len(gone) < len(writers):
            self._clock.join(connection.execute("SELECT value FROM meta WHERE name = 'epoch'").fetchone()[0])
        else:
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('epoch', ?)", (self._clock.place(),))
            self._bound_ages(connection)
        connection.execute("INSERT INTO writers VALUES (?)", (self.processes.id,))
        return gone

    def _bound_ages(self, connection: sqlite3.Connection) -> None:
        """The clock may have been set meanwhile: nothing is from the future, and nothing goes in the first minute."""
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
