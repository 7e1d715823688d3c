"""Keepalives: finds the exchanges that have been silent for some time.

The ASGI entry owns it. One task watches all exchanges, because a deadline for each would cost more than most calls.
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
        """Show the client that the request is running. Not async."""
        ...


class Keepalives:
    """
    Args:
        seconds: how long a silence may be; one for each kind.
    """

    def __init__(self, engine: Engine, seconds: Iterable[float]) -> None:
        self.writers = StreamScheduler(engine)
        """Write the streams that silent exchanges have become."""
        self.silent: dict[float, dict[KeepaliveTarget, float]] = {each: {} for each in seconds}
        """For each interval: the exchanges to call after so many seconds of silence, with the time of their last sign
        of life. The oldest come first, so an exchange that has sent something is removed and added again."""

    async def run(self) -> None:
        """Runs until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.writers.run)
            while True:
                now = trio.current_time()
                # An exchange that begins during this sleep is due later.
                due = [next(iter(silent.values()), now) + seconds for seconds, silent in self.silent.items()]
                await trio.sleep_until(min(due))
                for seconds, silent in self.silent.items():
                    _look(silent, trio.current_time() - seconds)


def _look(silent: dict[KeepaliveTarget, float], before: float) -> None:
    while silent:
        exchange, since = next(iter(silent.items()))
        if since > before:
            # The rest began later.
            return
        # Before the call, which may begin again with a new time.
        del silent[exchange]
        exchange.send_keepalive()
