"""The ids of stored events: a stream and a position, for example ``p3fA_x/17``.

The event stores create and parse them. Clients return them as ``Last-Event-ID``, so any text may arrive.
"""

from __future__ import annotations

from typing import Final

__all__ = ["event_id", "read_event_id"]

# Digits of a position: more than any stream needs, and still a 64-bit number.
_DIGITS: Final = 18


def event_id(stream: str, position: int) -> str:
    return f"{stream}/{position}"


def read_event_id(id: str) -> tuple[str, int] | None:
    """Return the stream and position of an id, or ``None`` if it is not an event id."""
    stream, slash, digits = id.rpartition("/")
    if not slash or not digits.isascii() or not digits.isdigit() or len(digits) > _DIGITS:
        return None
    position = int(digits)
    # "07" is not an id: each event has exactly one spelling.
    return (stream, position) if str(position) == digits else None
