"""A SQLite database under Trio: one writer that commits what waits together, and readers that do not wait for it.

Made by :func:`mcptrio.stores.sqlite.open_sqlite_stores`; the stores hand it functions of a connection.
The one rule: whoever waits for a write is told of its own success or failure. One that fails is undone alone; the
others of its transaction are done again without it.

Who writes waits while :data:`WAITING` others do. A write that is cancelled before its turn is not done; in its turn it
is done, and nobody is told.

Source: sqlite.org/wal.html, "Concurrency"; sqlite.org/threadsafe.html.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

import outcome
import trio
from attrs import define, field

from mcptrio.errors import MCPTrioError, StoreFailed
from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.ground.waiter import Waiter
from mcptrio.stores.sqlite_file import FileBounds, open_file, store_failed

__all__ = ["Database", "open_database"]

T = TypeVar("T")

Work: TypeAlias = "Callable[[sqlite3.Connection], T]"
"""Runs in a thread, possibly twice (what it did the first time is undone); touches nothing but the connection."""

WAITING: Final = 1000
"""Writes that may wait for their turn; more wait to wait."""
_MAX_BATCHED_WRITES: Final = 256
"""Writes in one transaction."""
_READERS: Final = 4
"""Connections that read, and threads that do so at the same time."""
_CLOSE_TIMEOUT: Final = 10.0
"""Seconds for the last write, and for closing. A disk that hangs is left to itself then."""

_log = logging.getLogger("mcptrio.stores")


@define(eq=False)
class _Waiting(Generic[T]):
    work: Work[T]
    waiter: Waiter[T] = field(factory=Waiter)


class Database:
    """Made by :func:`open_database`."""

    def __init__(self, path: Path, writer: sqlite3.Connection, readers: list[sqlite3.Connection]) -> None:
        self.path = path
        self._writer = writer
        self._readers = readers
        self._reading = trio.CapacityLimiter(len(readers))
        self._writing = trio.CapacityLimiter(1)
        self._waiting: deque[_Waiting[Any]] = deque()
        self._arrived = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()
        self._closed = False

    async def write(self, work: Work[T]) -> T:
        """Do it in a transaction, and return when that is committed.

        Raises:
            StoreFailed: it was not done.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while len(self._waiting) >= WAITING and not self._closed:
            await self._room.park()
        if self._closed:
            raise StoreFailed(f"{self.path}: the store is closed")
        waiting = _Waiting(work)
        self._waiting.append(waiting)
        self._arrived.unpark()
        return await waiting.waiter.wait()

    async def read(self, work: Work[T]) -> T:
        """Do it on a snapshot of what is committed.

        Raises:
            StoreFailed: the file cannot be read.
        """
        return await trio.to_thread.run_sync(self._read, work, limiter=self._reading)

    async def run(self) -> None:
        """The writer. Runs until cancelled, and finishes the transaction it is in."""
        batch: list[_Waiting[Any]] = []
        try:
            while True:
                while not self._waiting:
                    await self._arrived.park()
                batch = self._take()
                works = [each.work for each in batch]
                # Without waiting for the disk nothing is known of the transaction, so this is not abandoned.
                done = await trio.to_thread.run_sync(_commit, self._writer, self.path, works, limiter=self._writing)
                for each, result in zip(batch, done, strict=True):
                    each.waiter.settle(result)
                batch = []
        finally:
            self._closed = True
            self._room.unpark_all()
            for each in (*batch, *self._waiting):
                each.waiter.fail(StoreFailed(f"{self.path}: the store was closed"))
            self._waiting.clear()

    def write_now(self, work: Work[T]) -> T:
        """The same as :meth:`write` for who is in a thread, while no writer runs."""
        result: T = _commit(self._writer, self.path, [work])[0].unwrap()
        return result

    def close(self) -> None:
        """Blocks. The last one to close a file leaves no log beside it."""
        for connection in (*self._readers, self._writer):
            connection.close()

    def _take(self) -> list[_Waiting[Any]]:
        batch: list[_Waiting[Any]] = []
        while self._waiting and len(batch) < _MAX_BATCHED_WRITES:
            each = self._waiting.popleft()
            if not each.waiter.is_over:
                batch.append(each)
        if len(self._waiting) < WAITING:
            self._room.unpark_all()
        return batch

    def _read(self, work: Work[T]) -> T:
        # There is one for everybody whom the limiter lets in, and list.pop is atomic.
        connection = self._readers.pop()
        try:
            # Several statements see the same moment.
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
    """The database, whose writer runs meanwhile. What the body raises comes out as it was raised.

    Args:
        begin: called in a thread once it is open.
        watch: runs until cancelled. Raises nothing.
        end: called in a thread before it is closed. What it raises is logged.

    Raises:
        StoreFailed: it cannot be opened.
    """
    # Whatever other threads are doing.
    alone = trio.CapacityLimiter(1)
    database = await trio.to_thread.run_sync(partial(_open, path, bounds, begin), limiter=alone)
    try:
        async with open_hidden_nursery() as nursery:
            nursery.start_soon(database.run)
            nursery.start_soon(watch, database)
            yield database
    finally:
        with trio.move_on_after(_CLOSE_TIMEOUT, shield=True) as patience:
            await trio.to_thread.run_sync(_close, database, end, abandon_on_cancel=True, limiter=alone)
        if patience.cancelled_caught:
            _log.error("%s: could not be closed within %g s", path, _CLOSE_TIMEOUT)


def _open(path: Path, bounds: FileBounds, begin: Callable[[Database], None]) -> Database:
    connections: list[sqlite3.Connection] = []
    opened = False
    try:
        for _ in range(1 + _READERS):
            connections.append(open_file(path, bounds))  # noqa: PERF401 - those made are closed
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
    """Do all of it in one transaction, or, where one part fails, each part in one of its own."""
    together = outcome.capture(_transact, connection, works)
    if isinstance(together, outcome.Value):
        return [outcome.Value(value) for value in together.value]
    error = together.error
    if len(works) == 1 or _is_busy(error):
        return [outcome.Error(_spoken(path, error)) for _ in works]
    return [_commit(connection, path, [work])[0] for work in works]


def _transact(connection: sqlite3.Connection, works: Sequence[Work[Any]]) -> list[Any]:
    if connection.in_transaction:
        connection.execute("ROLLBACK")  # the one before could not even be undone
    connection.execute("BEGIN IMMEDIATE")
    committed = False
    try:
        results = [work(connection) for work in works]
        connection.execute("COMMIT")
        committed = True
        return results
    finally:
        # Some errors have undone all of it already.
        if not committed and connection.in_transaction:
            connection.execute("ROLLBACK")


def _is_busy(error: BaseException) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY")


def _spoken(path: Path, error: BaseException) -> BaseException:
    """What whoever waits is told; each gets an exception of its own, since each raises it."""
    if isinstance(error, sqlite3.Error):
        failed = store_failed(path, error)
        failed.__cause__ = error
        return failed
    if isinstance(error, MCPTrioError):
        return error
    failed = StoreFailed(f"{path}: {type(error).__name__}: {error}")
    failed.__cause__ = error
    return failed
