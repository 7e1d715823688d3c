"""The ids of stored events: a stream and a position in it, ``p3fA_x/17``.

Written and read by the event stores. Clients send them back as ``Last-Event-ID``, so what is read may be anything.
The one rule: each event has one id, in one spelling.
"""

from __future__ import annotations

from typing import Final

__all__ = ["event_id", "read_event_id"]

_DIGITS: Final = 18
"""Of a position; more than any stream will have, and what still is a 64-bit number."""


def event_id(stream: str, position: int) -> str:
    return f"{stream}/{position}"


def read_event_id(id: str) -> tuple[str, int] | None:
    """Stream and position; ``None`` for what no event is called."""
    stream, slash, digits = id.rpartition("/")
    if not slash or not digits.isascii() or not digits.isdigit() or len(digits) > _DIGITS:
        return None
    position = int(digits)
    return (stream, position) if str(position) == digits else None
