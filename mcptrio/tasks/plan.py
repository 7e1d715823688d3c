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

    async def settle(self, run: Run, channel: Channel) -> CreateTaskResult | None:
        """See :class:`mcptrio.runtime.long_work.TaskPlan`."""
        with trio.move_on_after(self._after):
            await run.settle()
        # Another process that resumes the task would repeat a side effect that no store knows of.
        while run.has_unclaimed and not (run.has_ended or run.asks):
            await run.wait_changed()
        if run.has_ended or run.asks:
            return None
        try:
            return await self._tasks.adopt(self._scope, self._policy, run, channel, self._convert)
        except (Overloaded, StoreFailed) as error:
            _log.warning("%s continues as a call without a task: %s", self._scope.label, error)
        await run.settle()
        return None
