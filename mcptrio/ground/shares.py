"""Fair shares of a limited number of places, so that one client cannot take all of them.

The HTTP endpoint takes one place for each exchange; the gate takes one for each byte of memory that a request uses.
"""

from __future__ import annotations

from collections.abc import Hashable

from attrs import define

__all__ = ["RefCountedShare", "Share", "Shares"]


@define(eq=False)
class Share:
    """One or several places that an owner has taken."""

    owner: Hashable
    """The client; ``None`` if the places count only in the total."""
    size: int = 1


class Shares:
    """A limited number of places that owners take and give back.

    An owner may hold at most as many places as are free. So one busy client gets half of all places, two get a third
    each, and some always stay free for the next client.

    Args:
        limit: Places in total, at least 1.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self._by_owner: dict[Hashable, int] = {}

    def take(self, owner: Hashable, size: int = 1) -> Share | None:
        """Take places. Returns ``None`` if too few are free, or if the owner already holds its share."""
        owned = 0 if owner is None else self._by_owner.get(owner, 0)
        free = self.limit - self.taken
        # An owner without places may take all free ones, so a new client is served while any place is free.
        if size > free or (owned and owned + size - 1 > free):
            return None
        self._count(owner, size)
        return Share(owner, size)

    def hand_over(self, place: Share, owner: Hashable) -> bool:
        """Transfer places to another owner. Returns False, and changes nothing, if that owner already holds its
        share."""
        if place.owner == owner:
            return True
        owned = self._by_owner.get(owner, 0)
        # The places that change hands count as free for the new owner.
        if owned > self.limit - self.taken + place.size:
            return False
        self.give_back(place)
        self._count(owner, place.size)
        place.owner = owner
        return True

    def give_back(self, place: Share) -> None:
        """Give places back. Call it once for each Share."""
        self.taken -= place.size
        if place.owner is not None:
            self._by_owner[place.owner] -= place.size
            if not self._by_owner[place.owner]:
                del self._by_owner[place.owner]

    def _count(self, owner: Hashable, size: int) -> None:
        self.taken += size
        if owner is not None:
            self._by_owner[owner] = self._by_owner.get(owner, 0) + size


class RefCountedShare:
    """A share that several users hold, at first one. It is given back when the last user releases it."""

    def __init__(self, places: Shares, place: Share) -> None:
        self._places = places
        self._place: Share | None = place
        self._users = 1

    def use(self) -> None:
        """Count one more user."""
        self._users += 1

    def release(self) -> None:
        """Count one user less; the last one gives the share back. Call it once for each user."""
        self._users -= 1
        # A parked handler that is cancelled cleans up for a request that was answered long ago. It calls use() again,
        # although the share was given back.
        if not self._users and self._place is not None:
            self._places.give_back(self._place)
            self._place = None
