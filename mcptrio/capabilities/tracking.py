"""An async iterator that reports progress after each item.

``Context.track`` returns it. It is not an async generator: if a loop left a generator early, the garbage collector
would have to finish the generator, and Trio warns about that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Generic, TypeVar

__all__ = ["Tracked"]

T = TypeVar("T")


class Tracked(Generic[T]):
    """An async iterator over the given items that reports progress after each item.

    Args:
        report: A function called with the number of finished items each time the next item is requested.
    """

    def __init__(self, items: Iterable[T] | AsyncIterator[T], report: Callable[[int], Awaitable[None]]) -> None:
        self._items = items if isinstance(items, AsyncIterator) else iter(items)
        self._report = report
        self._count = 0

    def __aiter__(self) -> Tracked[T]:
        return self

    async def __anext__(self) -> T:
        if self._count:
            await self._report(self._count)
        if isinstance(self._items, AsyncIterator):
            item: T = await anext(self._items)
        else:
            try:
                item = next(self._items)
            except StopIteration:
                raise StopAsyncIteration from None
        self._count += 1
        return item
