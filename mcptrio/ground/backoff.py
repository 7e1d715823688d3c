"""Pauses before retries.

Clients, hosts and workers use this. Pauses are randomized, so that clients that failed together do not retry together.
"""

from __future__ import annotations

import random
from typing import Final

__all__ = ["MAX_PAUSE_SECONDS", "Backoff", "spread"]

MAX_PAUSE_SECONDS: Final = 30.0
"""Seconds of the longest pause, before it is spread. A connection that lasted longer starts with the first pause
again.
"""


class Backoff:
    """The pauses between attempts: each twice as long as the one before, until the longest.

    Args:
        first: Seconds of the first pause, before it is spread.
        longest: Seconds of the longest.
    """

    def __init__(self, first: float = 0.5, longest: float = MAX_PAUSE_SECONDS) -> None:
        self._first = first
        self._longest = longest
        self._next = first

    def reset(self) -> None:
        """Begin with the first pause again."""
        self._next = self._first

    def wait_at_least(self, seconds: float) -> None:
        """Make the following pauses longer, where a server asks for it, within reason."""
        self._next = max(self._next, min(seconds, self._longest))

    def draw(self) -> float:
        """Return the seconds of the pause that begins now."""
        pause = spread(self._next)
        # Doubling spreads the load of a server that is down over fewer and fewer attempts.
        self._next = min(2 * self._next, self._longest)
        return pause


def spread(seconds: float) -> float:
    """Return the seconds changed at random by up to a quarter."""
    return seconds * random.uniform(0.75, 1.25)
