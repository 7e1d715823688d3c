"""Calls an author's function for a request: with its context, its channel to the client and its deadline.

Tools, resources, prompts and completion use this. A function without a Context cannot ask, so it runs in the task of
the request. A function with a Context may outlive the request, so its input channel decides where it runs.
"""

from __future__ import annotations

from typing import Any

import trio

from mcptrio.capabilities.context import Context
from mcptrio.capabilities.functions import Function
from mcptrio.capabilities.logging import Logging
from mcptrio.capabilities.owner import Owner
from mcptrio.protocol.model.prompts import GetPromptParams
from mcptrio.protocol.model.resources import ReadResourceParams
from mcptrio.protocol.model.tools import CallToolParams
from mcptrio.protocol.revisions.revision import Inputs
from mcptrio.runtime.fair_limiter import FairLimiter
from mcptrio.runtime.inputs import BackChannel, InputChannel, NoChannel
from mcptrio.runtime.request import RequestScope
from mcptrio.runtime.round_trips import RoundTrips
from mcptrio.runtime.runs import Runs
from mcptrio.runtime.state import RuntimeState
from mcptrio.runtime.work import Work
from mcptrio.tasks.channel import TaskChannel

__all__ = ["FunctionCaller"]

_ANSWERED_BY_QUESTIONS = (CallToolParams, GetPromptParams, ReadResourceParams)
"""The only requests that may be answered with ``input_required``.

Source: MCP 2026-07-28, basic/patterns/mrtr.
"""


class FunctionCaller:
    """Calls the functions of plugins.

    Args:
        state: Counts the calls, and runs functions that are not ``async`` in its threads.
        logging: Receives the log messages of the functions.
    """

    def __init__(self, state: RuntimeState, logging: Logging) -> None:
        self._state = state
        self._logging = logging

    async def run(
        self,
        scope: RequestScope,
        function: Function,
        values: dict[str, Any],
        *,
        label: str,
        owner: Owner,
        timeout: float | None,
        limiter: FairLimiter | None = None,
    ) -> Any:
        """Return the function's result, or an InputRequiredResult if the client must answer first.

        Args:
            timeout: Seconds, from the start of the call; by default the operator's setting.
            limiter: The limiter of the tool itself, in addition to those of its plugin.

        Raises:
            RateLimited: There are too many calls of the plugin a second.
        """
        # From here on, the status and the log use this name for the call.
        scope.label = label
        scope.owner = owner.plugin
        with self._state.works.new(label, owner.plugin, scope) as work:
            limits = owner.limits
            if limits is not None:
                limits.check_rate()
                timeout = limits.timeout if timeout is None else timeout
            # The tool's own limiter first: calls that wait for a slow tool must not hold the places of other tools.
            if limiter is not None:
                await work.hold(limiter, "tool")
            if limits is not None and limits.limiter is not None:
                await work.hold(limits.limiter, "plugin")
            # Sync functions need a thread too. It is acquired last, because threads are the scarcest resource.
            if function.in_thread:
                await work.hold(self._state.threads.of_calls(owner.plugin), "thread")
            # The deadline starts here, because the function does not count its time in the queue.
            scope.begin(timeout)
            # A call that was cancelled or timed out while it waited must not begin.
            await trio.lowlevel.checkpoint_if_cancelled()
            # Most functions have no context. They need no channel, which saves about a tenth of a short call.
            # A call that may become a task needs a channel too.
            if function.context is None and scope.plan is None:
                if function.direct is not None:
                    return await function.direct(**values)
                return await function(values, None, work)
            channel = _channel(scope, work, self._state.runs)
            context = Context(channel, self._logging, owner, self._state.loop)

            async def handler() -> Any:
                return await function(values, context, work)

            # A thread cannot be suspended and continued with the answers, so a sync handler runs again instead.
            return await channel.run(handler, parks=not function.in_thread)


def _channel(scope: RequestScope, work: Work, runs: Runs) -> InputChannel:
    if scope.task is not None:
        return TaskChannel(scope, work, runs)
    inputs = scope.request.peer.revision.inputs
    # Handshake revisions send questions as requests while the handler waits.
    if inputs is Inputs.BACK_CHANNEL:
        return BackChannel(scope)
    if isinstance(scope.request.params, _ANSWERED_BY_QUESTIONS):
        return RoundTrips(scope, work, runs)
    # Other requests of 2026-07-28 cannot carry a question, so asking raises an error that says so.
    return NoChannel(scope)
