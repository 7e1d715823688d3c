"""The deadlines of all requests in flight, watched by one task.

Owned by the server's supervisor, and by each session of a client. Requests come and go a thousand times for each
deadline that passes, so nothing is registered with trio for each of them: one alarm is set for the earliest deadline
there was, and when it rings the rest is looked at. (Measured: a cancel scope with a deadline of its own costs 20 µs a
request, a fifth of a call over stdio; a client's calls a tenth.)
"""

from __future__ import annotations

from math import inf
from typing import Protocol

import trio

__all__ = ["Deadlines", "Timed"]


class Timed(Protocol):
    """An object with a deadline."""

    @property
    def deadline(self) -> float:
        """On Trio's clock; ``math.inf`` for never."""
        ...

    def expire(self) -> None:
        """Called once, after the deadline. Never waits, never raises."""
        ...


class Deadlines:
    def __init__(self) -> None:
        self._scopes: set[Timed] = set()
        self._next = inf
        self._alarm = trio.CancelScope()

    def add(self, scope: Timed) -> None:
        """Watch a request from now on."""
        self._scopes.add(scope)
        if scope.deadline < self._next:
            self.moved(scope)

    def moved(self, scope: Timed) -> None:
        """Its deadline is another one. A later one is found out when the alarm rings."""
        if scope.deadline < self._next and scope in self._scopes:
            self._next = scope.deadline
            self._alarm.deadline = scope.deadline

    def discard(self, scope: Timed) -> None:
        """It has ended."""
        self._scopes.discard(scope)

    async def run(self) -> None:
        """Watch, until cancelled."""
        while True:
            with trio.CancelScope(deadline=self._next) as self._alarm:
                await trio.sleep_forever()
            now = trio.current_time()
            for scope in [scope for scope in self._scopes if scope.deadline <= now]:
                self._scopes.discard(scope)
                scope.expire()
            self._next = min((scope.deadline for scope in self._scopes), default=inf)
