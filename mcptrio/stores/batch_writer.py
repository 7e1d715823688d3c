"""Executes the operations of many tasks in batches, in one thread.

The SQLite stores commit a batch in one transaction; stores over a network send it in one round trip. The thread has at
most one batch, so a slow store makes the next batch larger.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

import outcome
import trio
from attrs import define, field

from mcptrio.errors import StoreFailed
from mcptrio.ground.waiter import Waiter

__all__ = ["BatchWriter"]

W = TypeVar("W")

MAX_WAITING: Final = 1000
"""Operations in the queue; further callers wait for room."""
MAX_WAITING_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the operations in the queue. A larger operation enters an empty queue."""
MAX_BATCH: Final = 256
"""Operations in one batch."""


@define(eq=False)
class _Waiting(Generic[W]):
    work: W
    size: int
    waiter: Waiter[Any] = field(factory=Waiter)


class BatchWriter(Generic[W]):
    """A queue of operations, and the thread that executes them in batches. :meth:`run` must run while it is used.

    Args:
        name: The store, for errors.
        execute: Executes a batch in a thread, and returns a result or an error for each operation. It must not raise,
            and must return within a bounded time, because closing waits for it.
        timeout: Seconds that an operation may take, from its arrival; infinite if ``execute`` sets its own deadlines.
    """

    def __init__(
        self,
        name: str,
        execute: Callable[[Sequence[W]], Sequence[outcome.Value[Any] | outcome.Error]],
        *,
        timeout: float = float("inf"),
    ) -> None:
        self._name = name
        self._execute = execute
        self._timeout = timeout
        self._waiting: deque[_Waiting[W]] = deque()
        self._bytes = 0
        self._arrived = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()
        self._batch: list[_Waiting[W]] = []
        """The batch that the thread executes; empty while the thread waits."""
        # At most one batch; None ends the thread.
        self._handed_over: SimpleQueue[list[_Waiting[W]] | None] = SimpleQueue()
        # A limiter of its own, so the thread never waits for threads of other parts of the program.
        self._limiter = trio.CapacityLimiter(1)
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """The number of operations in the queue."""
        return len(self._waiting)

    async def write(self, work: W, size: int = 0) -> Any:
        """Execute an operation in the next batch, and return its result.

        If the caller is cancelled while the operation is in the queue, the operation is not executed. After that it is
        executed, and its result is dropped.

        Args:
            size: Bytes that the operation holds in memory.

        Raises:
            StoreFailed: The writer is closed, or the operation took longer than the timeout and may still be executed.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._timeout == float("inf"):
            return await self._write(work, size)
        with trio.move_on_after(self._timeout):
            return await self._write(work, size)
        raise StoreFailed(f"{self._name}: expected an answer within {self._timeout:g} s, got none")

    def post(self, work: W, size: int = 0) -> bool:
        """Queue an operation whose result is not needed. Does not block.

        Returns:
            False if the operation was dropped, because the queue is full or closed.
        """
        if self._is_closed or not self._has_room(size):
            return False
        self._put(_Waiting(work, size))
        return True

    async def run(self) -> None:
        """Execute operations until cancelled. The current batch is completed first."""
        try:
            async with trio.open_nursery() as nursery:
                # One thread for all batches: a call of to_thread.run_sync() for each batch takes 30 µs more.
                nursery.start_soon(self._run_thread, trio.lowlevel.current_trio_token())
                try:
                    while True:
                        if self._waiting and not self._batch:
                            self._hand_over()
                        # This task runs in the next step of the event loop, so the operations that arrive in this step
                        # form one batch.
                        await self._arrived.park()
                finally:
                    self._is_closed = True
                    self._handed_over.put(None)
        finally:
            self._room.unpark_all()
            for each in (*self._batch, *self._waiting):
                each.waiter.fail(StoreFailed(f"{self._name}: the store is closed"))
            self._waiting.clear()

    async def _run_thread(self, token: trio.lowlevel.TrioToken) -> None:
        def run() -> None:
            while (batch := self._handed_over.get()) is not None:
                done = self._execute([each.work for each in batch])
                # zip() may raise, and an exception inside run_sync_soon() would end the event loop.
                token.run_sync_soon(self._finish, list(zip(batch, done, strict=True)))

        # Not abandoned on cancellation: until the thread returns, the outcome of the batch is unknown.
        await trio.to_thread.run_sync(run, limiter=self._limiter)

    def _hand_over(self) -> None:
        """Pass the next batch to the idle thread."""
        self._batch = self._take()
        if self._batch:
            self._handed_over.put(self._batch)

    def _finish(self, done: Sequence[tuple[_Waiting[W], outcome.Value[Any] | outcome.Error]]) -> None:
        self._batch = []
        for each, result in done:
            each.waiter.settle(result)
        if self._waiting:
            # run() hands over the next batch: if it was cancelled, the rest must not be executed.
            self._arrived.unpark()

    async def _write(self, work: W, size: int) -> Any:
        # Backpressure: callers wait here while the store is slower than they are.
        while not self._has_room(size) and not self._is_closed:
            await self._room.park()
        if self._is_closed:
            raise StoreFailed(f"{self._name}: the store is closed")
        waiting = _Waiting(work, size)
        self._put(waiting)
        return await waiting.waiter.wait()

    def _has_room(self, size: int) -> bool:
        if not self._waiting:
            return True
        return len(self._waiting) < MAX_WAITING and self._bytes + size <= MAX_WAITING_BYTES

    def _put(self, waiting: _Waiting[W]) -> None:
        self._waiting.append(waiting)
        self._bytes += waiting.size
        self._arrived.unpark()

    def _take(self) -> list[_Waiting[W]]:
        batch: list[_Waiting[W]] = []
        while self._waiting and len(batch) < MAX_BATCH:
            each = self._waiting.popleft()
            self._bytes -= each.size
            # Skip the operation of a caller that was cancelled in the meantime.
            if not each.waiter.is_done:
                batch.append(each)
        self._room.unpark_all()
        return batch
