"""Schedules the writes of open event streams, for revisions without sessions.

One task writes all streams whose clients read fast enough, and each slow client gets its own task, so no stream waits
for the client of another one. An idle stream has no task. Messages that arrive between two turns of the task share one
write. :mod:`mcptrio.http.server.keepalives` owns the scheduler, and streams call it when they have new messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import trio

from mcptrio.abc import Engine

__all__ = ["StreamScheduler"]

_MAX_BATCH_STREAMS: Final = 32
"""Streams that are written before other tasks get a turn."""


class WritableStream(Protocol):
    def write_now(self) -> bool:
        """Write the queued messages without waiting. Return ``False`` if :meth:`write` must write the rest."""
        ...

    async def write(self) -> None:
        """Write the queued messages, with a deadline."""
        ...

    def abandon(self) -> None:
        """Drop the queued messages. Nothing is written afterwards. Does not block."""
        ...


class StreamScheduler:
    """Writes the streams that have messages. :meth:`run` must be running."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._due: deque[WritableStream] = deque()
        self._arrived = trio.lowlevel.ParkingLot()
        self._nursery: trio.Nursery | None = None
        self._ended = False

    @property
    def ended(self) -> bool:
        return self._ended

    def add(self, stream: WritableStream) -> None:
        """Queue a stream that has messages. The stream must not be added again before they are written."""
        if self._ended:
            stream.abandon()
            return
        self._check_running()
        self._due.append(stream)
        self._arrived.unpark()

    def start_soon(self, write: Callable[[], Awaitable[None]]) -> None:
        """Run a write that has to wait for its client."""
        self._check_running().start_soon(self._engine.run_guarded, write, "writing a stream")

    async def run(self) -> None:
        """Write streams until cancelled."""
        try:
            async with trio.open_nursery() as self._nursery:
                while True:
                    while not self._due:
                        await self._arrived.park()
                    await self._engine.run_guarded(self._write, "writing streams")
        finally:
            self._nursery = None
            self._ended = True
            while self._due:
                # The owners of these streams wait for the write, and would wait forever otherwise.
                self._due.popleft().abandon()

    async def _write(self) -> None:
        while self._due:
            for _ in range(min(_MAX_BATCH_STREAMS, len(self._due))):
                stream = self._due.popleft()
                if not stream.write_now():
                    # A slow client gets its own task, so that it delays no other stream.
                    self.start_soon(stream.write)
            # 10,000 streams may be due at once (a changed list), and requests must not wait for all of them.
            await trio.lowlevel.checkpoint()

    def _check_running(self) -> trio.Nursery:
        if self._nursery is None:
            raise RuntimeError("HTTPApp.run() is not running: start it in the nursery that serves the application")
        return self._nursery
