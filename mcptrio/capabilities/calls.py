"""Calling an author's function for a request: its context, its channel to the client, its deadline.

Used by tools, resources, prompts and completion.
The one rule: a function that takes no Context cannot ask, so it runs in the request's own task; one that does runs
where its input channel puts it, for it may outlive the request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcptrio.capabilities.context import Context
from mcptrio.capabilities.functions import Function
from mcptrio.capabilities.host import Host
from mcptrio.protocol.model.prompts import GetPromptParams
from mcptrio.protocol.model.resources import ReadResourceParams
from mcptrio.protocol.model.tools import CallToolParams
from mcptrio.protocol.revisions.revision import Inputs
from mcptrio.runtime.inputs import BackChannel, InputChannel, NoChannel
from mcptrio.runtime.request_scope import RequestScope
from mcptrio.runtime.round_trips import RoundTrips

__all__ = ["call"]

_CHANNELS: dict[Inputs, Callable[[RequestScope], InputChannel]] = {
    Inputs.BACK_CHANNEL: BackChannel,
    Inputs.ROUND_TRIPS: RoundTrips,
}
_ANSWERED_BY_QUESTIONS = (CallToolParams, GetPromptParams, ReadResourceParams)
"""The only requests that may be answered with ``input_required``.

Source: MCP 2026-07-28, basic/patterns/mrtr.
"""


async def call(
    scope: RequestScope,
    host: Host,
    function: Function,
    values: dict[str, Any],
    *,
    label: str,
    owner: str | None,
    timeout: float | None,
) -> Any:
    """What the function returned, or the InputRequiredResult that has to come first."""
    scope.label = label
    scope.owner = owner
    limits = host.limits_of(owner)
    if limits is None:
        return await _called(scope, host, function, values, timeout)
    async with limits.admitted():
        return await _called(scope, host, function, values, limits.timeout if timeout is None else timeout)


async def _called(
    scope: RequestScope, host: Host, function: Function, values: dict[str, Any], timeout: float | None
) -> Any:
    if timeout is not None:
        scope.bound(timeout)
    if function.context is None:
        return await function(values, None, host.threads)
    channel = _channel(scope)
    context = Context(channel, host.seen_by(scope.owner), host.state_of(scope.owner))

    async def handler() -> Any:
        return await function(values, context, host.threads)

    return await channel.run(handler)


def _channel(scope: RequestScope) -> InputChannel:
    inputs = scope.request.peer.revision.inputs
    if inputs is Inputs.ROUND_TRIPS and not isinstance(scope.request.params, _ANSWERED_BY_QUESTIONS):
        return NoChannel(scope)
    return _CHANNELS[inputs](scope)
