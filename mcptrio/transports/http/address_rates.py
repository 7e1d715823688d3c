"""So many requests a second from one address, before anybody has said who they are.

Asked by the ASGI entry for each request.
The one rule: what is kept of an address is one number, and of so many addresses and no more.

Source: the generic cell rate algorithm (ITU-T I.371, Annex A), which is a token bucket in one number; RFC 6585 section
4 (429).
"""

from __future__ import annotations

from collections import OrderedDict

import trio

from mcptrio.transports.http.addresses import network_of
from mcptrio.transports.http.exchange import HTTPLimits

__all__ = ["AddressRates"]


class AddressRates:
    """
    Args:
        rate: requests a second of one address, on average; above 0.
        burst: as many may come at once; at least 1.
        most: addresses that are remembered. Of more, the one heard of longest ago is forgotten, and begins anew.
    """

    def __init__(self, rate: float, burst: int, most: int) -> None:
        self._interval = 1 / rate
        self._ahead = (burst - 1) / rate
        self._most = most
        self._due: OrderedDict[str, float] = OrderedDict()
        """By network, the least recent first: when its bucket is full again, in trio time."""

    @classmethod
    def of(cls, limits: HTTPLimits) -> AddressRates | None:
        """As the limits of HTTP have it; ``None`` where there is no rate."""
        if not limits.address_rate:
            return None
        return cls(limits.address_rate, limits.address_burst, limits.addresses)

    def __len__(self) -> int:
        return len(self._due)

    def wait(self, address: str) -> float | None:
        """Count a request.

        Returns:
            Seconds until the next one is taken, if this one is not; then it is not counted. ``None``: it is.
        """
        network, now = network_of(address), trio.current_time()
        due = max(self._due.pop(network, now), now)
        early = due - now - self._ahead
        # Rounding must not refuse the last one of a burst.
        is_taken = early <= self._interval * 1e-6
        self._due[network] = due + self._interval if is_taken else due
        if len(self._due) > self._most:
            self._due.popitem(last=False)
        return None if is_taken else early
