"""A token bucket, which limits a rate and allows bursts.

Used for progress, log messages, completion and the limits of callers and addresses. It uses Trio's clock, so tests with
``autojump_clock`` do not wait.
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

    __slots__ = ("_burst", "_filled_at", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._filled_at = trio.current_time()

    def take(self, count: float = 1) -> bool:
        """Take tokens, and return whether there were enough. If not, none are taken. Does not block.

        Args:
            count: Number of tokens. More than ``burst`` are never available.
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
        # Computed when tokens are taken, so an idle bucket needs no timer.
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
