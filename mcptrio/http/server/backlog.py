"""Counts the events of a stream that are stored but not written to the newest reader yet, for backpressure.

Above its bounds, a store drops the oldest events. So the pump of a stream stores events only within this window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mcptrio.abc import StoredEvent

__all__ = ["Backlog"]

_WINDOW_BYTES: Final = 1024 * 1024
"""Bytes of events that a reader may be behind. The stores keep much more of a session (16 MiB)."""


class Backlog:
    """The backlog of one reader, in events and bytes.

    Args:
        window: Events that the reader may be behind, at least 1.
        has_earlier: True if the stream may have earlier events for this reader, of an unknown number.
    """

    __slots__ = ("_bytes", "_events", "_has_earlier", "_window")

    def __init__(self, window: int, *, has_earlier: bool) -> None:
        self._window = window
        self._has_earlier = has_earlier
        self._events = 0
        self._bytes = 0

    @property
    def room(self) -> int:
        """The number of events that may be stored now; 0 or less if the pump must wait for the reader."""
        if self._has_earlier or self._bytes >= _WINDOW_BYTES:
            return 0
        return self._window - self._events

    def add(self, events: Sequence[bytes]) -> None:
        """Count events that are about to be stored. The reader may read them before the append returns."""
        self._events += len(events)
        self._bytes += sum(map(len, events))

    def remove(self, events: Sequence[StoredEvent]) -> None:
        """Count events that were written."""
        # Earlier events, and those of other processes, were not counted.
        self._events = max(0, self._events - len(events))
        self._bytes = max(0, self._bytes - sum(len(event.data) for event in events))

    def note_end(self) -> bool:
        """Note that the reader has read all stored events. Return whether that has made room."""
        was_behind, self._has_earlier = self._has_earlier, False
        return was_behind

    def restart(self) -> None:
        """Count from zero, because another reader has written an unknown part of the events."""
        self._has_earlier = True
        self._events = self._bytes = 0
