"""Pauses before retries: exponential backoff with jitter.

Clients, hosts and workers use this. Without the jitter, clients that failed together would retry together.
"""

from __future__ import annotations

import random
from typing import Final

__all__ = ["MAX_PAUSE_SECONDS", "Backoff", "add_jitter"]

MAX_PAUSE_SECONDS: Final = 30.0
"""Seconds of the longest pause, without jitter. After a connection that lasted longer, callers start with the first
pause again.
"""


class Backoff:
    """The pauses between attempts: each twice as long as the one before, until the longest.

    Args:
        first: Seconds of the first pause, without jitter.
        longest: Seconds of the longest pause, without jitter.
    """

    def __init__(self, first: float = 0.5, longest: float = MAX_PAUSE_SECONDS) -> None:
        self._first = first
        self._longest = longest
        self._next = first

    def reset(self) -> None:
        """Begin with the first pause again."""
        self._next = self._first

    def wait_at_least(self, seconds: float) -> None:
        """Make the following pauses at least this long, because a server asks for it; ``longest`` still applies."""
        self._next = max(self._next, min(seconds, self._longest))

    def next_pause(self) -> float:
        """Return the seconds to pause now, and double the pause after it."""
        pause = add_jitter(self._next)
        self._next = min(2 * self._next, self._longest)
        return pause


def add_jitter(seconds: float) -> float:
    """Return a duration that differs from ``seconds`` by up to a quarter, at random."""
    return seconds * random.uniform(0.75, 1.25)
