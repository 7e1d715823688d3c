"""The table of methods. Each row has a name, params, a result, a receiver and the revisions that have it.

A revision takes its rows from the table; for it, a method without a row does not exist. A method whose types or
required capability have changed has several rows, so no other code compares revisions.

Source: MCP ``schema/<revision>/schema.ts``: ClientRequest, ServerRequest, ClientNotification, ServerNotification.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from attrs import evolve, frozen

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
    tasks,
    tools,
)
from mcptrio.protocol.model.base import EmptyParams, EmptyResult, Result

__all__ = ["INPUT_REQUESTS", "METHODS", "Method", "Side"]


class Side(Enum):
    """The receiver of a message."""

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
    """The class of the result; ``None`` for a notification."""
    to: Side
    since: str | None = None
    until: str | None = None
    capability: str | None = None
    """The receiver's capability that the method requires, as an attribute path (``resources.subscribe``)."""


def _to_server(
    name: str, params: Any, result: type[Result] | None, capability: str | None = None, **revisions: str
) -> Method:
    return Method(name, params, result, Side.SERVER, capability=capability, **revisions)


def _to_client(
    name: str, params: Any, result: type[Result] | None, capability: str | None = None, **revisions: str
) -> Method:
    return Method(name, params, result, Side.CLIENT, capability=capability, **revisions)


_MODERN: Final = "2026-07-28"

_REQUESTS_TO_SERVER = (
    _to_server("initialize", lifecycle.InitializeParams, lifecycle.InitializeResult, until=_MODERN),
    _to_server("server/discover", lifecycle.DiscoverParams, lifecycle.DiscoverResult, since=_MODERN),
    _to_server("tools/list", tools.ListToolsParams, tools.ListToolsResult, "tools"),
    _to_server("tools/call", tools.CallToolParams, tools.CallToolResult, "tools"),
    _to_server("resources/list", resources.ListResourcesParams, resources.ListResourcesResult, "resources"),
    _to_server(
        "resources/templates/list",
        resources.ListResourceTemplatesParams,
        resources.ListResourceTemplatesResult,
        "resources",
    ),
    _to_server("resources/read", resources.ReadResourceParams, resources.ReadResourceResult, "resources"),
    _to_server("resources/subscribe", resources.SubscribeParams, EmptyResult, "resources.subscribe", until=_MODERN),
    _to_server("resources/unsubscribe", resources.UnsubscribeParams, EmptyResult, "resources.subscribe", until=_MODERN),
    _to_server("prompts/list", prompts.ListPromptsParams, prompts.ListPromptsResult, "prompts"),
    _to_server("prompts/get", prompts.GetPromptParams, prompts.GetPromptResult, "prompts"),
    # The capability was added one revision after the method.
    _to_server("completion/complete", completion.CompleteParams, completion.CompleteResult, until="2025-03-26"),
    _to_server(
        "completion/complete", completion.CompleteParams, completion.CompleteResult, "completions", since="2025-03-26"
    ),
    _to_server("logging/setLevel", logging.SetLevelParams, EmptyResult, "logging", until=_MODERN),
    _to_server("subscriptions/listen", subscriptions.ListenParams, subscriptions.ListenResult, since=_MODERN),
    _to_server("tasks/get", tasks.GetTaskParams, tasks.GetTaskResult, "tasks", since="2025-11-25", until=_MODERN),
    _to_server("tasks/result", tasks.GetTaskParams, tools.CallToolResult, "tasks", since="2025-11-25", until=_MODERN),
    _to_server(
        "tasks/cancel", tasks.CancelTaskParams, tasks.GetTaskResult, "tasks.cancel", since="2025-11-25", until=_MODERN
    ),
    _to_server(
        "tasks/list", tasks.ListTasksParams, tasks.ListTasksResult, "tasks.list", since="2025-11-25", until=_MODERN
    ),
    _to_server("tasks/get", tasks.GetTaskParams, tasks.GetTaskResult, tasks.TASKS_EXTENSION, since=_MODERN),
    _to_server("tasks/update", tasks.UpdateTaskParams, EmptyResult, tasks.TASKS_EXTENSION, since=_MODERN),
    _to_server("tasks/cancel", tasks.CancelTaskParams, EmptyResult, tasks.TASKS_EXTENSION, since=_MODERN),
)

_REQUESTS_TO_BOTH = (Method("ping", lifecycle.PingParams, EmptyResult, Side.BOTH, until=_MODERN),)

_REQUESTS_TO_CLIENT = (
    _to_client("roots/list", roots.ListRootsParams, roots.ListRootsResult, "roots", until=_MODERN),
    _to_client(
        "sampling/createMessage", sampling.CreateMessageParams, sampling.CreateMessageResult, "sampling", until=_MODERN
    ),
    _to_client(
        "elicitation/create",
        elicitation.ElicitParams,
        elicitation.ElicitResult,
        "elicitation",
        since="2025-06-18",
        until=_MODERN,
    ),
)

_NOTIFICATIONS = (
    _to_server("notifications/initialized", EmptyParams, None, until=_MODERN),
    Method("notifications/cancelled", cancellation.CancelledParams, None, Side.BOTH),
    Method("notifications/progress", progress.ProgressParams, None, Side.BOTH, until=_MODERN),
    _to_client("notifications/progress", progress.ProgressParams, None, since=_MODERN),
    _to_server("notifications/roots/list_changed", EmptyParams, None, until=_MODERN),
    _to_client("notifications/message", logging.LoggingMessageParams, None),
    _to_client("notifications/resources/updated", resources.ResourceUpdatedParams, None),
    _to_client("notifications/resources/list_changed", EmptyParams, None),
    _to_client("notifications/tools/list_changed", EmptyParams, None),
    _to_client("notifications/prompts/list_changed", EmptyParams, None),
    _to_client(
        "notifications/elicitation/complete",
        elicitation.ElicitationCompleteParams,
        None,
        since="2025-11-25",
        until=_MODERN,
    ),
    _to_client("notifications/subscriptions/acknowledged", subscriptions.AcknowledgedParams, None, since=_MODERN),
    _to_client("notifications/tasks/status", tasks.TaskParams, None, since="2025-11-25", until=_MODERN),
    _to_client("notifications/tasks", tasks.TaskParams, None, since=_MODERN),
)

METHODS: Final[tuple[Method, ...]] = _REQUESTS_TO_SERVER + _REQUESTS_TO_BOTH + _REQUESTS_TO_CLIENT + _NOTIFICATIONS
"""Every request and notification of every revision."""

INPUT_REQUESTS: Final = tuple(evolve(row, since=_MODERN, until=None) for row in _REQUESTS_TO_CLIENT)
"""The requests in an InputRequiredResult, which were messages to the client in earlier revisions."""
