"""The events that a connection makes from messages.

:meth:`mcptrio.protocol.connection.Connection.receive` yields them, and the session handles them.
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
    """The other side: its info and capabilities, and the revision of the connection."""

    revision: Revision
    info: Implementation | None = None
    capabilities: ClientCapabilities = field(factory=ClientCapabilities)


@define(slots=True)
class RequestReceived:
    id: RequestId
    method: Method
    params: Any
    """An instance of ``method.params``."""
    peer: Peer
    log_level: str | None = None
    """The level this request asks for, where the revision sets it per request."""
    weight: int = 0
    """As :class:`mcptrio.protocol.messages.Request` has it."""
    owner: Hashable = None
    """As well."""


@define(slots=True)
class NotificationReceived:
    method: Method
    params: Any
    peer: Peer


@define(slots=True)
class ResponseReceived:
    """The answer to a request of ours: a result in wire form, or the peer's error."""

    id: RequestId
    result: dict[str, Any] | None = None
    error: MCPError | None = None


@define(slots=True)
class CancelReceived:
    id: RequestId
    reason: str | None = None


@define(slots=True)
class MessageRefused:
    """Not served; the reply says why."""

    reply: ErrorResponse


@define(slots=True)
class Unexpected:
    """A message that is not expected: a response to no request, or a notification without meaning here."""

    what: str


Event: TypeAlias = (
    RequestReceived | NotificationReceived | ResponseReceived | CancelReceived | MessageRefused | Unexpected
)
