"""A cache of token verification results.

The token verifiers and the resource server use it.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from math import inf
from typing import Generic, TypeVar

__all__ = ["VerificationCache", "hash_of"]

T = TypeVar("T")


def hash_of(token: str) -> bytes:
    """Return the cache key of a token."""
    # The cache holds no tokens, so a memory dump yields none. Looking up a hash also hides from timing whether a token
    # is known.
    return sha256(token.encode()).digest()


class VerificationCache(Generic[T]):
    """Recent results by token hash. When full, the least recently used entry is evicted.

    Args:
        entries: The size; 0 for no cache.
        ticks: Returns monotonic seconds, which no change to the wall clock affects.
        clock: Returns seconds since 1970, for results that expire at a wall-clock time, such as the expiry of a token.
    """

    def __init__(self, entries: int, ticks: Callable[[], float], clock: Callable[[], float] = time.time) -> None:
        self._entries = entries
        self._ticks = ticks
        self._clock = clock
        self._kept: OrderedDict[bytes, tuple[float, float, T]] = OrderedDict()

    def put(self, key: bytes, value: T, *, seconds: float, expires_at: float = inf) -> None:
        """Store a result.

        Args:
            seconds: The time until it expires.
            expires_at: An earlier expiry in seconds since 1970, if any. Setting the wall clock forward also expires the
                entry.
        """
        if seconds <= 0 or not self._entries:
            return
        self._kept.pop(key, None)
        self._kept[key] = (self._ticks() + seconds, expires_at, value)
        if len(self._kept) > self._entries:
            self._kept.popitem(last=False)

    def get(self, key: bytes) -> tuple[T] | None:
        """Return the value in a tuple, or ``None`` if the cache has no current one."""
        entry = self._kept.get(key)
        if entry is None:
            return None
        if entry[0] <= self._ticks() or entry[1] <= self._clock():
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        # In a tuple, because None is a value: the result of a token that is not valid.
        return (entry[2],)

    def forget(self, key: bytes) -> None:
        self._kept.pop(key, None)

    def __len__(self) -> int:
        return len(self._kept)
