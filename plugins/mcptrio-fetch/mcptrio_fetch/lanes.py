"""Limits the rate and the concurrency of requests to one host.

The downloader enters a lane for each request, including redirects and robots.txt. A lane exists only while it is in use
or its host still has to wait, so the number of lanes is bounded by the number of recently used hosts.

Source: the generic cell rate algorithm (ITU-T I.371): a burst at once, then one request per interval.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from attrs import define

__all__ = ["BURST", "HostLanes"]

BURST = 10
"""Requests that may be sent without a delay after a pause."""

_MAX_IDLE_LANES = 256
"""Number of unused lanes at which the expired ones are removed."""


class HostLanes:
    """
    Args:
        width: concurrent requests to one host.
        rate: average requests per second to one host; 0 for no limit.
    """

    def __init__(self, width: int, rate: float) -> None:
        self._width = width
        self._interval = 1 / rate if rate else 0.0
        self._lanes: dict[str, _Lane] = {}

    @asynccontextmanager
    async def enter(self, host: str) -> AsyncIterator[None]:
        """Wait until a request to the host may be sent, and hold one of its places. The caller limits the wait."""
        lane = self._lanes.get(host)
        if lane is None:
            lane = self._lanes[host] = _Lane(trio.CapacityLimiter(self._width))
        lane.users += 1
        try:
            async with lane.limiter:
                await self._pace(lane)
                yield
        finally:
            lane.users -= 1
            if len(self._lanes) > _MAX_IDLE_LANES:
                self._remove_idle()

    async def _pace(self, lane: _Lane) -> None:
        now = trio.current_time()
        due = max(lane.due, now)
        lane.due = due + self._interval
        has_come = False
        try:
            await trio.sleep_until(max(now, due - (BURST - 1) * self._interval))
            has_come = True
        finally:
            if not has_come:
                # A request that was cancelled while it waited must not delay others.
                lane.due -= self._interval

    def _remove_idle(self) -> None:
        now = trio.current_time()
        for host in [host for host, lane in self._lanes.items() if not lane.users and lane.due <= now]:
            del self._lanes[host]


@define(eq=False)
class _Lane:
    limiter: trio.CapacityLimiter
    users: int = 0
    due: float = 0.0
    """Trio clock time at which the next request would be due without bursts."""
