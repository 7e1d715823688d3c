"""Names that may be used once, in memory, for several servers in one process.

:func:`mcptrio.stores.memory.memory_stores` makes the store.
"""

from __future__ import annotations

from hashlib import sha256
from heapq import heappop, heappush
from typing import Final

import trio

from mcptrio.errors import StoreFailed

__all__ = ["MAX_NAMES", "MemoryReplayStore"]

MAX_NAMES: Final = 1_000_000
"""Names in the store, about 200 bytes each in memory. Further ones are refused: an evicted name could be used again."""


class MemoryReplayStore:
    """Used names, as digests in a set."""

    def __init__(self) -> None:
        self._used: set[bytes] = set()
        self._expiring: list[tuple[float, bytes]] = []

    async def use(self, name: str, seconds: float) -> bool:
        now = trio.current_time()
        while self._expiring and self._expiring[0][0] <= now:
            self._used.discard(heappop(self._expiring)[1])
        # A digest, because a name may be long.
        digest = sha256(name.encode()).digest()
        if digest in self._used:
            return False
        if len(self._used) >= MAX_NAMES:
            raise StoreFailed(f"too many used names: {MAX_NAMES} are remembered")
        self._used.add(digest)
        heappush(self._expiring, (now + seconds, digest))
        return True
