"""The ids of stored events: a stream and a position, for example ``p3fA_x/17``.

The event stores create and parse them. Clients return them as ``Last-Event-ID``, so any text may arrive.
"""

from __future__ import annotations

from typing import Final

__all__ = ["INBOX", "event_id", "position_of", "read_event_id"]

INBOX: Final = "inbox"
"""The stream with the messages of a session's inbox. It has no writer, and clients cannot resume it."""

# Digits of a position: more than any stream needs, and still a 64-bit number.
_DIGITS: Final = 18


def event_id(stream: str, position: int) -> str:
    """Return the id of the event at a position of a stream."""
    return f"{stream}/{position}"


def read_event_id(id: str) -> tuple[str, int] | None:
    """Return the stream and position of an id, or ``None`` if no event that clients receive has such an id."""
    stream, slash, digits = id.rpartition("/")
    if not slash or not digits.isascii() or not digits.isdigit() or len(digits) > _DIGITS:
        return None
    if stream == INBOX:
        return None
    position = int(digits)
    # "07" is not an id: each event has exactly one spelling.
    return (stream, position) if str(position) == digits else None


def position_of(id: str) -> int:
    """Return the position in an id that a store has made."""
    return int(id.rpartition("/")[2])
