"""Fair shares of a limited number of places, so that one client cannot take all of them.

The HTTP endpoint takes a place for each exchange, the supervisor one for each byte of memory that a request holds.
"""

from __future__ import annotations

from collections.abc import Hashable

from attrs import define

__all__ = ["Share", "SharedPlace", "Shares"]


@define(eq=False)
class Share:
    """One or several places that are taken."""

    owner: Hashable
    """``None`` counts the place only in the total."""
    size: int = 1


class Shares:
    """A limited number of places that owners take and give back.

    An owner may hold as many places as are free. One busy client thus gets half of all places, two get a third each,
    and some always stay free for the next client.

    Args:
        limit: Places in total, at least 1.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self._by_owner: dict[Hashable, int] = {}

    def take(self, owner: Hashable, size: int = 1) -> Share | None:
        """Take a place; ``None`` if too few places are free or the owner holds its share already."""
        owned = 0 if owner is None else self._by_owner.get(owner, 0)
        free = self.limit - self.taken
        # The first place of an owner needs only one free place, so a newcomer is served while any place is free.
        if size > free or (owned and owned + size - 1 > free):
            return None
        self._count(owner, size)
        return Share(owner, size)

    def hand_over(self, place: Share, owner: Hashable) -> bool:
        """Count a place for another owner. Returns False, and changes nothing, if that one holds its share already."""
        if place.owner == owner:
            return True
        owned = self._by_owner.get(owner, 0)
        # The place itself is free for the new owner.
        if owned > self.limit - self.taken + place.size:
            return False
        self.give_back(place)
        self._count(owner, place.size)
        place.owner = owner
        return True

    def give_back(self, place: Share) -> None:
        """Give a place back. Call it once for each place."""
        self.taken -= place.size
        if place.owner is not None:
            self._by_owner[place.owner] -= place.size
            if not self._by_owner[place.owner]:
                del self._by_owner[place.owner]

    def _count(self, owner: Hashable, size: int) -> None:
        self.taken += size
        if owner is not None:
            self._by_owner[owner] = self._by_owner.get(owner, 0) + size


class SharedPlace:
    """A place with several users, one from the start. The last one gives it back."""

    def __init__(self, places: Shares, place: Share) -> None:
        self._places = places
        self._place: Share | None = place
        self._users = 1

    def use(self) -> None:
        self._users += 1

    def let_go(self) -> None:
        """End one use; the last one gives the place back. Call it once for each user."""
        self._users -= 1
        # A parked handler that is cancelled cleans up for a request that was answered long ago: it becomes a user again
        # of a place that was given back.
        if not self._users and self._place is not None:
            self._places.give_back(self._place)
            self._place = None
