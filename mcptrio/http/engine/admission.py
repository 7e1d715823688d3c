"""Decides which connections the server keeps when there are too many.

The server calls it for each accepted connection. One address may have only its share of the connections. If the limit
is reached, the connection that has waited longest for a request is closed. If all connections are busy, the new one is
refused.
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
"""Seconds by which a connection that has had a request may wait longer than one without. So a flood of unused
connections evicts its own connections instead of those of active clients."""


class Evictable(Protocol):
    def end_if_idle(self) -> None:
        """Close the connection, unless a request is being served."""
        ...


class Admission:
    """Admits connections within the limits, and closes idle ones to make room.

    Args:
        limits: The limits of the server. The descriptors of this process may allow fewer connections.
        proxies: The proxies whose addresses have no share, because many clients are behind them.
    """

    def __init__(self, limits: ConnectionLimits, proxies: Proxies) -> None:
        self._limit = max_connections(limits.connections)
        self._share = max(1, int(self._limit * limits.address_share))
        self._proxies = proxies
        self.open: dict[Evictable, str | None] = {}
        """The admitted connections, with their owners."""
        self._by_owner: Counter[str] = Counter()
        self.unused: OrderedDict[Evictable, float] = OrderedDict()
        """Connections that have not had a request, with the time at which they were accepted; the oldest first."""
        self.idle: OrderedDict[Evictable, float] = OrderedDict()
        """Connections that wait for their next request, with the time at which the last one ended; the oldest first.

        Connections change this and ``unused`` themselves, because a method call for every request would be slower."""
        self._closing: set[Evictable] = set()
        """Evicted connections whose descriptor is still open."""

    def owner_of(self, client: Any) -> str | None:
        """Return the address or IPv6 network that a connection counts for; ``None`` if it has no share.

        Args:
            client: The client's address, in the form of an ASGI scope.
        """
        if client is None or client[1] is None or self._proxies.trusts(client[0]):
            return None
        return network_of(client[0])

    def has_room(self, owner: str | None) -> bool:
        """Return whether another connection may be accepted, after closing an idle one if needed."""
        if owner is not None and self._by_owner[owner] >= self._share:
            # Only a connection of this address is closed: an address must not evict the connections of others.
            return self._evict(owner)
        return len(self.open) < self._limit or self._evict()

    def make_room(self) -> bool:
        """Close the connection that has waited longest for a request, and return whether there was one."""
        # Called when the process is out of descriptors. A connection that is already closing will free one.
        return bool(self._closing) or self._evict()

    def enter(self, connection: Evictable, owner: str | None) -> None:
        """Add a new connection."""
        self.open[connection] = owner
        if owner is not None:
            self._by_owner[owner] += 1
        self.unused[connection] = monotonic()

    def leave(self, connection: Evictable) -> None:
        """Remove a connection that has ended."""
        self._closing.discard(connection)
        self._release(connection)

    def _release(self, connection: Evictable) -> None:
        self.unused.pop(connection, None)
        self.idle.pop(connection, None)
        if connection not in self.open:
            return
        owner = self.open.pop(connection)
        if owner is not None:
            self._by_owner[owner] -= 1
            if not self._by_owner[owner]:
                # Otherwise the counter would grow with every address ever seen.
                del self._by_owner[owner]

    def _evict(self, owner: str | None = None) -> bool:
        unused, idle = self._oldest(self.unused, owner), self._oldest(self.idle, owner)
        if unused is not None and (idle is None or self.unused[unused] < self.idle[idle] + _USED_BONUS_SECONDS):
            idle = unused
        if idle is None:
            return False
        # The task of the connection closes the descriptor when it runs next. Until then, the reserve of descriptors is
        # used.
        self._release(idle)
        self._closing.add(idle)
        idle.end_if_idle()
        return True

    def _oldest(self, waiting: OrderedDict[Evictable, float], owner: str | None) -> Evictable | None:
        return next((each for each in waiting if owner is None or self.open[each] == owner), None)
