"""One reader of one topic of a bus, whatever carries the messages.

Made by the buses for :meth:`mcptrio.abc.Bus.subscribe`.
The one rule: a slow reader loses the oldest, and holds up nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator

import trio

__all__ = ["Subscription"]


class Subscription:
    """
    Args:
        queue: messages that may wait.
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
