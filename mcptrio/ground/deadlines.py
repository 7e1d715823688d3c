"""The deadlines of all requests in flight, watched by one task.

The server's supervisor and each session of a client own one. Almost all requests end before their deadline, so a
request does not register its deadline with Trio: a cancel scope with a deadline costs 20 µs, a fifth of a call over
stdio and a tenth of a client's call. Instead, the task sets one alarm for the earliest deadline. When the alarm rings,
the task compares all deadlines with the time.
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
        """The deadline on Trio's clock; ``math.inf`` for none."""
        ...

    def expire(self) -> None:
        """Called once, after the deadline. Does not block or raise."""
        ...


class Deadlines:
    """Watches the deadlines of requests, and calls :meth:`Timed.expire` for each that has passed."""

    def __init__(self) -> None:
        self.scopes: set[Timed] = set()
        """The watched requests."""
        self.next = inf
        """The time of the alarm. Callers skip :meth:`moved` for a later deadline, which is the usual case."""
        self._alarm = trio.CancelScope()

    def add(self, scope: Timed) -> None:
        """Watch a request from now on."""
        self.scopes.add(scope)
        if scope.deadline < self.next:
            self.moved(scope)

    def moved(self, scope: Timed) -> None:
        """Note that a deadline has changed. A later deadline is noticed when the alarm rings."""
        if scope.deadline < self.next and scope in self.scopes:
            self.next = scope.deadline
            self._alarm.deadline = scope.deadline

    def discard(self, scope: Timed) -> None:
        """Stop watching a request that has ended."""
        self.scopes.discard(scope)

    async def run(self) -> None:
        """Watch, until cancelled."""
        while True:
            # A new scope each time, because a scope whose deadline has passed cannot be used again.
            with trio.CancelScope(deadline=self.next) as self._alarm:
                await trio.sleep_forever()
            now = trio.current_time()
            # Iterates over a list, because `expire` may add and discard requests.
            for scope in [scope for scope in self.scopes if scope.deadline <= now]:
                self.scopes.discard(scope)
                scope.expire()
            self.next = min((scope.deadline for scope in self.scopes), default=inf)
