"""The events of a stream that are stored but not written to its newest reader yet, for back-pressure.

A store drops the oldest events above its bounds, so a stream stores no more than its reader can be behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mcptrio.abc import StoredEvent

__all__ = ["Backlog"]

_WINDOW_BYTES: Final = 1024 * 1024
"""Bytes of events that a reader may be behind: a fraction of what a session may keep (16 MiB)."""


class Backlog:
    """The count of one reader, in events and bytes.

    Args:
        window: Events that the reader may be behind, at least 1.
        has_earlier: Whether the stream may have earlier events for this reader, of an unknown number.
    """

    __slots__ = ("_bytes", "_events", "_has_earlier", "_window")

    def __init__(self, window: int, *, has_earlier: bool) -> None:
        self._window = window
        self._has_earlier = has_earlier
        self._events = 0
        self._bytes = 0

    @property
    def room(self) -> int:
        """Number of events that may be stored before the reader has written more; 0 or less to wait for it."""
        if self._has_earlier or self._bytes >= _WINDOW_BYTES:
            return 0
        return self._window - self._events

    def add(self, events: Sequence[bytes]) -> None:
        """Count events that are about to be stored: the reader may find them before the append returns."""
        self._events += len(events)
        self._bytes += sum(map(len, events))

    def remove(self, events: Sequence[StoredEvent]) -> None:
        """Count events that were written."""
        # Earlier events, and those of other processes, were not counted.
        self._events = max(0, self._events - len(events))
        self._bytes = max(0, self._bytes - sum(len(event.data) for event in events))

    def note_end(self) -> bool:
        """The reader has found nothing more. Returns whether that is news: there is room now."""
        was_behind, self._has_earlier = self._has_earlier, False
        return was_behind

    def restart(self) -> None:
        """Count from zero: another reader has written some of the events."""
        self._has_earlier = True
        self._events = self._bytes = 0
