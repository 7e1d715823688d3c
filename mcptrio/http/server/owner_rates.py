"""Rates of one client: requests, new sessions and seconds of decoding, before the engine has any work with them.

``HTTPApp`` asks it for each request and each ``initialize``, the decoder for each large message. It keeps one number
for each owner, for a bounded number of owners.

Source: the generic cell rate algorithm (ITU-T I.371, Annex A), which is a token bucket in one number; RFC 6585 section
4 (429).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

import trio

__all__ = ["OwnerRates"]


class OwnerRates:
    """Limits the rate of units, such as requests, for each owner.

    Args:
        rate: Units a second, for each owner, on average; 0 for no limit.
        burst: Units that may come at once.
        most: Owners that are remembered. Beyond that, the one heard of longest ago is forgotten.
    """

    def __init__(self, rate: float, burst: float, most: int) -> None:
        self._interval = 1 / rate if rate else 0.0
        self._burst = burst
        self._most = most
        self._due: OrderedDict[Hashable, float] = OrderedDict()
        """By owner, the least recent first: when its bucket is full again, in trio time."""

    def __len__(self) -> int:
        return len(self._due)

    def wait(self, owner: Hashable, cost: float = 1.0) -> float | None:
        """Take this many units if they are available.

        Args:
            owner: An address or a principal; ``None`` is not limited.
            cost: 0 only asks, for a caller that knows the cost afterwards; see :meth:`spend`.

        Returns:
            Seconds until they are available, if they are not; then none are taken. ``None`` if they are taken.
        """
        if owner is None or not self._interval:
            return None
        now = trio.current_time()
        early = self._due.get(owner, now) - now - (self._burst - cost) * self._interval
        # Rounding must not refuse the last one of a burst.
        if early > self._interval * 1e-6:
            # A refused owner must not be the next one to be forgotten, or it would start with a full bucket.
            self._due.move_to_end(owner)
            return early
        self.spend(owner, cost)
        return None

    def spend(self, owner: Hashable, cost: float) -> None:
        """Take this many units, even if they are not available."""
        if owner is None or not self._interval or not cost:
            return
        now = trio.current_time()
        # max(): unused time does not add up beyond one full bucket.
        self._due[owner] = max(self._due.pop(owner, now), now) + cost * self._interval
        if len(self._due) > self._most:
            self._due.popitem(last=False)
