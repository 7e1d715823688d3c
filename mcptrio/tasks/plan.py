"""How a running call becomes a task: a tool with ``task="optional"``, for a client that has tasks.

Source: MCP extension io.modelcontextprotocol/tasks, "Task Creation": questions before the creation are answered in
round trips of the call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import trio

from mcptrio.errors import Overloaded, StoreFailed
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
        after: Seconds after which the call becomes a task.
        convert: Returns the result of the call from that of the handler.
    """

    def __init__(
        self,
        tasks: Tasks,
        scope: RequestScope,
        policy: TaskPolicy,
        *,
        after: float,
        convert: Callable[[Done[Any] | Failure], CallToolResult],
    ) -> None:
        self._tasks = tasks
        self._scope = scope
        self._policy = policy
        self._after = after
        self._convert = convert
        self._is_wanted = False
        self._decided = trio.Event()
        self._run: Run | None = None

    async def begin(self) -> None:
        """See :class:`mcptrio.runtime.long_work.TaskPlan`."""
        self._is_wanted = True
        if self._run is not None:
            self._run.wake()
        await self._decided.wait()

    async def settle(self, run: Run, channel: Channel) -> CreateTaskResult | None:
        """See :class:`mcptrio.runtime.long_work.TaskPlan`."""
        self._run = run
        try:
            return await self._settle(run, channel)
        finally:
            self._run = None
            self._decided.set()

    async def _settle(self, run: Run, channel: Channel) -> CreateTaskResult | None:
        with trio.move_on_after(self._after):
            while not (self._is_wanted or run.has_ended or run.asks):
                await run.wait_changed()
        # Another process that resumes the task would repeat a side effect that no store knows of.
        while run.has_unclaimed and not (run.has_ended or run.asks):
            await run.wait_changed()
        if run.has_ended or run.asks:
            return None
        try:
            return await self._tasks.adopt(self._scope, self._policy, run, channel, self._convert)
        except (Overloaded, StoreFailed) as error:
            _log.warning("%s continues as a call without a task: %s", self._scope.label, error)
        self._decided.set()
        await run.settle()
        return None
