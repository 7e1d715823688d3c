"""Limits the rate of requests to one API.

The ``OperationCaller`` of each API owns one :class:`RateLimiter`. Calls wait in order. A call that would have to wait
past its deadline is refused at once.

Source: the generic cell rate algorithm (ITU-T I.371).
"""

from __future__ import annotations

import trio

from mcptrio.errors import ToolError

__all__ = ["RateLimiter"]


class RateLimiter:
    """Spaces requests evenly, after an initial burst.

    Args:
        rate: Requests per second; ``None`` for no limit.
        burst: The number of requests that may be sent at once.
    """

    def __init__(self, rate: float | None, burst: int) -> None:
        self._interval = 1 / rate if rate is not None else 0.0
        self._slack = (burst - 1) * self._interval
        self._next_due = -float("inf")
        """The time at which the next request is due if requests are evenly spaced."""

    async def wait(self, deadline: float) -> None:
        """Wait until one request may be sent. This is a checkpoint.

        Args:
            deadline: The Trio clock time until which the request may wait.

        Raises:
            ToolError: The request could be sent only after the deadline.
        """
        now = trio.current_time()
        due = max(self._next_due, now)
        start = due - self._slack
        if start > deadline:
            raise ToolError(f"too many requests to this API (rate); call again in {start - now:.0f} s")
        self._next_due = due + self._interval
        was_admitted = False
        try:
            await trio.sleep_until(start)
            was_admitted = True
        finally:
            if not was_admitted:
                # A call that was cancelled while it waited must not delay later ones.
                self._next_due -= self._interval
