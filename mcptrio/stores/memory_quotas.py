"""A store of quotas in memory, which several servers in one process may share.

:func:`mcptrio.stores.memory.memory_stores` makes the store; the SQLite store uses :func:`next_arrival` too.

Source: ITU-T I.371, annex A, "generic cell rate algorithm", virtual scheduling.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import trio

__all__ = ["MAX_QUOTAS", "MemoryQuotaStore", "next_arrival"]

MAX_QUOTAS: Final = 100_000
"""Quotas in the store. Beyond this, the least recently used one is evicted; its next request finds an unused quota."""
# Seconds since 1970 in a float are exact to less than this.
_ROUNDING: Final = 1e-6


class MemoryQuotaStore:
    """Stores the theoretical arrival time of the next request of each quota."""

    def __init__(self) -> None:
        self._arrivals: OrderedDict[str, float] = OrderedDict()

    async def take(self, name: str, *, count: int, seconds: float, burst: int) -> float:
        now = trio.current_time()
        arrival, wait = next_arrival(self._arrivals.get(name, now), now, count=count, seconds=seconds, burst=burst)
        if wait <= 0.0:
            self._arrivals[name] = arrival
            self._arrivals.move_to_end(name)
            if len(self._arrivals) > MAX_QUOTAS:
                self._arrivals.popitem(last=False)
        return wait


def next_arrival(arrival: float, now: float, *, count: int, seconds: float, burst: int) -> tuple[float, float]:
    """Return the theoretical arrival time of the request after this one, and the seconds that this one must wait.

    Args:
        arrival: The theoretical arrival time of this request.
        now: The time at which it arrives.
        count: Requests in ``seconds``.
        seconds: The period in seconds.
        burst: Requests that may come at once.
    """
    interval = seconds / count
    following = max(arrival, now) + interval
    wait = following - burst * interval - now
    return following, wait if wait > _ROUNDING else 0.0
