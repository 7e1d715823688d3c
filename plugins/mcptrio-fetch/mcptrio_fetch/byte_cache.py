"""A cache with a limit on its total weight and on the age of its values.

``PageFetcher`` and ``Robots`` use it. The least recently used value is evicted first; a value heavier than the limit is
not cached.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

import trio
from attrs import frozen

__all__ = ["ByteCache"]

K = TypeVar("K")
V = TypeVar("V")


class ByteCache(Generic[K, V]):
    """Values by key.

    Args:
        capacity: Maximum total weight in bytes.
        max_age: Seconds after which a value expires.
    """

    def __init__(self, capacity: int, max_age: float) -> None:
        self._capacity = capacity
        self._max_age = max_age
        self._weight = 0
        self._items: OrderedDict[K, _Item[V]] = OrderedDict()

    @property
    def weight(self) -> int:
        return self._weight

    def get(self, key: K) -> V | None:
        item = self._items.get(key)
        if item is None:
            return None
        if trio.current_time() - item.since >= self._max_age:
            self.drop(key)
            return None
        self._items.move_to_end(key)
        return item.value

    def put(self, key: K, value: V, weight: int) -> None:
        """Store a value. A previous value of the key is replaced.

        Args:
            weight: The approximate size of the entry in bytes.
        """
        self.drop(key)
        if weight > self._capacity:
            return
        self._items[key] = _Item(value, weight, trio.current_time())
        self._weight += weight
        while self._weight > self._capacity:
            self.drop(next(iter(self._items)))

    def drop(self, key: K) -> None:
        item = self._items.pop(key, None)
        if item is not None:
            self._weight -= item.weight


@frozen
class _Item(Generic[V]):
    value: V
    weight: int
    since: float
