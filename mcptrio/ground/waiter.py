"""A task's wait for one result, which another task or the event loop sets.

Used wherever a task waits for its own answer: a client for a response, a sender for room, a worker for a request. It is
the only module that reschedules tasks by hand, because the rules for it are easy to break: a task that was cancelled
must not be rescheduled again, although it has not run yet.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import outcome
import trio

__all__ = ["Waiter"]

T = TypeVar("T")


class Waiter(Generic[T]):
    """The wait of one task for one result, which is set at most once.

    The task that is to wait creates it, makes it known to the task that has the result, and calls :meth:`wait`.
    """

    __slots__ = ("_is_over", "_result", "_task")

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None
        self._result: outcome.Outcome[T] | None = None
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """Whether a result would be lost, because one was set already or the task was cancelled."""
        return self._is_over

    def set(self, value: T) -> bool:
        """Hand over the result. Does not block.

        Returns:
            False if the task has a result already or no longer waits, because it was cancelled. The value is lost then.
        """
        return self.settle(outcome.Value(value))

    def fail(self, error: BaseException) -> bool:
        """Have :meth:`wait` raise an exception. Returns as :meth:`set`."""
        return self.settle(outcome.Error(error))

    def settle(self, result: outcome.Outcome[T]) -> bool:
        """Hand over a value or an exception: see :meth:`set` and :meth:`fail`. Returns as :meth:`set`."""
        if self._is_over:
            return False
        self._is_over = True
        task, self._task = self._task, None
        if task is None:
            self._result = result
        else:
            trio.lowlevel.reschedule(task, result)
        return True

    async def wait(self) -> T:
        """Return the result, or raise it. Called once, by one task.

        A checkpoint only if the result is not there yet.
        """
        if self._result is not None:
            # Not kept: the traceback of an exception would hold this frame, and the frame the exception.
            result, self._result = self._result, None
            return result.unwrap()
        self._task = trio.lowlevel.current_task()
        value: T = await trio.lowlevel.wait_task_rescheduled(self._leave)
        return value

    def _leave(self, _: object) -> trio.lowlevel.Abort:
        # Called in the turn in which the task is cancelled. It runs later, and a result may come until then.
        self._is_over = True
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED
