"""Parked handlers, which wait for a client's answer between two requests.

The round trips add and remove them, within the supervisor's limits. They are a cache: each may be evicted at any time,
and the retry of its request then replays the handler.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from attrs import frozen

from mcptrio.abc.status import ParkedStatus

__all__ = ["ParkableHandler", "ParkedHandlers"]


class ParkableHandler(Protocol):
    """A handler that can be parked."""

    label: str
    owner: str | None
    """The plugin whose handler it is."""

    @property
    def status(self) -> ParkedStatus: ...

    def cancel(self, reason: str) -> None: ...


@frozen
class _Entry:
    run: ParkableHandler
    caller: str
    session: object


class ParkedHandlers:
    """Parked handlers by ticket, an id that the sealed state of their request contains.

    Args:
        limit: Maximum number of parked handlers of all callers. When it is reached, the oldest handler of the caller
            with the most handlers is evicted.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parked: dict[str, _Entry] = {}
        self._callers: dict[str, OrderedDict[str, None]] = {}
        """The tickets of each caller, the oldest first."""

    def __len__(self) -> int:
        return len(self._parked)

    @property
    def is_enabled(self) -> bool:
        return self._limit > 0

    def park(self, ticket: str, run: ParkableHandler, *, caller: str = "", session: object = None) -> bool:
        """Park a handler. Returns False if parking is disabled.

        Args:
            caller: The caller of its request.
            session: A session with whose end the handler is cancelled.
        """
        if not self.is_enabled:
            return False
        while len(self._parked) >= self._limit:
            # Evicting from the caller with the most handlers prevents that one caller evicts the handlers of others.
            largest_queue = max(self._callers.values(), key=len)
            self._take(next(iter(largest_queue))).run.cancel("evicted: too many handlers wait for an answer")
        self._parked[ticket] = _Entry(run, caller, session)
        self._callers.setdefault(caller, OrderedDict())[ticket] = None
        return True

    def find(self, ticket: str) -> ParkableHandler | None:
        """Return the handler with this ticket, or ``None`` if it is no longer parked."""
        entry = self._parked.get(ticket)
        return entry.run if entry is not None else None

    def remove(self, run: ParkableHandler) -> None:
        """Remove a handler that has ended or expired."""
        for ticket, entry in self._parked.items():
            if entry.run is run:
                self._take(ticket)
                return

    def clear(self, reason: str, *, owner: str | None = None, session: object = None) -> None:
        """Cancel all handlers, or those of one plugin or one session."""
        for ticket, entry in list(self._parked.items()):
            if (owner is None or entry.run.owner == owner) and (session is None or entry.session is session):
                self._take(ticket).run.cancel(reason)

    @property
    def status(self) -> tuple[ParkedStatus, ...]:
        return tuple(entry.run.status for entry in self._parked.values())

    def _take(self, ticket: str) -> _Entry:
        entry = self._parked.pop(ticket)
        tickets = self._callers[entry.caller]
        del tickets[ticket]
        if not tickets:
            del self._callers[entry.caller]
        return entry
