"""Sends keepalives to clients whose HTTP exchange has been idle for some time.

``HTTPApp`` owns it. One task watches all exchanges, because a deadline for each exchange would cost more than most
calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import trio

from mcptrio.abc import Engine
from mcptrio.http.server.stream_scheduler import StreamScheduler

__all__ = ["Keepalives"]


class KeepaliveTarget(Protocol):
    def send_keepalive(self) -> None:
        """Show the client that the request is running. Does not block."""
        ...


class Keepalives:
    """Sends keepalives on exchanges that have been idle for some time.

    Args:
        seconds: The times after which an idle exchange gets a keepalive, in seconds; one for each kind of exchange.
    """

    def __init__(self, engine: Engine, seconds: Iterable[float]) -> None:
        self.writers = StreamScheduler(engine)
        """Writes the event streams that idle exchanges have opened."""
        self.idle: dict[float, dict[KeepaliveTarget, float]] = {each: {} for each in seconds}
        """By interval: the exchanges that get a keepalive after this many idle seconds, with the time of their last
        output. The oldest come first, so an exchange that sends something is removed and added again."""

    async def run(self) -> None:
        """Send keepalives until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.writers.run)
            while True:
                now = trio.current_time()
                # An exchange that begins during this sleep is due later.
                due = [next(iter(idle.values()), now) + seconds for seconds, idle in self.idle.items()]
                await trio.sleep_until(min(due))
                for seconds, idle in self.idle.items():
                    _send_due(idle, trio.current_time() - seconds)


def _send_due(idle: dict[KeepaliveTarget, float], before: float) -> None:
    while idle:
        exchange, since = next(iter(idle.items()))
        if since > before:
            # The exchanges that follow became idle later.
            return
        # Removed before the call, because the call may add the exchange again with a new time.
        del idle[exchange]
        exchange.send_keepalive()
