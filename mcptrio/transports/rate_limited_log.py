"""A logger with a rate limit, for log lines that a peer can cause.

Servers that accept connections use it, so that a flood of connections does not become a flood of log lines.
"""

from __future__ import annotations

import logging
from collections import Counter

import trio

__all__ = ["RateLimitedLog"]


class RateLimitedLog:
    """Writes a limited number of lines per minute, and counts the others.

    Args:
        log: The logger.
        per_key: Lines per minute with the same key.
        total: Lines per minute.
    """

    def __init__(self, log: logging.Logger, *, per_key: int = 5, total: int = 60) -> None:
        self._log = log
        self._per_key = per_key
        self._total = total
        # Has at most `total` keys: a key is added only with a written line, because reading a Counter adds none.
        self._written: Counter[str] = Counter()
        """Lines written in this minute, by key."""
        self._dropped = 0
        self._until = 0.0
        """Trio clock time at which this minute ends."""

    def write(self, level: int, key: str, message: str, *args: object, exc_info: bool = False) -> None:
        """Log a line unless the limits of this minute are reached.

        Args:
            level: Level of the line.
            key: Identifies the cause, for example the address of the peer.
            message: Format string of the line.
            exc_info: Include the traceback of the current exception.
        """
        self.flush()
        if self._written[key] >= self._per_key or self._written.total() >= self._total:
            self._dropped += 1
        else:
            self._written[key] += 1
            self._log.log(level, message, *args, exc_info=exc_info)

    def flush(self, *, now: bool = False) -> None:
        """Log the number of dropped lines if the minute has ended.

        Args:
            now: Log the number even if the minute has not ended.
        """
        if not now and trio.current_time() < self._until:
            return
        dropped, self._dropped = self._dropped, 0
        self._written.clear()
        self._until = trio.current_time() + 60.0
        if dropped:
            self._log.warning("%d more lines like these were not logged", dropped)
