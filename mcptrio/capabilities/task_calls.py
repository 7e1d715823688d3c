"""Tool calls that become tasks: immediately, after some seconds, or because the client asks for a task.

The capability of tools uses this module for each call that may become a task.

Source: MCP extension io.modelcontextprotocol/tasks, 2026-07-28; MCP 2025-11-25, basic/utilities/tasks, "Tool-Level
Negotiation".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import evolve

from mcptrio.capabilities.decorators import ToolMark
from mcptrio.capabilities.owner import Owner
from mcptrio.capabilities.task_tools import start_name
from mcptrio.errors import MethodNotFound, MissingClientCapability
from mcptrio.ground.deadlines import Deadlines
from mcptrio.ground.guarded import Done, Failure
from mcptrio.protocol.model.tasks import TASKS_EXTENSION, CreateTaskResult
from mcptrio.protocol.model.tools import CallToolParams, CallToolResult
from mcptrio.protocol.revisions.registry import MODERN_VERSIONS
from mcptrio.protocol.revisions.revision import TaskCreation
from mcptrio.runtime.request import RequestScope
from mcptrio.runtime.settings import ServerSettings
from mcptrio.tasks.call import supports_tasks
from mcptrio.tasks.plan import AdoptionPlan
from mcptrio.tasks.tasks import TaskPolicy, Tasks

__all__ = ["TaskCalls", "policy_of"]

MAX_DEFAULT_TTL = 86_400.0
"""The longest default ttl of a task in seconds."""
MIN_TTL = 1.0
"""The shortest ttl in seconds that a client can choose."""


class TaskCalls:
    """Runs the tool calls that may become tasks.

    Args:
        deadlines: Ends the wait for a result before a call becomes a task.
    """

    def __init__(self, tasks: Tasks, settings: ServerSettings, deadlines: Deadlines) -> None:
        self._tasks = tasks
        self._settings = settings
        self._deadlines = deadlines

    async def begin(
        self,
        scope: RequestScope,
        params: CallToolParams,
        mark: ToolMark,
        owner: Owner,
        convert: Callable[[Done[Any] | Failure], CallToolResult],
    ) -> CreateTaskResult | None:
        """Make the call a task now, or prepare that it may become one later. Returns ``None`` if the call runs now.

        Args:
            convert: Makes the result of the call from the outcome of the handler.

        Raises:
            MethodNotFound: The client must ask for a task, or must not ask for one (2025-11-25).
            MissingClientCapability: The tool is only for clients that support tasks, and this client does not.
        """
        # Set before the wait for the store, so that the status of the request has these names.
        scope.label, scope.owner = params.name, owner.plugin
        peer = scope.request.peer
        policy = partial(policy_of, mark, owner, self._settings)
        if peer.revision.tasks is TaskCreation.BY_CLIENT:
            if params.task is not None:
                return await self._tasks.submit(scope, self._requested_policy(params, mark, policy()))
            if mark.task == "required":
                raise MethodNotFound(
                    f"tool `{params.name}` always runs as a task: add the parameter `task`"
                    f"{_or_start(params.name, mark)}"
                )
            return None
        if not supports_tasks(peer):
            if mark.task == "required":
                raise MissingClientCapability(
                    f"tool `{params.name}` always runs as a task: it needs a client of {MODERN_VERSIONS[0]} with the"
                    f" extension {TASKS_EXTENSION}{_or_start(params.name, mark)}",
                    required={"extensions": {TASKS_EXTENSION: {}}},
                )
            return None
        if mark.task == "required" or not self._tasks.runs_here:
            return await self._tasks.submit(scope, policy())
        scope.plan = AdoptionPlan(
            self._tasks,
            scope,
            deadlines=self._deadlines,
            after=self._settings.timeouts.task_after,
            policy=policy,
            convert=convert,
        )
        return None

    @staticmethod
    def _requested_policy(params: CallToolParams, mark: ToolMark, policy: TaskPolicy) -> TaskPolicy:
        """Return the policy with the client's ttl, if it is shorter."""
        assert params.task is not None
        if mark.task == "never":
            raise MethodNotFound(f"tool `{params.name}` never runs as a task: omit the parameter `task`")
        if params.task.ttl is None:
            return policy
        return evolve(policy, ttl=min(policy.ttl, max(MIN_TTL, params.task.ttl / 1000)))


def policy_of(mark: ToolMark, owner: Owner, settings: ServerSettings) -> TaskPolicy:
    """Return the policy for tasks of a tool."""
    limits = owner.limits
    return TaskPolicy(
        ttl=mark.ttl if mark.ttl is not None else min(settings.timeouts.request, MAX_DEFAULT_TTL),
        poll_interval=mark.poll_interval,
        resumable=mark.resumable,
        timeout=mark.timeout if mark.timeout is not None or limits is None else limits.timeout,
        is_queued=mark.concurrency is not None,
    )


def _or_start(name: str, mark: ToolMark) -> str:
    return f", or call {start_name(name)} instead" if mark.fallback_tools else ""
