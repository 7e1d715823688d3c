"""What the requests of a server share: its event loop, sessions, running handlers, threads and parked handlers.

The server makes it. The supervisor changes it, and the capabilities use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcptrio.runtime.event_loop import EventLoop
from mcptrio.runtime.limits import ServerLimits
from mcptrio.runtime.parking import ParkingLot
from mcptrio.runtime.work import ThreadShares, Works

if TYPE_CHECKING:
    from mcptrio.runtime.session import Session

__all__ = ["RuntimeState"]


class RuntimeState:
    def __init__(self, limits: ServerLimits) -> None:
        self.loop = EventLoop()
        self.sessions: set[Session] = set()
        self.works = Works()
        """Handlers. Those of requests that have ended count against ``limits.requests``."""
        self.surrounding = Works()
        """Requests inside of middleware, and requests to ASGI applications of plugins."""
        self.threads = ThreadShares(limits.threads)
        self.parking = ParkingLot(limits.parked)
