"""Rates of one client: requests and new sessions a second, before the engine has any work with them.

The ASGI entry asks for each request and each ``initialize``. It keeps one number for each owner, of a bounded number of
owners.

Source: the generic cell rate algorithm (ITU-T I.371, Annex A), which is a token bucket in one number; RFC 6585 section
4 (429).
"""

from __future__ import annotations

from collections import OrderedDict

import trio

__all__ = ["OwnerRates"]


class OwnerRates:
    """
    Args:
        rate: a second, for each owner, on average; 0 for no limit.
        burst: as many may come at once; at least 1.
        most: owners that are remembered. Beyond that, the one heard of longest ago is forgotten.
    """

    def __init__(self, rate: float, burst: int, most: int) -> None:
        self._interval = 1 / rate if rate else 0.0
        self._ahead = (burst - 1) * self._interval
        self._most = most
        self._due: OrderedDict[str, float] = OrderedDict()
        """By owner, the least recent first: when its bucket is full again, in trio time."""

    def __len__(self) -> int:
        return len(self._due)

    def wait(self, owner: str | None) -> float | None:
        """Count one.

        Args:
            owner: an address or a principal; ``None`` is not limited.

        Returns:
            Seconds until the next one is taken, if this one is not; then it is not counted. ``None`` if it is taken.
        """
        if owner is None or not self._interval:
            return None
        now = trio.current_time()
        due = max(self._due.pop(owner, now), now)
        early = due - now - self._ahead
        # Rounding must not refuse the last one of a burst.
        is_taken = early <= self._interval * 1e-6
        self._due[owner] = due + self._interval if is_taken else due
        if len(self._due) > self._most:
            self._due.popitem(last=False)
        return None if is_taken else early
