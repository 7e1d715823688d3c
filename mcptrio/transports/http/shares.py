"""Fair shares of a limited number of places, so that one client cannot take all of them.

The HTTP endpoint takes a place for each exchange.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from attrs import define

from mcptrio.abc import Principal
from mcptrio.networks import network_of
from mcptrio.transports.http.addresses import address_of

__all__ = ["Place", "Places", "address_owner", "principal_owner"]


@define(eq=False)
class Place:
    """One place that is taken."""

    owner: str | None
    """``None``: it counts in the total alone."""


class Places:
    """Places that owners take and give back.

    An owner may hold as many places as are free. One busy client thus gets half of all places, two get a third each,
    and some always stay free for the next client.

    Args:
        limit: places in total, at least 1.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self._held: dict[str, int] = {}

    def take(self, owner: str | None) -> Place | None:
        """Take a place; ``None`` if all places are taken or the owner holds its share already."""
        held = 0 if owner is None else self._held.get(owner, 0)
        free = self.limit - self.taken
        if not free or held > free:
            return None
        self.taken += 1
        if owner is not None:
            self._held[owner] = held + 1
        return Place(owner)

    def hand_over(self, place: Place, owner: str) -> bool:
        """Count a place for another owner. Returns False, and changes nothing, if that one holds its share already."""
        if place.owner == owner:
            return True
        held = self._held.get(owner, 0)
        # The place itself is free for the new owner.
        if held > self.limit - self.taken + 1:
            return False
        self.give_back(place)
        self.taken += 1
        self._held[owner] = held + 1
        place.owner = owner
        return True

    def give_back(self, place: Place) -> None:
        """Call it once for each place."""
        self.taken -= 1
        if place.owner is not None:
            self._held[place.owner] -= 1
            if not self._held[place.owner]:
                del self._held[place.owner]


def address_owner(scope: MutableMapping[str, Any]) -> str | None:
    """The owner that an unauthenticated request counts for: its address, or its /64 network for IPv6.

    ``None`` where requests have no address, on a Unix socket.
    """
    address = address_of(scope)
    return None if address is None else network_of(address)


def principal_owner(principal: Principal) -> str:
    """The owner that an authenticated request counts for."""
    return repr(principal.identity)
