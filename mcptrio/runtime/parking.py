"""Handlers that wait for a client's answer between two requests.

The round trips add and remove them, within the supervisor's limits. They are a cache: each may be dropped at any time,
and its retry is then replayed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from attrs import frozen

from mcptrio.abc.status import ParkedStatus

__all__ = ["Parked", "SuspendedHandlers"]


class Parked(Protocol):
    """A handler that can be parked."""

    label: str
    owner: str | None
    """The plugin whose handler it is."""

    @property
    def status(self) -> ParkedStatus: ...

    def cancel(self, reason: str) -> None: ...


@frozen
class _Space:
    run: Parked
    caller: str
    session: object


class SuspendedHandlers:
    """Parked handlers that wait for the retries of their requests, by ticket.

    Args:
        spaces: The number of handlers that can be parked, for all callers together. When all are used, the caller with
            the most parked handlers loses the one that has waited longest.
    """

    def __init__(self, spaces: int) -> None:
        self._spaces = spaces
        self._parked: dict[str, _Space] = {}
        self._callers: dict[str, OrderedDict[str, None]] = {}
        """The tickets of each caller, the oldest first."""

    def __len__(self) -> int:
        return len(self._parked)

    @property
    def has_spaces(self) -> bool:
        return self._spaces > 0

    def park(self, ticket: str, run: Parked, *, caller: str = "", session: object = None) -> bool:
        """Keep a handler, and return whether that is possible.

        Args:
            caller: The caller of its request.
            session: The handler is cancelled when this session ends.
        """
        if not self.has_spaces:
            return False
        while len(self._parked) >= self._spaces:
            # A caller with many parked handlers evicts its own and not those of others.
            most = max(self._callers.values(), key=len)
            self._take(next(iter(most))).run.cancel("evicted: too many handlers wait for an answer")
        self._parked[ticket] = _Space(run, caller, session)
        self._callers.setdefault(caller, OrderedDict())[ticket] = None
        return True

    def find(self, ticket: str) -> Parked | None:
        """Return the handler with this ticket, or ``None`` if it is no longer parked."""
        space = self._parked.get(ticket)
        return space.run if space is not None else None

    def remove(self, run: Parked) -> None:
        """Remove a handler that has ended or expired."""
        for ticket, space in self._parked.items():
            if space.run is run:
                self._take(ticket)
                return

    def clear(self, reason: str, *, owner: str | None = None, session: object = None) -> None:
        """Cancel all handlers, or those of one plugin or one session."""
        for ticket, space in list(self._parked.items()):
            if (owner is None or space.run.owner == owner) and (session is None or space.session is session):
                self._take(ticket).run.cancel(reason)

    @property
    def status(self) -> tuple[ParkedStatus, ...]:
        return tuple(space.run.status for space in self._parked.values())

    def _take(self, ticket: str) -> _Space:
        space = self._parked.pop(ticket)
        tickets = self._callers[space.caller]
        del tickets[ticket]
        if not tickets:
            del self._callers[space.caller]
        return space
