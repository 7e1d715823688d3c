"""Answers about tokens that were given lately, so that not each request asks again.

Used by the verifiers of tokens, and by :mod:`mcptrio.auth.server.resource_server`.
The one rule: a token itself is never kept, only its SHA-256; so what leaks from here lets nobody in.

As many tokens as ``entries``; past that the one used longest ago is forgotten, and is asked about again.
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
    """What a token is remembered by, and found by: telling its hash takes as long whether it is known or not."""
    return sha256(token.encode()).digest()


class VerificationCache(Generic[T]):
    """
    Args:
        entries: how many; 0 for none.
        ticks: seconds that never run backwards, whatever happens to the wall clock.
        clock: seconds since 1970, for what ends at a time of day, as a token does.
    """

    def __init__(self, entries: int, ticks: Callable[[], float], clock: Callable[[], float] = time.time) -> None:
        self._entries = entries
        self._ticks = ticks
        self._clock = clock
        self._kept: OrderedDict[bytes, tuple[float, float, T]] = OrderedDict()

    def put(self, key: bytes, value: T, *, seconds: float, ends: float = inf) -> None:
        """
        Args:
            seconds: after which it is forgotten.
            ends: the time of day, in seconds since 1970, at which it is forgotten if that is earlier. A wall clock that
                is set forward ends it too.
        """
        if seconds <= 0 or not self._entries:
            return
        self._kept.pop(key, None)
        self._kept[key] = (self._ticks() + seconds, ends, value)
        if len(self._kept) > self._entries:
            self._kept.popitem(last=False)

    def get(self, key: bytes) -> tuple[T] | None:
        """The value, alone in a tuple; ``None`` where there is none, or none any more."""
        found = self._kept.get(key)
        if found is None:
            return None
        if found[0] <= self._ticks() or found[1] <= self._clock():
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return (found[2],)

    def forget(self, key: bytes) -> None:
        self._kept.pop(key, None)

    def __len__(self) -> int:
        return len(self._kept)
