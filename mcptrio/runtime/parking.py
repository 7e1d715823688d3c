"""Handlers that wait between two requests for a client's answer.

Filled and emptied by the round trips; bounded by the supervisor's limits.
The one rule: parking is a cache of replay. Whatever is parked may be thrown out at any time: its retry replays.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Protocol

import trio

__all__ = ["Parked", "ParkingLot"]


class Parked(Protocol):
    """What can be parked."""

    label: str
    owner: str | None
    """The plugin whose handler it is."""
    since: float

    def cancel(self, reason: str) -> None: ...


class ParkingLot:
    """
    Args:
        spaces: how many; past it the one that has waited longest is cancelled.
    """

    def __init__(self, spaces: int) -> None:
        self._spaces = spaces
        self._parked: OrderedDict[str, Parked] = OrderedDict()

    def park(self, ticket: str, run: Parked) -> bool:
        """Whether there is a space at all."""
        if self._spaces == 0:
            return False
        while len(self._parked) >= self._spaces:
            _, oldest = self._parked.popitem(last=False)
            oldest.cancel("evicted: too many handlers wait for an answer")
        self._parked[ticket] = run
        return True

    def find(self, ticket: str) -> Parked | None:
        """The handler parked under this ticket."""
        return self._parked.get(ticket)

    def remove(self, run: Parked) -> None:
        """The handler ended by itself, or its time is over."""
        for ticket, parked in self._parked.items():
            if parked is run:
                del self._parked[ticket]
                return

    def clear(self, reason: str, owner: str | None = None) -> None:
        """Throw out all, or those of one plugin."""
        for ticket, run in list(self._parked.items()):
            if owner is None or run.owner == owner:
                del self._parked[ticket]
                run.cancel(reason)

    def snapshot(self) -> list[dict[str, Any]]:
        return [{"label": run.label, "age": trio.current_time() - run.since} for run in self._parked.values()]
