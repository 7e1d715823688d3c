"""The events that a connection makes from messages.

:meth:`mcptrio.protocol.connection.Connection.receive` returns them, and the session handles them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

from attrs import define, field, frozen

from mcptrio.errors import MCPError
from mcptrio.protocol.messages import ErrorResponse, RequestId
from mcptrio.protocol.model.lifecycle import ClientCapabilities, Implementation
from mcptrio.protocol.model.methods import Method
from mcptrio.protocol.revisions.revision import Revision

__all__ = [
    "CancelReceived",
    "Event",
    "MessageRefused",
    "NotificationReceived",
    "Peer",
    "RequestReceived",
    "ResponseReceived",
    "Unexpected",
]


@frozen(kw_only=True)
class Peer:
    """The other side of a connection: its info, its capabilities, and the revision."""

    revision: Revision
    info: Implementation | None = None
    capabilities: ClientCapabilities = field(factory=ClientCapabilities)


@define(slots=True)
class RequestReceived:
    """A request of the peer."""

    id: RequestId
    method: Method
    params: Any
    """An instance of ``method.params``; a dict for a method outside the specification."""
    peer: Peer
    log_level: str | None = None
    """The log level of this request, in revisions that set it per request."""
    weight: int = 0
    """See :attr:`mcptrio.protocol.messages.Request.weight`."""
    owner: Hashable = None
    """See :attr:`mcptrio.protocol.messages.Request.owner`."""
    trace_id: str | None = None
    """The id of the request's trace in hexadecimal, if it is traced."""


@define(slots=True)
class NotificationReceived:
    """A notification of the peer."""

    method: Method
    params: Any
    peer: Peer


@define(slots=True)
class ResponseReceived:
    """The response to a request of this side: a result in wire form, or the peer's error."""

    id: RequestId
    result: dict[str, Any] | None = None
    error: MCPError | None = None


@define(slots=True)
class CancelReceived:
    """The peer's cancellation of one of its requests."""

    id: RequestId
    reason: str | None = None


@define(slots=True)
class MessageRefused:
    """A message that is not served, with the error response for the peer."""

    reply: ErrorResponse


@define(slots=True)
class Unexpected:
    """A message to ignore: a response without a request, or a notification that is not valid now."""

    what: str
    """A description of the message, for the log."""


Event: TypeAlias = (
    RequestReceived | NotificationReceived | ResponseReceived | CancelReceived | MessageRefused | Unexpected
)
