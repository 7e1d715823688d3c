"""The SQLite database: one writer at a time, readers that do not wait for the writer, and cancellable queries.

The plugin's lifespan opens it, and tools pass it functions that take :class:`Statements`. One thread at a time uses a
connection, and its caller waits until the thread has ended, so no connection is left in the middle of a query. A
cancellation interrupts the query. An uncommitted change is rolled back. If the change was committed before, the caller
receives its result. Changes wait in a queue, which the server's limit on requests bounds.

Source: sqlite.org/wal.html, "Concurrency"; sqlite.org/c3ref/interrupt.html.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import outcome
import trio

from .file import is_busy, open_file, open_reader, unavailable
from .statements import CallCancelled, Statements, Work

__all__ = ["MemoryDatabase", "open_database"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

READERS: Final = 4
"""Connections for reading, and the number of concurrent reads; further ones wait."""
_CLOSE_TIMEOUT: Final = 10.0
"""Seconds for closing. After that, a thread that a hanging disk blocks is abandoned."""
_STEPS_PER_CHECK: Final = 20_000
"""Steps of SQLite's virtual machine between two checks for a cancellation: less than a millisecond."""
_BUSY_MS: Final = 100
"""Milliseconds that SQLite waits for another process. Longer waits happen in Trio, where they can be cancelled."""


class MemoryDatabase:
    """A knowledge graph database, opened by :func:`open_database`."""

    def __init__(self, writer: sqlite3.Connection, readers: list[sqlite3.Connection], busy_timeout: float) -> None:
        self._writer = writer
        self._write_lock = trio.Lock()
        self._readers = readers
        self._read_limiter = trio.CapacityLimiter(len(readers))
        self._busy_timeout = busy_timeout

    async def write(self, work: Work[T]) -> T:
        """Run a function in a transaction, and return its result after the commit.

        Raises:
            MemoryUnavailable: The transaction failed, and nothing was changed.
        """
        async with self._write_lock:
            deadline = trio.current_time() + self._busy_timeout
            pause = 0.001
            while True:
                try:
                    return await _in_thread(self._writer, partial(_transact, "BEGIN IMMEDIATE", "COMMIT", work))
                except sqlite3.Error as error:
                    if not is_busy(error) or trio.current_time() > deadline:
                        raise unavailable(error) from error
                await trio.sleep(pause)
                pause = min(2 * pause, 0.05)

    async def read(self, work: Work[T]) -> T:
        """Run a function on a snapshot of the committed data.

        Raises:
            MemoryUnavailable: The file cannot be read.
        """
        async with self._read_limiter:
            # The limiter admits as many calls as there are connections.
            connection = self._readers.pop()
            try:
                return await _in_thread(connection, partial(_transact, "BEGIN", "ROLLBACK", work))
            except sqlite3.Error as error:
                raise unavailable(error) from error
            finally:
                self._readers.append(connection)

    def close(self) -> None:
        """Close the file; blocks. The last connection also removes the write-ahead log."""
        for connection in (*self._readers, self._writer):
            connection.close()


@asynccontextmanager
async def open_database(path: Path, *, max_bytes: int, busy_timeout: float) -> AsyncIterator[MemoryDatabase]:
    """Open the database inside the context.

    Args:
        max_bytes: Maximum size of the file.
        busy_timeout: Seconds that a change waits for other processes.

    Raises:
        MemoryUnavailable: The database cannot be opened.
    """
    limiter = trio.CapacityLimiter(1)
    database = await trio.to_thread.run_sync(_open, path, max_bytes, busy_timeout, limiter=limiter)
    try:
        yield database
    finally:
        with trio.move_on_after(_CLOSE_TIMEOUT, shield=True) as close_scope:
            await trio.to_thread.run_sync(_close, database, abandon_on_cancel=True, limiter=limiter)
        if close_scope.cancelled_caught:
            logger.error("%s: could not be closed within %g s", path, _CLOSE_TIMEOUT)


def _open(path: Path, max_bytes: int, busy_timeout: float) -> MemoryDatabase:
    connections: list[sqlite3.Connection] = []
    opened = False
    try:
        connections.append(open_file(path, max_bytes=max_bytes, busy_timeout=busy_timeout))
        connections[0].execute(f"PRAGMA busy_timeout={_BUSY_MS}")
        for _ in range(READERS):
            connections.append(open_reader(path))  # noqa: PERF401 - after an error, those that were opened are closed
        opened = True
    finally:
        if not opened:
            for connection in connections:
                connection.close()
    return MemoryDatabase(connections[0], connections[1:], busy_timeout)


def _close(database: MemoryDatabase) -> None:
    try:
        database.close()
    except sqlite3.Error as error:
        logger.error("%s", unavailable(error))  # noqa: TRY400 - a traceback would add nothing


def _transact(begin: str, end: str, work: Work[T], statements: Statements) -> T:
    ended = False
    statements.roll_back()  # needed if the rollback of the previous transaction has failed
    statements.execute(begin)
    try:
        result = work(statements)
        statements.execute(end)
        ended = True
        return result
    finally:
        if not ended:
            statements.roll_back()


async def _in_thread(connection: sqlite3.Connection, work: Work[T]) -> T:
    """Run ``work`` in a thread and return its result. A cancellation interrupts the query and waits for the thread.

    ``trio.to_thread`` would either abandon the thread, which still uses the connection, or wait for the whole query.
    """
    await trio.lowlevel.checkpoint_if_cancelled()
    task = trio.lowlevel.current_task()
    token = trio.lowlevel.current_trio_token()
    statements = Statements(connection)
    raise_cancel: trio.lowlevel.RaiseCancelT | None = None

    def run() -> T:
        connection.set_progress_handler(lambda: statements.stopped, _STEPS_PER_CHECK)
        try:
            return work(statements)
        finally:
            connection.set_progress_handler(None, 0)

    def deliver(result: outcome.Outcome[T]) -> None:
        # Trio is still running, because the task waits for this result.
        token.run_sync_soon(trio.lowlevel.reschedule, task, outcome.Value(result))

    def interrupt(raiser: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
        nonlocal raise_cancel
        raise_cancel = raiser
        statements.stop()
        return trio.lowlevel.Abort.FAILED

    trio.lowlevel.start_thread_soon(run, deliver)
    result: outcome.Outcome[T] = await trio.lowlevel.wait_task_rescheduled(interrupt)
    if (
        raise_cancel is not None
        and isinstance(result, outcome.Error)
        and isinstance(result.error, (sqlite3.Error, CallCancelled))
    ):
        raise_cancel()
    return result.unwrap()
