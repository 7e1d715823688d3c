"""A token bucket: so many at once, so many per second.

Used for progress, log messages and completion. Time is trio's clock, so tests can jump it.
"""

from __future__ import annotations

import trio

__all__ = ["TokenBucket"]


class TokenBucket:
    """
    Args:
        rate: tokens per second.
        burst: tokens there at the start, and at most.
    """

    __slots__ = ("_burst", "_rate", "_then", "_tokens")

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._then = trio.current_time()

    def take(self) -> bool:
        """Whether there was a token; it is gone then. Never waits."""
        now = trio.current_time()
        self._tokens = min(self._burst, self._tokens + (now - self._then) * self._rate)
        self._then = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
