"""What the servers of a host list, together: each thing with its server, and what is missing.

Given out by the host.
The one rule: a list is never longer in coming than the host's ``ready_timeout``, and says whose part is not in it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from attrs import field, frozen

__all__ = ["HostList", "HostListing", "Listed"]

T = TypeVar("T")

_NOTHING: Mapping[str, str] = MappingProxyType({})


@frozen
class Listed(Generic[T]):
    """A tool, prompt, resource or template, and whose it is.

    Args:
        name: in the host: ``fs_read_file``; of a resource its URI, of a template its URI template.
        server: whose it is, as the host calls it.
        item: as the server says it.
    """

    name: str
    server: str
    item: T


@frozen
class HostList(Generic[T]):
    """What was listed at one moment.

    Args:
        items: in the order of the servers, and of each server's list.
        missing: the servers whose part is missing, or not complete, and why.
    """

    items: tuple[Listed[T], ...]
    missing: Mapping[str, str] = field(factory=dict)


class HostListing(Generic[T]):
    """``async for each in listing``, or ``await listing.all()``. Each asks the servers anew, all at the same time."""

    def __init__(self, fetch: Callable[[], Awaitable[HostList[T]]]) -> None:
        self._fetch = fetch
        self.missing = _NOTHING
        """What was missing the last time."""

    async def all(self) -> HostList[T]:
        """All of it."""
        found = await self._fetch()
        self.missing = found.missing
        return found

    def __aiter__(self) -> AsyncIterator[Listed[T]]:
        # No generator: one that is left early would have to be closed by whoever leaves it.
        return _Items(self)


class _Items(Generic[T]):
    def __init__(self, listing: HostListing[T]) -> None:
        self._listing = listing
        self._items: list[Listed[T]] | None = None

    def __aiter__(self) -> _Items[T]:
        return self

    async def __anext__(self) -> Listed[T]:
        if self._items is None:
            self._items = list(reversed((await self._listing.all()).items))
        if not self._items:
            raise StopAsyncIteration
        return self._items.pop()
