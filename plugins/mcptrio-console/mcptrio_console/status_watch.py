"""Measures the status of the server and the delay of the event loop while a page is open.

All viewers share one status. The longer it takes to make the status and to render a page, the longer are the pauses
between updates, so that the console takes at most two percent of the time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Final

import trio

from mcptrio import Server
from mcptrio.serving import ServerStatus

from .samples import Samples

__all__ = ["MAX_VIEWERS", "StatusWatch"]

MAX_VIEWERS: Final = 8
_INTERVAL: Final = 1.0
"""Seconds between two updates of a page."""
_MAX_TIME_SHARE: Final = 0.01
"""The share of the time for making the status, and again for rendering pages."""
_LAG_INTERVAL: Final = 0.25


class StatusWatch:
    """The status of the server, and the measurements for open pages.

    Args:
        samples: Receives the delay of the event loop and the number of sessions.
    """

    def __init__(self, server: Server, samples: Samples) -> None:
        self._server = server
        self._samples = samples
        self._status: ServerStatus | None = None
        self._fresh_until = -math.inf
        self.viewers = 0
        self._has_viewers = trio.Event()

    @property
    def status(self) -> ServerStatus:
        """The status of the server, which may be some seconds old if there are thousands of sessions."""
        now = trio.current_time()
        if self._status is None or now >= self._fresh_until:
            started = perf_counter()
            self._status = self._server.status
            self._fresh_until = now + max(_INTERVAL / 2, (perf_counter() - started) / _MAX_TIME_SHARE)
        return self._status

    def renew(self) -> None:
        """Have the next page make a new status, because an action has changed something."""
        self._status = None

    def pause_after(self, seconds: float) -> float:
        """Return the pause after an update that has taken ``seconds``."""
        return max(_INTERVAL, seconds * max(1, self.viewers) / _MAX_TIME_SHARE)

    @contextmanager
    def viewing(self) -> Iterator[None]:
        """Count a viewer during the block. Measurements run while there are viewers."""
        self.viewers += 1
        self._has_viewers.set()
        try:
            yield
        finally:
            self.viewers -= 1
            if not self.viewers:
                self._has_viewers = trio.Event()

    async def run(self) -> None:
        """Measure while a page is open, until cancelled."""
        while True:
            await self._has_viewers.wait()
            began = trio.current_time()
            await trio.sleep(_LAG_INTERVAL)
            lag = max(0.0, trio.current_time() - began - _LAG_INTERVAL)
            sample = self._samples.current
            sample.lag = max(lag, sample.lag or 0.0)
            sample.sessions = len(self.status.sessions)
