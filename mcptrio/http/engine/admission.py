"""Which connections the server keeps when there are too many.

The server asks for each connection that it accepts. One address takes at most its share of the connections. Where there
is no place, the connection that has waited longest for a request is closed; if all are busy, the new one is refused.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from time import monotonic
from typing import Any, Final, Protocol

from mcptrio.ground.networks import network_of
from mcptrio.http.client_address import Proxies
from mcptrio.http.engine.limits import ConnectionLimits
from mcptrio.transports.descriptor_limit import max_connections

__all__ = ["Admission"]

_USED_BONUS_SECONDS: Final = 5.0
"""Seconds by which a connection that has had a request may wait longer than one that has not. A flood of silent
connections then closes its own."""


class Evictable(Protocol):
    def end_if_idle(self) -> None:
        """Close it, unless a request is being served."""
        ...


class Admission:
    """
    Args:
        limits: of the server. The descriptors of this process may allow fewer connections.
        proxies: addresses without a share of their own, since many clients are behind them.
    """

    def __init__(self, limits: ConnectionLimits, proxies: Proxies) -> None:
        self._limit = max_connections(limits.connections)
        self._share = max(1, int(self._limit * limits.address_share))
        self._proxies = proxies
        self._open: dict[Evictable, str | None] = {}
        """Each connection that has a place, and its owner."""
        self._held: Counter[str] = Counter()
        self._unused: OrderedDict[Evictable, float] = OrderedDict()
        """Connections that have not had a request yet, and since when; the oldest first."""
        self._idle: OrderedDict[Evictable, float] = OrderedDict()
        """Connections that have had one and wait for the next."""
        self._closing: set[Evictable] = set()
        """Connections that have lost their place and still have their descriptor."""

    def owner_of(self, client: Any) -> str | None:
        """Return the address or IPv6 network that a connection counts for; ``None`` if it has no share.

        Args:
            client: as ASGI has it.
        """
        if client is None or client[1] is None or self._proxies.trusts(client[0]):
            return None
        return network_of(client[0])

    def has_room(self, owner: str | None) -> bool:
        """Whether another connection may be taken, after closing an idle one if needed."""
        if owner is not None and self._held[owner] >= self._share:
            return self._evict(owner)
        return len(self._open) < self._limit or self._evict()

    def make_room(self) -> bool:
        """Close the connection that has waited longest for a request. Returns whether there was one.

        While one is closing, no other is closed: one descriptor is enough for one connection.
        """
        return bool(self._closing) or self._evict()

    def enter(self, connection: Evictable, owner: str | None) -> None:
        """Take a place for a connection, which is idle."""
        self._open[connection] = owner
        if owner is not None:
            self._held[owner] += 1
        self._unused[connection] = monotonic()

    def leave(self, connection: Evictable) -> None:
        """A connection has ended: give its place back, if that has not happened."""
        self._closing.discard(connection)
        self._release(connection)

    def _release(self, connection: Evictable) -> None:
        self._unused.pop(connection, None)
        self._idle.pop(connection, None)
        if connection not in self._open:
            return
        owner = self._open.pop(connection)
        if owner is not None:
            self._held[owner] -= 1
            if not self._held[owner]:
                del self._held[owner]

    def idle(self, connection: Evictable) -> None:
        """A connection waits for a request from now on."""
        if connection in self._open:
            self._idle[connection] = monotonic()

    def busy(self, connection: Evictable) -> None:
        """A connection has a request."""
        if self._idle.pop(connection, None) is None:
            self._unused.pop(connection, None)

    def _evict(self, owner: str | None = None) -> bool:
        unused, idle = self._oldest(self._unused, owner), self._oldest(self._idle, owner)
        if unused is not None and (idle is None or self._unused[unused] < self._idle[idle] + _USED_BONUS_SECONDS):
            idle = unused
        if idle is None:
            return False
        # Its descriptor goes at its next turn; the reserve covers that moment.
        self._release(idle)
        self._closing.add(idle)
        idle.end_if_idle()
        return True

    def _oldest(self, waiting: OrderedDict[Evictable, float], owner: str | None) -> Evictable | None:
        return next((each for each in waiting if owner is None or self._open[each] == owner), None)
