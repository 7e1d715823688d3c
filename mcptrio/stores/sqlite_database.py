"""A SQLite database under Trio: one writer that commits waiting writes together, and concurrent readers.

:func:`mcptrio.stores.sqlite.open_sqlite_stores` opens it; the stores pass it functions that take a connection.

Source: sqlite.org/wal.html, "Concurrency"; sqlite.org/threadsafe.html.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import outcome
import trio

from mcptrio.errors import MCPTrioError, StoreFailed
from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.stores.batch_writer import BatchWriter
from mcptrio.stores.sqlite_file import FileBounds, open_file, store_failed

__all__ = ["Database", "open_database"]

T = TypeVar("T")

Work: TypeAlias = "Callable[[sqlite3.Connection], T]"
"""A function that runs in a thread and uses nothing but the connection. If a batch fails, it runs again after a
rollback."""

# Read connections, and threads that use them.
_READERS: Final = 4
# Seconds for the last write and for closing; after that the thread on a hanging disk is abandoned.
_CLOSE_TIMEOUT: Final = 10.0

_log = logging.getLogger("mcptrio.stores")


class Database:
    """A database with one writer and several readers. Made by :func:`open_database`."""

    def __init__(self, path: Path, writer: sqlite3.Connection, readers: list[sqlite3.Connection]) -> None:
        self.path = path
        self._writer = writer
        self._readers = readers
        self._reading = trio.CapacityLimiter(len(readers))
        self._batches: BatchWriter[Work[Any]] = BatchWriter(str(path), partial(_commit, writer, path))
        self.writes_failed_at: float | None = None
        """Trio clock time of the first write that has failed since the last successful one; None if there is none."""

    async def write(self, work: Work[T]) -> T:
        """Run ``work`` in a transaction and return its result once that is committed.

        If the caller is cancelled while the write is in the queue, the write is not executed. Later it is executed, and
        its result is dropped. If one write of a batch fails, only that write is rolled back.

        Raises:
            StoreFailed: The write failed, or the store is closed.
        """
        try:
            result: T = await self._batches.write(work)
        except StoreFailed:
            if self.writes_failed_at is None:
                self.writes_failed_at = trio.current_time()
            raise
        self.writes_failed_at = None
        return result

    def post(self, work: Work[Any]) -> None:
        """Add a write whose result is not needed. Does not block; the write is dropped if too many wait."""
        self._batches.post(work)

    @property
    def waiting(self) -> int:
        """Number of writes in the queue."""
        return self._batches.waiting

    async def read(self, work: Work[T]) -> T:
        """Run ``work`` on a snapshot of the committed data. Does not wait for writers.

        Raises:
            StoreFailed: The file cannot be read.
        """
        return await trio.to_thread.run_sync(self._read, work, limiter=self._reading)

    async def run(self) -> None:
        """Run the writer until cancelled. The current transaction is completed first."""
        await self._batches.run()

    def write_now(self, work: Work[T]) -> T:
        """Run ``work`` like :meth:`write`, from a thread, while the writer does not run."""
        result: T = _commit(self._writer, self.path, [work])[0].unwrap()
        return result

    def close(self) -> None:
        """Close all connections; blocks. The last process to close the file leaves no write-ahead log."""
        for connection in (*self._readers, self._writer):
            connection.close()

    def _read(self, work: Work[T]) -> T:
        # The limiter admits as many threads as there are connections, and list.pop is atomic.
        connection = self._readers.pop()
        try:
            # In one transaction, several statements see the same state.
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise store_failed(self.path, error) from error
        finally:
            self._readers.append(connection)


@asynccontextmanager
async def open_database(
    path: Path,
    *,
    bounds: FileBounds,
    begin: Callable[[Database], None],
    watch: Callable[[Database], Awaitable[None]],
    end: Callable[[Database], None],
) -> AsyncIterator[Database]:
    """Open a database and run its writer during the body. Exceptions of the body are raised unchanged.

    Args:
        bounds: Limits of the file.
        begin: A function called in a thread after the file is opened.
        watch: Runs during the body until cancelled. Must not raise.
        end: A function called in a thread before the file is closed. Its StoreFailed is logged.

    Raises:
        StoreFailed: The file cannot be opened.
    """
    # A separate limiter, so opening and closing never wait for threads of other parts of the program.
    alone = trio.CapacityLimiter(1)
    database = await trio.to_thread.run_sync(partial(_open, path, bounds, begin), limiter=alone)
    try:
        async with open_hidden_nursery() as nursery:
            nursery.start_soon(database.run)
            nursery.start_soon(watch, database)
            yield database
    finally:
        # Shielded: the last write has to happen even if the server is cancelled.
        with trio.move_on_after(_CLOSE_TIMEOUT, shield=True) as scope:
            await trio.to_thread.run_sync(_close, database, end, abandon_on_cancel=True, limiter=alone)
        if scope.cancelled_caught:
            _log.error("%s: could not be closed within %g s", path, _CLOSE_TIMEOUT)


def _open(path: Path, bounds: FileBounds, begin: Callable[[Database], None]) -> Database:
    connections: list[sqlite3.Connection] = []
    opened = False
    try:
        for _ in range(1 + _READERS):
            connections.append(open_file(path, bounds))  # noqa: PERF401 - the finally block closes those that are open
        for connection in connections[1:]:
            connection.execute("PRAGMA query_only=ON")
        database = Database(path, connections[0], connections[1:])
        begin(database)
        opened = True
    finally:
        if not opened:
            for connection in connections:
                connection.close()
    return database


def _close(database: Database, end: Callable[[Database], None]) -> None:
    try:
        end(database)
    except StoreFailed as error:
        _log.error("%s", error)
    finally:
        try:
            database.close()
        except sqlite3.Error as error:
            _log.error("%s", store_failed(database.path, error))


def _commit(
    connection: sqlite3.Connection, path: Path, works: Sequence[Work[Any]]
) -> list[outcome.Value[Any] | outcome.Error]:
    """Run all works in one transaction; if one fails, run each in its own transaction."""
    together = outcome.capture(_transact, connection, works)
    if isinstance(together, outcome.Value):
        return [outcome.Value(value) for value in together.value]
    error = together.error
    # Another process holds the lock: each separate attempt would wait for the whole timeout again.
    if len(works) == 1 or _is_busy(error):
        return [outcome.Error(_caller_error(path, error)) for _ in works]
    return [_commit(connection, path, [work])[0] for work in works]


def _transact(connection: sqlite3.Connection, works: Sequence[Work[Any]]) -> list[Any]:
    if connection.in_transaction:
        # A failed rollback of an earlier transaction has left it open.
        connection.execute("ROLLBACK")
    # Takes the write lock at once: a transaction that starts with a read cannot wait for it (SQLITE_BUSY_SNAPSHOT).
    connection.execute("BEGIN IMMEDIATE")
    committed = False
    try:
        results = [work(connection) for work in works]
        connection.execute("COMMIT")
        committed = True
        return results
    finally:
        # Some errors roll back the transaction themselves, for example SQLITE_FULL.
        if not committed and connection.in_transaction:
            connection.execute("ROLLBACK")


def _is_busy(error: BaseException) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY")


def _caller_error(path: Path, error: BaseException) -> BaseException:
    """Return the exception for one caller. Each caller raises it, so each gets an instance of its own."""
    if isinstance(error, sqlite3.Error):
        failed = store_failed(path, error)
        failed.__cause__ = error
        return failed
    if isinstance(error, MCPTrioError):
        return error
    failed = StoreFailed(f"{path}: {type(error).__name__}: {error}")
    failed.__cause__ = error
    return failed
