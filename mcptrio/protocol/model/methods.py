"""The methods, one row each: name, params, result and receiver.

Each revision keeps its rows; a missing row means "method not found". A method whose meaning or required capability has
changed has a second row, so no other code compares revisions.

Source: MCP ``schema/<revision>/schema.ts``: ClientRequest, ServerRequest, ClientNotification, ServerNotification.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from attrs import frozen

from mcptrio.protocol.model import (
    cancellation,
    completion,
    elicitation,
    lifecycle,
    logging,
    progress,
    prompts,
    resources,
    roots,
    sampling,
    subscriptions,
    tools,
)
from mcptrio.protocol.model.base import EmptyParams, EmptyResult, Result

__all__ = ["INPUT_REQUESTS", "METHODS", "Method", "Side"]


class Side(Enum):
    """Who receives a message."""

    SERVER = "server"
    CLIENT = "client"
    BOTH = "both"


@frozen
class Method:
    """One method, in the revisions from ``since`` up to, but not including, ``until``."""

    name: str
    params: Any
    """A class of this package, or the union of two (``ElicitParams``)."""
    result: type[Result] | None
    """``None``: a notification."""
    to: Side
    since: str | None = None
    until: str | None = None
    capability: str | None = None
    """The receiver's capability that the method requires, as an attribute path (``resources.subscribe``)."""


_REQUESTS_TO_SERVER = (
    Method("initialize", lifecycle.InitializeParams, lifecycle.InitializeResult, Side.SERVER, until="2026-07-28"),
    Method("server/discover", lifecycle.DiscoverParams, lifecycle.DiscoverResult, Side.SERVER, since="2026-07-28"),
    Method("tools/list", tools.ListToolsParams, tools.ListToolsResult, Side.SERVER, capability="tools"),
    Method("tools/call", tools.CallToolParams, tools.CallToolResult, Side.SERVER, capability="tools"),
    Method(
        "resources/list",
        resources.ListResourcesParams,
        resources.ListResourcesResult,
        Side.SERVER,
        capability="resources",
    ),
    Method(
        "resources/templates/list",
        resources.ListResourceTemplatesParams,
        resources.ListResourceTemplatesResult,
        Side.SERVER,
        capability="resources",
    ),
    Method(
        "resources/read",
        resources.ReadResourceParams,
        resources.ReadResourceResult,
        Side.SERVER,
        capability="resources",
    ),
    Method(
        "resources/subscribe",
        resources.SubscribeParams,
        EmptyResult,
        Side.SERVER,
        until="2026-07-28",
        capability="resources.subscribe",
    ),
    Method(
        "resources/unsubscribe",
        resources.UnsubscribeParams,
        EmptyResult,
        Side.SERVER,
        until="2026-07-28",
        capability="resources.subscribe",
    ),
    Method("prompts/list", prompts.ListPromptsParams, prompts.ListPromptsResult, Side.SERVER, capability="prompts"),
    Method("prompts/get", prompts.GetPromptParams, prompts.GetPromptResult, Side.SERVER, capability="prompts"),
    Method(
        "completion/complete",
        completion.CompleteParams,
        completion.CompleteResult,
        Side.SERVER,
        until="2025-03-26",  # the capability was added one revision after the method
    ),
    Method(
        "completion/complete",
        completion.CompleteParams,
        completion.CompleteResult,
        Side.SERVER,
        since="2025-03-26",
        capability="completions",
    ),
    Method(
        "logging/setLevel",
        logging.SetLevelParams,
        EmptyResult,
        Side.SERVER,
        until="2026-07-28",
        capability="logging",
    ),
    Method(
        "subscriptions/listen",
        subscriptions.ListenParams,
        subscriptions.ListenResult,
        Side.SERVER,
        since="2026-07-28",
    ),
)

_REQUESTS_TO_BOTH = (Method("ping", lifecycle.PingParams, EmptyResult, Side.BOTH, until="2026-07-28"),)

_REQUESTS_TO_CLIENT = (
    Method(
        "roots/list",
        roots.ListRootsParams,
        roots.ListRootsResult,
        Side.CLIENT,
        until="2026-07-28",
        capability="roots",
    ),
    Method(
        "sampling/createMessage",
        sampling.CreateMessageParams,
        sampling.CreateMessageResult,
        Side.CLIENT,
        until="2026-07-28",
        capability="sampling",
    ),
    Method(
        "elicitation/create",
        elicitation.ElicitParams,
        elicitation.ElicitResult,
        Side.CLIENT,
        since="2025-06-18",
        until="2026-07-28",
        capability="elicitation",
    ),
)

_NOTIFICATIONS = (
    Method("notifications/initialized", lifecycle.InitializedParams, None, Side.SERVER, until="2026-07-28"),
    Method("notifications/cancelled", cancellation.CancelledParams, None, Side.BOTH),
    Method("notifications/progress", progress.ProgressParams, None, Side.BOTH, until="2026-07-28"),
    Method("notifications/progress", progress.ProgressParams, None, Side.CLIENT, since="2026-07-28"),
    Method("notifications/roots/list_changed", EmptyParams, None, Side.SERVER, until="2026-07-28"),
    Method("notifications/message", logging.LoggingMessageParams, None, Side.CLIENT),
    Method("notifications/resources/updated", resources.ResourceUpdatedParams, None, Side.CLIENT),
    Method("notifications/resources/list_changed", EmptyParams, None, Side.CLIENT),
    Method("notifications/tools/list_changed", EmptyParams, None, Side.CLIENT),
    Method("notifications/prompts/list_changed", EmptyParams, None, Side.CLIENT),
    Method(
        "notifications/elicitation/complete",
        elicitation.ElicitationCompleteParams,
        None,
        Side.CLIENT,
        since="2025-11-25",
        until="2026-07-28",
    ),
    Method(
        "notifications/subscriptions/acknowledged",
        subscriptions.AcknowledgedParams,
        None,
        Side.CLIENT,
        since="2026-07-28",
    ),
)

METHODS: Final[tuple[Method, ...]] = _REQUESTS_TO_SERVER + _REQUESTS_TO_BOTH + _REQUESTS_TO_CLIENT + _NOTIFICATIONS
"""Every request and notification of every revision."""

INPUT_REQUESTS: Final[tuple[Method, ...]] = (
    Method("roots/list", roots.ListRootsParams, roots.ListRootsResult, Side.CLIENT, "2026-07-28", None, "roots"),
    Method(
        "sampling/createMessage",
        sampling.CreateMessageParams,
        sampling.CreateMessageResult,
        Side.CLIENT,
        since="2026-07-28",
        capability="sampling",
    ),
    Method(
        "elicitation/create",
        elicitation.ElicitParams,
        elicitation.ElicitResult,
        Side.CLIENT,
        since="2026-07-28",
        capability="elicitation",
    ),
)
"""The requests in an InputRequiredResult, which were messages to the client in earlier revisions."""
