"""A token store in memory, for the lifetime of the process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any
from weakref import WeakValueDictionary

import trio

__all__ = ["MemoryTokenStore"]


class MemoryTokenStore:
    """A :class:`mcptrio.abc.TokenStore` that keeps tokens in memory.

    Args:
        max_keys: The number of keys. When full, the least recently used one is evicted, and its user logs in again.
    """

    def __init__(self, *, max_keys: int = 1000) -> None:
        self._max_keys = max_keys
        self._locks: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()
        self._kept: OrderedDict[str, Mapping[str, Any]] = OrderedDict()

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        async with self._locks.setdefault(key, trio.Lock()):
            yield

    async def load(self, key: str) -> Mapping[str, Any] | None:
        await trio.lowlevel.checkpoint()
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        # Copied in and out, so that a caller that changes its value does not change the stored credentials.
        return deepcopy(self._kept[key])

    async def save(self, key: str, value: Mapping[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        self._kept[key] = deepcopy(dict(value))
        self._kept.move_to_end(key)
        while len(self._kept) > self._max_keys:
            self._kept.popitem(last=False)

    async def delete(self, key: str) -> bool:
        await trio.lowlevel.checkpoint()
        return self._kept.pop(key, None) is not None

    async def keys(self) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        return tuple(self._kept)
