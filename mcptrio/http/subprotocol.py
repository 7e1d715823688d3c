"""The WebSocket subprotocol of MCP, and the codes with which the server and the client close a connection.

Source: RFC 6455 sections 7.4 and 11.7.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

__all__ = ["SUBPROTOCOL", "CloseCode", "describe", "is_orderly"]


SUBPROTOCOL: Final = "mcp"


class CloseCode(IntEnum):
    """The close codes that mcptrio sends, and two that stand for a missing code."""

    DONE = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    UNSUPPORTED_DATA = 1003
    NO_CODE = 1005
    """Never sent: the close frame had no code."""
    BROKEN = 1006
    """Never sent: there was no close frame."""
    INVALID_DATA = 1007
    POLICY = 1008
    TOO_BIG = 1009
    FAILED = 1011
    TRY_LATER = 1013


_WORDS: Final = {
    CloseCode.DONE: "done",
    CloseCode.GOING_AWAY: "going away",
    CloseCode.PROTOCOL_ERROR: "protocol error",
    CloseCode.UNSUPPORTED_DATA: "unsupported data",
    CloseCode.NO_CODE: "no code",
    CloseCode.BROKEN: "the connection broke",
    CloseCode.INVALID_DATA: "invalid data",
    CloseCode.POLICY: "policy violation",
    CloseCode.TOO_BIG: "message too big",
    CloseCode.FAILED: "internal error",
    CloseCode.TRY_LATER: "try again later",
}
_MAX_REASON_CHARS: Final = 123
"""Characters of a reason; a close frame holds no more bytes."""


def describe(code: int, reason: str | None = None) -> str:
    """Return a code with its name and reason, such as ``1009 (message too big): 'more than 4 MiB'``."""
    # repr() keeps a peer's reason on one line.
    words = _WORDS.get(code)  # type: ignore[call-overload]  # an IntEnum is looked up by its number
    known = f"{code} ({words})" if words is not None else str(code)
    return f"{known}: {reason[:_MAX_REASON_CHARS]!r}" if reason else known


def is_orderly(code: int) -> bool:
    """Return whether the peer closed without an error."""
    return code in (CloseCode.DONE, CloseCode.NO_CODE)
