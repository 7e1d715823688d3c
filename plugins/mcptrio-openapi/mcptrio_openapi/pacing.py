"""Limits the rate and the concurrency of requests to one API.

Each API has one. Calls wait in order, and no longer than their deadline; a call that would have to wait longer is
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
        rate: requests a second; ``None`` for any.
        burst: that may come at once.
    """

    def __init__(self, rate: float | None, burst: int) -> None:
        self._interval = 1 / rate if rate is not None else 0.0
        self._slack = (burst - 1) * self._interval
        self._next = -float("inf")
        """When the next request would come if they came one by one."""

    async def wait(self, deadline: float) -> None:
        """Wait for the turn of one request. A checkpoint.

        Args:
            deadline: trio time until which it makes sense.

        Raises:
            ToolError: the turn comes later.
        """
        now = trio.current_time()
        due = max(self._next, now)
        start = due - self._slack
        if start > deadline:
            raise ToolError(f"too many requests to this API; its next turn is in {start - now:.0f} s")
        self._next = due + self._interval
        has_come = False
        try:
            await trio.sleep_until(start)
            has_come = True
        finally:
            if not has_come:
                # A call that was cancelled while it waited must not delay others.
                self._next -= self._interval
