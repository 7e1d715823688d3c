"""The four JSON-RPC messages as values.

All layers pass messages in this form. :mod:`mcptrio.protocol.jsonrpc` encodes and decodes them. ``params`` and
``result`` are JSON values (decoded dicts); the converter of a revision makes models from them.

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
"""Never null, never a bool; ``1`` and ``"1"`` are two ids."""


@define(slots=True)
class Request:
    """A request, which has one answer: a :class:`Response` or an :class:`ErrorResponse`."""

    id: RequestId
    method: str
    params: dict[str, Any] | None = None
    weight: int = field(default=0, eq=False, repr=False)
    """About how many bytes of memory ``params`` take; 0 for few, and for a message that did not come as bytes."""
    owner: Hashable = field(default=None, eq=False, repr=False)
    """The client that ``weight`` counts for, where the transport knows one; otherwise its connection is the owner."""


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
    """Why a request has no result."""

    id: RequestId | None
    """``None`` where the id of the request could not be read; the member is then left out."""
    code: int
    message: str
    data: Any = None

    @classmethod
    def of(cls, id: RequestId | None, error: MCPError) -> ErrorResponse:
        return cls(id, int(error.code), error.message, error.data)


@define(slots=True)
class Malformed:
    """What arrived instead of a message: the reply says why (-32700, -32600, or the size limit)."""

    reply: ErrorResponse
    """With the id of the peer's call, where it is a call and its id can be read."""
    answers: RequestId | None = None
    """The id of our call, where it is an answer and its id can be read."""


Message: TypeAlias = Request | Notification | Response | ErrorResponse
"""A message that a channel sends."""


@define(slots=True)
class Batch:
    """A JSON-RPC array. Legal in 2025-03-26 only; whether it is legal here is the connection's decision."""

    messages: tuple[Message | Malformed, ...]


Incoming: TypeAlias = Message | Batch | Malformed
"""What arrives on a channel."""
