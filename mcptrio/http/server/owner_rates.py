"""Limits the rates of each client: requests, new sessions and seconds of decoding.

``HTTPApp`` checks it for each request and each ``initialize``, and the decoder for each large message. It keeps one
number for each owner, and a bounded number of owners.

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
        max_owners: Owners that are remembered. When full, the least recent one is evicted.
    """

    def __init__(self, rate: float, burst: float, max_owners: int) -> None:
        self._interval = 1 / rate if rate else 0.0
        self._burst = burst
        self._max_owners = max_owners
        self._due: OrderedDict[Hashable, float] = OrderedDict()
        """By owner, the Trio clock time at which the bucket is full again. The least recent owner is first."""

    def __len__(self) -> int:
        return len(self._due)

    def wait(self, owner: Hashable, cost: float = 1.0) -> float | None:
        """Take units if they are available.

        Args:
            owner: An address or a principal; ``None`` is not limited.
            cost: The number of units. With 0, none are taken, for a caller that calls :meth:`spend` later.

        Returns:
            ``None`` if the units were taken; otherwise the seconds until they are available.
        """
        if owner is None or not self._interval:
            return None
        now = trio.current_time()
        wait = self._due.get(owner, now) - now - (self._burst - cost) * self._interval
        # A rounding error must not refuse the last unit of a burst.
        if wait > self._interval * 1e-6:
            # A refused owner must not be evicted next, because it would then start with a full bucket.
            self._due.move_to_end(owner)
            return wait
        self.spend(owner, cost)
        return None

    def spend(self, owner: Hashable, cost: float) -> None:
        """Take units, even if they are not available."""
        if owner is None or not self._interval or not cost:
            return
        now = trio.current_time()
        # max(), because unused time does not add up beyond one full bucket.
        self._due[owner] = max(self._due.pop(owner, now), now) + cost * self._interval
        if len(self._due) > self._max_owners:
            self._due.popitem(last=False)
