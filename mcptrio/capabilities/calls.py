"""Calls an author's function for a request, with its Context, its input channel and its deadline.

Tools, resources, prompts and completion use this. A function without a Context cannot ask the client, so it runs in the
task of the request. A function with a Context may outlive the request, so its input channel runs it.
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
"""The parameters of the requests that may be answered with ``input_required``.

Source: MCP 2026-07-28, basic/patterns/mrtr.
"""


class FunctionCaller:
    """Calls the functions of plugins.

    Args:
        state: Counts the calls, and has the limiters of threads.
        logging: Sends the log messages of the functions.
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
        """Call a function. Returns its result, or an InputRequiredResult if the client must answer a question first.

        Args:
            values: The keyword arguments, without the Context.
            label: The name of the tool or other feature, for the status and the log.
            timeout: Seconds from the start of the call; by default the operator's setting.
            limiter: The limiter of the tool itself, in addition to those of its plugin.

        Raises:
            RateLimited: There are too many calls of the plugin per second.
        """
        scope.label = label
        scope.owner = owner.plugin
        with self._state.works.new(label, owner.plugin, scope) as work:
            limits = owner.limits
            if limits is not None:
                limits.check_rate()
                timeout = limits.timeout if timeout is None else timeout
            # The tool's own limiter is first, because calls that wait for a slow tool must not hold places of other
            # tools.
            if limiter is not None:
                await work.hold(limiter, "tool")
            if limits is not None and limits.limiter is not None:
                await work.hold(limits.limiter, "plugin")
            # The thread is last, because threads are the scarcest resource.
            if function.in_thread:
                await work.hold(self._state.threads.of_calls(owner.plugin), "thread")
            # The timeout starts here, because the time in the queue does not count.
            scope.begin(timeout)
            # A call that was cancelled or timed out while it waited must not begin.
            await trio.lowlevel.checkpoint_if_cancelled()
            # A function without a context needs no channel, unless its call may become a task. That saves about a tenth
            # of a short call.
            if function.context is None and scope.plan is None:
                if function.call_async is not None:
                    return await function.call_async(**values)
                return await function(values, None, work)
            channel = _channel(scope, work, self._state.runs)
            context = Context(channel, self._logging, owner, self._state.loop)

            async def handler() -> Any:
                return await function(values, context, work)

            # A sync function is not parked, because it would block a thread. It runs again with the answers.
            return await channel.run(handler, parks=not function.in_thread)


def _channel(scope: RequestScope, work: Work, runs: Runs) -> InputChannel:
    if scope.task is not None:
        return TaskChannel(scope, work, runs)
    inputs = scope.request.peer.revision.inputs
    if inputs is Inputs.BACK_CHANNEL:
        return BackChannel(scope)
    if isinstance(scope.request.params, _ANSWERED_BY_QUESTIONS):
        return RoundTrips(scope, work, runs)
    # The responses to other requests of 2026-07-28 cannot contain questions.
    return NoChannel(scope)
