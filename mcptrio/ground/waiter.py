"""A task's wait for one result, which another task or the event loop sets.

Used wherever one task waits for one result: a client for a response, a sender for room, a worker for a request. No
other module reschedules tasks by hand, because the rules are easy to break: a cancelled task must not be rescheduled
again, even though it has not run yet.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import outcome
import trio

__all__ = ["Waiter"]

T = TypeVar("T")


class Waiter(Generic[T]):
    """The wait of one task for one result, which is set at most once.

    The waiting task creates it, passes it to the task that will have the result, and calls :meth:`wait`.
    """

    __slots__ = ("_is_done", "_result", "_task")

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None
        self._result: outcome.Outcome[T] | None = None
        self._is_done = False

    @property
    def is_done(self) -> bool:
        """True once a result was set or the waiting task was cancelled. A further result would be lost."""
        return self._is_done

    def set(self, value: T) -> bool:
        """Hand over the result. Does not block.

        Returns:
            False if a result was set before, or if the waiting task was cancelled. The value is then lost.
        """
        return self.settle(outcome.Value(value))

    def fail(self, error: BaseException) -> bool:
        """Make :meth:`wait` raise an exception. Returns the same as :meth:`set`."""
        return self.settle(outcome.Error(error))

    def settle(self, result: outcome.Outcome[T]) -> bool:
        """Hand over a value or an exception. Returns the same as :meth:`set`."""
        if self._is_done:
            return False
        self._is_done = True
        task, self._task = self._task, None
        if task is None:
            self._result = result
        else:
            trio.lowlevel.reschedule(task, result)
        return True

    async def wait(self) -> T:
        """Return the value, or raise the exception. Call it once, in one task.

        This is a checkpoint only if the result was not set before.
        """
        if self._result is not None:
            # Removed, to avoid a reference cycle: exception, traceback, this frame, exception.
            result, self._result = self._result, None
            return result.unwrap()
        self._task = trio.lowlevel.current_task()
        value: T = await trio.lowlevel.wait_task_rescheduled(self._abort)
        return value

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        # Trio calls this when the task is cancelled. The task runs later, and a result that is set until then is lost.
        self._is_done = True
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED
