"""All stores in one SQLite file. Their contents survive the end of the process, even a kill.

:mod:`mcptrio.stores.opening` opens them for the URL ``sqlite:PATH``; embedding programs may open them too. Several
processes of one machine may share the file.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio
from attrs import frozen

from mcptrio.abc import TASK_CHANGED, TASK_QUEUED, TASKS_TOPIC, Bus, Stores, StoreStatus, task_topic
from mcptrio.errors import StoreFailed
from mcptrio.stores.common_tasks import CommonTaskStore
from mcptrio.stores.memory_effects import EFFECT_SECONDS
from mcptrio.stores.process_locks import ProcessRegistry
from mcptrio.stores.replicas import MAX_LISTED, SeenReplica, list_replicas
from mcptrio.stores.settings import StoreBounds
from mcptrio.stores.sqlite_bus import SQLiteBus, newest_ids
from mcptrio.stores.sqlite_database import Database, open_database
from mcptrio.stores.sqlite_effects import SQLiteEffectStore
from mcptrio.stores.sqlite_events import SQLiteEventStore, drop_events
from mcptrio.stores.sqlite_file import FileBounds
from mcptrio.stores.sqlite_quotas import SQLiteQuotaStore
from mcptrio.stores.sqlite_replays import SQLiteReplayStore
from mcptrio.stores.sqlite_sessions import SQLiteSessionStore
from mcptrio.stores.sqlite_tasks import SQLiteTasks, release_tasks
from mcptrio.stores.wall_clock import WallClock

__all__ = ["SQLiteBounds", "open_sqlite_stores"]

# Seconds for which sessions and events are kept at least after a restart, so that clients can reconnect. The restart
# may have taken long, and the wall clock may have been set.
_RESTART_GRACE_SECONDS: Final = 60.0
# Seconds between two checks for other processes.
_PROCESS_CHECK_INTERVAL: Final = 2.0

_log = logging.getLogger("mcptrio.stores")


@frozen(kw_only=True)
class SQLiteBounds(StoreBounds):
    """The limits of the stores in a file.

    Args:
        record_bytes: Bytes of all session records.
        file_bytes: The size at which the file is full; then writes fail, as on a full disk.
        busy_timeout: Seconds to wait for another process that writes.
    """

    record_bytes: int = 256 * 1024 * 1024
    file_bytes: int = 1024 * 1024 * 1024
    busy_timeout: float = 5.0


@asynccontextmanager
async def open_sqlite_stores(
    path: str | Path, bounds: SQLiteBounds | None = None, *, bus: Bus | None = None, clock: WallClock | None = None
) -> AsyncIterator[Stores]:
    """Open the stores in a file, which is created if it is missing.

    Leave the context when the stores are no longer in use.

    Args:
        bus: Connects the processes that share the file; ``None`` for messages in the file.
        clock: A clock for tests.

    Raises:
        StoreFailed: The file cannot be opened, is not a store of mcptrio, or was made by a newer version.
    """
    opening = _Opening(path, bounds or SQLiteBounds(), clock or WallClock(), bus)
    async with open_database(
        opening.path,
        bounds=FileBounds(bytes=opening.bounds.file_bytes, busy_timeout=opening.bounds.busy_timeout),
        begin=opening.begin,
        watch=opening.watch,
        end=opening.end,
    ):
        yield Stores(
            sessions=opening.sessions,
            events=opening.events,
            bus=bus or opening.messages,
            effects=SQLiteEffectStore(opening.database, opening.clock, opening.processes),
            replays=SQLiteReplayStore(opening.database, opening.clock),
            quotas=SQLiteQuotaStore(opening.database, opening.clock),
            tasks=opening.tasks,
            is_shared=True,
            status=opening.status,
        )


class _Opening:
    """One opening of the file. ``begin`` and ``end`` block and run in threads."""

    sessions: SQLiteSessionStore
    events: SQLiteEventStore
    processes: ProcessRegistry
    messages: SQLiteBus
    tasks: CommonTaskStore
    _task_steps: SQLiteTasks
    database: Database

    def __init__(self, path: str | Path, bounds: SQLiteBounds, clock: WallClock, bus: Bus | None) -> None:
        self.path = Path(path).absolute()
        self.bounds = bounds
        self._bus = bus
        self.clock = clock
        self._check_limiter = trio.CapacityLimiter(1)
        self._replicas = 1
        self._live: list[SeenReplica] = []
        self._failed_at: float | None = None

    def begin(self, database: Database) -> None:
        """Register this process, and complete the streams of processes that have ended.

        Raises:
            StoreFailed: The file cannot be written.
        """
        self.processes = ProcessRegistry(self.path)
        self.database = database
        self._live = self._describe([self.processes.id])
        begun = False
        try:
            self.processes.sweep()
            self._make_stores(database)
            for gone in database.write_now(self._enter):
                self._settle(database, gone)
                if self._bus is None:
                    database.write_now(self.messages.insert_lost)
            begun = True
        finally:
            if not begun:
                self.processes.leave()

    async def watch(self, database: Database) -> None:
        """Complete the streams of processes that have ended, and exchange messages with the others."""
        async with trio.open_nursery() as nursery:
            if self._bus is None:
                nursery.start_soon(self.messages.run)
            while True:
                try:
                    await self._check_processes(database)
                    self._failed_at = None
                except StoreFailed as error:
                    _log.error("%s", error)
                    if self._failed_at is None:
                        self._failed_at = trio.current_time()
                await trio.sleep(_PROCESS_CHECK_INTERVAL)

    async def _check_processes(self, database: Database) -> None:
        # The newest event is read before the writers: a process that is not among the writers has stored no event up to
        # that one.
        newest = await database.read(newest_ids)
        writers = await database.read(_writers)
        gone = await trio.to_thread.run_sync(self._ended_writers, writers, limiter=self._check_limiter)
        await self.events.settle_writers(gone)
        if gone and self._bus is None:
            # An ended process may have acknowledged a change before it stored the message about it.
            self.messages.report_lost()
        self.tasks.announce_released(await self._task_steps.release_ended())
        await self.tasks.take_back_unacknowledged()
        live = [id for id in writers if id not in gone]
        self._live = await trio.to_thread.run_sync(self._describe, live[:MAX_LISTED], limiter=self._check_limiter)
        self._replicas = len(live)
        self.messages.set_alone(self._replicas <= 1, newest)

    def _ended_writers(self, writers: list[str]) -> list[str]:
        return [id for id in writers if not self.processes.is_alive(id)]

    def _describe(self, live: list[str]) -> list[SeenReplica]:
        return [self.processes.describe(id) for id in live]

    def status(self) -> StoreStatus:
        # While another process keeps the file locked, reads succeed and writes fail.
        failures = [at for at in (self._failed_at, self.database.writes_failed_at) if at is not None]
        since = trio.current_time() - min(failures) if failures else None
        return StoreStatus(
            kind="sqlite",
            is_reachable=since is None,
            failing_since=since,
            waiting=self.database.waiting,
            replicas=max(1, self._replicas),
            live=list_replicas(self._live),
        )

    def end(self, database: Database) -> None:
        """Store the last uses of sessions, release the tasks of this process, and complete its streams.

        Raises:
            StoreFailed: The file cannot be written; the next opening completes the streams.
        """
        try:
            database.write_now(self.sessions.write_uses)
            if self._bus is None:
                # Threads cannot use another bus. The other processes then notice that this one has ended.
                database.write_now(self._release_tasks)
            self._settle(database, self.processes.id)
        finally:
            self.processes.leave()

    def _make_stores(self, database: Database) -> None:
        bounds = self.bounds
        self.sessions = SQLiteSessionStore(
            database,
            self.clock,
            idle_timeout=bounds.idle_timeout,
            max_sessions=bounds.max_sessions,
            total_bytes=bounds.record_bytes,
            forget=drop_events,
        )
        self.events = SQLiteEventStore(
            database,
            self.clock,
            self.processes,
            stream_events=bounds.stream_events,
            session_bytes=bounds.session_bytes,
            total_bytes=bounds.total_bytes,
            event_timeout=bounds.event_timeout,
            bus=self._bus,
        )
        self.messages = SQLiteBus(database, self.clock, self.processes.id)
        self._task_steps = SQLiteTasks(database, self.clock, self.processes, bounds=bounds)
        self.tasks = CommonTaskStore(self._task_steps, bounds, self._bus or self.messages)

    def _release_tasks(self, connection: sqlite3.Connection) -> None:
        ids = release_tasks(connection, self.processes.id)
        for id in ids:
            self.messages.insert(connection, task_topic(id), TASK_CHANGED)
        if ids:
            self.messages.insert(connection, TASKS_TOPIC, TASK_QUEUED)

    def _settle(self, database: Database, writer: str) -> None:
        def work(connection: sqlite3.Connection) -> bool:
            return self.events.settle_writer(connection, writer=writer, now=self.clock.now())

        while database.write_now(work):
            pass

    def _enter(self, connection: sqlite3.Connection) -> list[str]:
        """Register this process as a writer; return the writers that have ended."""
        writers = _writers(connection)
        gone = self._ended_writers(writers)
        # Use the epoch of the other processes; if there are none, set a new one.
        if len(gone) < len(writers):
            self.clock.use_epoch(connection.execute("SELECT value FROM meta WHERE name = 'epoch'").fetchone()[0])
        else:
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('epoch', ?)", (self.clock.set_epoch(),))
            self._bound_ages(connection)
        connection.execute("INSERT INTO writers VALUES (?)", (self.processes.id,))
        return gone

    def _bound_ages(self, connection: sqlite3.Connection) -> None:
        """Limit stored times: none is in the future, and nothing expires in the first minute."""
        # The wall clock may have been set since the last use of the file.
        now, bounds = self.clock.now(), self.bounds
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
        # Results that are kept longer than usual have a time in the future, which is left unchanged.
        oldest = now - EFFECT_SECONDS + _RESTART_GRACE_SECONDS
        connection.execute("UPDATE effects SET touched = ?1 WHERE touched < ?1", (oldest,))
        # Clients know the expiry of a task, so it is moved only if the time of creation is in the future.
        connection.execute("UPDATE tasks SET expires = expires - created + ?1, created = ?1 WHERE created > ?1", (now,))
        # The arrival time of an empty quota is the maximum.
        connection.execute("UPDATE quotas SET arrival = min(arrival, ? + tolerance)", (now,))


def _writers(connection: sqlite3.Connection) -> list[str]:
    return [id for (id,) in connection.execute("SELECT id FROM writers")]
