"""Limits the rate and the concurrency of requests to one host.

The downloader enters the limits of a host for each request, including redirects and robots.txt. The state of a host is
removed when it is not in use and its next request is due, so memory is bounded by the number of recently used hosts.

Source: the generic cell rate algorithm (ITU-T I.371): a burst at once, then one request per interval.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from attrs import define

__all__ = ["BURST", "HostLimits"]

BURST = 10
"""Requests that may be sent without a delay after a pause."""

_MAX_IDLE_HOSTS = 256
"""Number of hosts at which the idle ones are removed."""


class HostLimits:
    """The limits of all hosts.

    Args:
        width: Concurrent requests to one host.
        rate: Average requests per second to one host; 0 for no limit.
    """

    def __init__(self, width: int, rate: float) -> None:
        self._width = width
        self._interval = 1 / rate if rate else 0.0
        self._hosts: dict[str, _HostLimit] = {}

    @asynccontextmanager
    async def enter(self, host: str) -> AsyncIterator[None]:
        """Wait until a request to the host may be sent, and occupy one of its slots. The caller limits the wait."""
        limit = self._hosts.get(host)
        if limit is None:
            limit = self._hosts[host] = _HostLimit(trio.CapacityLimiter(self._width))
        limit.users += 1
        try:
            async with limit.limiter:
                await self._wait_for_turn(limit)
                yield
        finally:
            limit.users -= 1
            if len(self._hosts) > _MAX_IDLE_HOSTS:
                self._remove_idle()

    async def _wait_for_turn(self, limit: _HostLimit) -> None:
        now = trio.current_time()
        due = max(limit.due, now)
        limit.due = due + self._interval
        has_come = False
        try:
            await trio.sleep_until(max(now, due - (BURST - 1) * self._interval))
            has_come = True
        finally:
            if not has_come:
                # A request that was cancelled while it waited must not delay others.
                limit.due -= self._interval

    def _remove_idle(self) -> None:
        now = trio.current_time()
        for host in [host for host, limit in self._hosts.items() if not limit.users and limit.due <= now]:
            del self._hosts[host]


@define(eq=False)
class _HostLimit:
    limiter: trio.CapacityLimiter
    users: int = 0
    due: float = 0.0
    """Trio clock time at which the next request would be due without bursts."""
