"""Limits the rate of requests to one API.

The caller of each API owns one :class:`Pace`. Calls wait in order. A call that would have to wait past its deadline is
refused at once.

Source: the generic cell rate algorithm (ITU-T I.371).
"""

from __future__ import annotations

import trio

from mcptrio.errors import ToolError

__all__ = ["Pace"]


class Pace:
    """
    Args:
        rate: Requests a second; ``None`` for no limit.
        burst: The number of requests that may be sent at once.
    """

    def __init__(self, rate: float | None, burst: int) -> None:
        self._interval = 1 / rate if rate is not None else 0.0
        self._slack = (burst - 1) * self._interval
        self._next = -float("inf")
        """The time at which the next request is due if requests are evenly spaced."""

    async def wait(self, deadline: float) -> None:
        """Wait for the turn of one request. A checkpoint.

        Args:
            deadline: The Trio clock time until which the request may wait.

        Raises:
            ToolError: The turn is after the deadline.
        """
        now = trio.current_time()
        due = max(self._next, now)
        start = due - self._slack
        if start > deadline:
            raise ToolError(f"too many requests to this API; its next turn is in {start - now:.0f} s")
        self._next = due + self._interval
        had_turn = False
        try:
            await trio.sleep_until(start)
            had_turn = True
        finally:
            if not had_turn:
                # A call that was cancelled while it waited must not delay others.
                self._next -= self._interval
