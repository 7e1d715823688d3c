"""The lines of a recording in memory, bounded in messages and bytes."""

from __future__ import annotations

from typing import final

import trio

__all__ = ["MemoryLines"]


@final
class MemoryLines:
    """Takes the place of a file. The lines are written in a thread, and read in the event loop.

    Args:
        max_messages: Messages after which it is full.
        max_bytes: Bytes of the messages, with their secrets, after which it is full.
    """

    def __init__(self, *, max_messages: int, max_bytes: int) -> None:
        self._messages_left = max_messages
        self._bytes_left = max_bytes
        self.lines: list[bytes] = []
        self.full = trio.Event()

    def admit(self, size: int) -> bool:
        """Return whether a message of this size may be written. Once one may not, no other may: no gap is inside."""
        self._messages_left -= 1
        self._bytes_left -= size
        if self._messages_left < 0 or self._bytes_left < 0:
            self.full.set()
        return not self.full.is_set()

    def write(self, line: bytes) -> None:
        """Append a line; its end is added."""
        self.lines.append(line + b"\n")

    def close(self) -> None:
        """The lines stay readable."""
