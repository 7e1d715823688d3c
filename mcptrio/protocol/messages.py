"""The four kinds of JSON-RPC messages, as classes.

All layers pass messages in this form. :mod:`mcptrio.protocol.jsonrpc` encodes and decodes them. ``params`` and
``result`` are decoded JSON objects; the converter of a revision makes models from them.

Source: JSON-RPC 2.0 sections 4 and 5; MCP 2026-07-28, basic/index, "Messages".
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

from attrs import define, field

from mcptrio.errors import MCPError

__all__ = [
    "Batch",
    "ErrorResponse",
    "Incoming",
    "Malformed",
    "Message",
    "Notification",
    "Request",
    "RequestId",
    "Response",
]

RequestId: TypeAlias = "str | int"
"""Never null and never a bool; ``1`` and ``"1"`` are different ids."""


@define(slots=True)
class Request:
    """A request, which gets one answer: a :class:`Response` or an :class:`ErrorResponse`."""

    id: RequestId
    method: str
    params: dict[str, Any] | None = None
    weight: int = field(default=0, eq=False, repr=False)
    """Approximate bytes of memory of ``params``; 0 if they are small or were not decoded from bytes."""
    owner: Hashable = field(default=None, eq=False, repr=False)
    """The client that ``weight`` counts for; ``None`` if the transport knows only the connection."""


@define(slots=True)
class Notification:
    """A message without an answer."""

    method: str
    params: dict[str, Any] | None = None


@define(slots=True)
class Response:
    """The result of a request."""

    id: RequestId
    result: dict[str, Any]


@define(slots=True)
class ErrorResponse:
    """The error of a request."""

    id: RequestId | None
    """``None`` if the id of the request could not be read; the member is then omitted."""
    code: int
    message: str
    data: Any = None

    @classmethod
    def of(cls, id: RequestId | None, error: MCPError) -> ErrorResponse:
        return cls(id, int(error.code), error.message, error.data)


@define(slots=True)
class Malformed:
    """Received data that is not a message, with the error response for the peer (-32700 or -32600)."""

    reply: ErrorResponse
    """The error response. It has the peer's id if the data is a call whose id can be read."""
    answers: RequestId | None = None
    """The id of this side's call if the data is a response whose id can be read."""


Message: TypeAlias = Request | Notification | Response | ErrorResponse
"""A message that a channel sends."""


@define(slots=True)
class Batch:
    """A JSON-RPC array. Only 2025-03-26 allows it; the connection checks that."""

    messages: tuple[Message | Malformed, ...]


Incoming: TypeAlias = Message | Batch | Malformed
"""A received message, batch or malformed message."""
