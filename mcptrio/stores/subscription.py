"""One subscription to a topic of a bus, independent of the transport.

The buses create it for :meth:`mcptrio.abc.Bus.subscribe`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator

import trio

__all__ = ["Subscription"]


class Subscription:
    """The messages that wait for one subscriber.

    Args:
        queue: Messages that may wait. When full, the oldest is dropped, so a slow subscriber does not delay publishers.
    """

    def __init__(self, queue: int) -> None:
        self._waiting: deque[bytes] = deque(maxlen=queue)
        self._arrived = trio.Event()

    def put(self, message: bytes) -> None:
        self._waiting.append(message)
        self._arrived.set()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        await trio.lowlevel.checkpoint()
        while not self._waiting:
            self._arrived = trio.Event()
            await self._arrived.wait()
        return self._waiting.popleft()
