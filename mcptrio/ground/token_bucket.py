"""A token bucket: a rate per second, and a burst.

Used for progress, log messages, completion and the limits of callers and addresses. Time is trio's clock, so tests can
jump it.
"""

from __future__ import annotations

import trio

__all__ = ["TokenBucket"]


class TokenBucket:
    """A token bucket, full at the start.

    Args:
        rate: Tokens per second.
        burst: Tokens at the start, and the maximum.
    """

    __slots__ = ("_burst", "_rate", "_then", "_tokens")

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._then = trio.current_time()

    def take(self, count: float = 1) -> bool:
        """Take tokens and return whether there were enough. Does not block.

        Args:
            count: More than ``burst`` are never available.
        """
        self._fill()
        if self._tokens < count:
            return False
        self._tokens -= count
        return True

    def wait(self, count: float = 1) -> float:
        """Return the seconds until this many tokens are available, if none are taken before."""
        self._fill()
        return max(0.0, (min(count, self._burst) - self._tokens) / self._rate)

    def _fill(self) -> None:
        now = trio.current_time()
        # Computed when needed, so an idle bucket costs nothing.
        self._tokens = min(self._burst, self._tokens + (now - self._then) * self._rate)
        self._then = now
