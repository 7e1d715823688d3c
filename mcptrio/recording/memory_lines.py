"""The lines of a recording in memory, bounded in messages and bytes."""

from __future__ import annotations

from typing import final

import trio

__all__ = ["MemoryLines"]


@final
class MemoryLines:
    """Replaces a :class:`mcptrio.ground.lines_file.LinesFile`. A thread writes lines, and the event loop reads them.

    Args:
        max_messages: The number of messages that fit.
        max_bytes: The bytes of messages that fit, counted before secrets are removed.
    """

    def __init__(self, *, max_messages: int, max_bytes: int) -> None:
        self._messages_left = max_messages
        self._bytes_left = max_bytes
        self.lines: list[bytes] = []
        self.full = trio.Event()

    def admit(self, size: int) -> bool:
        """Return whether a message of this size fits. No message fits after one that did not, so there are no gaps."""
        self._messages_left -= 1
        self._bytes_left -= size
        if self._messages_left < 0 or self._bytes_left < 0:
            self.full.set()
        return not self.full.is_set()

    def write(self, line: bytes) -> None:
        """Append a line and a line feed."""
        self.lines.append(line + b"\n")

    def close(self) -> None:
        """Do nothing. The lines can still be read."""
