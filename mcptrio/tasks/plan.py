"""Turns a running call of a tool with ``task="optional"`` into a task, for a client that supports tasks.

Source: MCP extension io.modelcontextprotocol/tasks, "Task Creation": questions before the creation are answered in
round trips of the call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import trio

from mcptrio.errors import Overloaded, StoreFailed
from mcptrio.ground.deadlines import Deadlines
from mcptrio.ground.guarded import Done, Failure
from mcptrio.protocol.model.tasks import CreateTaskResult
from mcptrio.protocol.model.tools import CallToolResult
from mcptrio.runtime.request import RequestScope
from mcptrio.runtime.runs import Channel, Run
from mcptrio.tasks.tasks import TaskPolicy, Tasks

__all__ = ["AdoptionPlan"]

_log = logging.getLogger("mcptrio.tasks")


class AdoptionPlan:
    """See :class:`mcptrio.runtime.long_work.TaskPlan`.

    Args:
        deadlines: Calls :meth:`expire` at the deadline. A cancel scope would cost a tenth of a short call.
        after: Seconds after which the call becomes a task.
        policy: Returns the policy of the new task.
        convert: Converts the result of the handler to the result of the call.
    """

    def __init__(
        self,
        tasks: Tasks,
        scope: RequestScope,
        *,
        deadlines: Deadlines,
        after: float,
        policy: Callable[[], TaskPolicy],
        convert: Callable[[Done[Any] | Failure], CallToolResult],
    ) -> None:
        self._tasks = tasks
        self._scope = scope
        self._deadlines = deadlines
        self._policy = policy
        self.deadline = trio.current_time() + after
        """Trio clock time at which the call becomes a task."""
        self._convert = convert
        self._is_due = False
        # Set once the call is a task or stays a call. Created in begin(), because few handlers wait for it.
        self._decided: trio.Event | None = None
        self._is_decided = False
        self._run: Run | None = None

    async def begin(self) -> None:
        """See :class:`mcptrio.runtime.long_work.TaskPlan`."""
        self.expire()
        if self._is_decided:
            await trio.lowlevel.checkpoint()
            return
        if self._decided is None:
            self._decided = trio.Event()
        await self._decided.wait()

    def expire(self) -> None:
        """See :class:`mcptrio.ground.deadlines.Timed`."""
        self._is_due = True
        if self._run is not None:
            self._run.wake()

    async def settle(self, run: Run, channel: Channel) -> CreateTaskResult | None:
        """See :class:`mcptrio.runtime.long_work.TaskPlan`."""
        self._run = run
        self._deadlines.add(self)
        try:
            return await self._settle(run, channel)
        finally:
            self._deadlines.discard(self)
            self._run = None
            self._end_wait()

    async def _settle(self, run: Run, channel: Channel) -> CreateTaskResult | None:
        while not (self._is_due or run.has_ended or run.asks):
            await run.wait_changed()
        # A process that resumes the task would repeat a side effect that is not claimed in the store.
        while run.has_unclaimed and not (run.has_ended or run.asks):
            await run.wait_changed()
        if run.has_ended or run.asks:
            return None
        try:
            return await self._tasks.adopt(self._scope, self._policy(), run, channel, self._convert)
        except (Overloaded, StoreFailed) as error:
            _log.warning("%s continues as a call without a task: %s", self._scope.label, error)
        run.keep = None
        self._end_wait()
        await run.settle()
        return None

    def _end_wait(self) -> None:
        self._is_decided = True
        if self._decided is not None:
            self._decided.set()
