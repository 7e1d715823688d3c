"""Lists that come in pages, read as if they came whole.

Given out by the client for tools, resources, templates and prompts.
The one rule: a cursor is the server's: passed back as it came, and only its absence is the end.

Source: MCP 2026-07-28, server/utilities/pagination.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Generic, TypeVar

from mcptrio.errors import RemoteProtocolError
from mcptrio.protocol.jsonrpc import encoded_size
from mcptrio.protocol.messages import Response
from mcptrio.protocol.revisions.registry import LATEST

__all__ = ["MAX_BYTES", "MAX_ITEMS", "MAX_PAGES", "Listing"]

T = TypeVar("T")

MAX_PAGES = 10_000
"""Pages of one list; a server that goes on has lost its way."""
MAX_ITEMS = 100_000
"""Entries of one list, on all of its pages."""
MAX_BYTES = 64 * 1024 * 1024
"""Bytes of JSON of one list from its second page on. The first is bounded as any message is."""


class Listing(Generic[T]):
    """What a server lists: ``async for item in listing``, ``await listing.all()``, or page by page.

    Each iteration asks anew, as far as what is kept is not fresh any more.
    """

    def __init__(
        self, fetch: Callable[[str | None], Awaitable[Any]], items: Callable[[Any], tuple[T, ...]], label: str
    ) -> None:
        self._fetch = fetch
        self._items = items
        self._label = label

    def pages(self) -> AsyncIterator[Any]:
        """The results as they came, each with its ``next_cursor`` and ``ttl_ms``."""
        return _Pages(self._fetch, self._items, self._label)

    async def page(self, cursor: str | None = None) -> Any:
        """One page."""
        return await self._fetch(cursor)

    async def all(self) -> tuple[T, ...]:
        """All of it."""
        return tuple([item async for item in self])

    def __aiter__(self) -> AsyncIterator[T]:
        return _Items(self.pages(), self._items)


# Not generators: those want to be closed by whoever leaves a loop early, and nobody does.


class _Pages:
    def __init__(
        self, fetch: Callable[[str | None], Awaitable[Any]], items: Callable[[Any], tuple[Any, ...]], label: str
    ) -> None:
        self._fetch = fetch
        self._items = items
        self._item_count = 0
        self._byte_count = 0
        self._label = label
        self._cursor: str | None = None
        self._seen: set[str] = set()
        self._ended = False

    def __aiter__(self) -> _Pages:
        return self

    async def __anext__(self) -> Any:
        if self._ended:
            raise StopAsyncIteration
        self._check()
        page = await self._fetch(self._cursor)
        self._count(page)
        self._cursor = page.next_cursor
        self._ended = self._cursor is None
        return page

    def _count(self, page: Any) -> None:
        self._item_count += len(self._items(page))
        if self._item_count > MAX_ITEMS:
            raise RemoteProtocolError(f"{self._label}: expected at most {MAX_ITEMS} entries on all pages")
        if self._seen:
            self._byte_count += encoded_size(Response(0, LATEST.unstructure(page)))
            if self._byte_count > MAX_BYTES:
                raise RemoteProtocolError(f"{self._label}: expected at most {MAX_BYTES} bytes on all pages")

    def _check(self) -> None:
        if self._cursor is None:
            return
        if self._cursor in self._seen:
            raise RemoteProtocolError(f"{self._label}: the server gave the same cursor twice")
        self._seen.add(self._cursor)
        if len(self._seen) >= MAX_PAGES:
            raise RemoteProtocolError(f"{self._label}: expected at most {MAX_PAGES} pages")


class _Items(Generic[T]):
    def __init__(self, pages: AsyncIterator[Any], items: Callable[[Any], tuple[T, ...]]) -> None:
        self._pages = pages
        self._items = items
        self._page: Iterator[T] = iter(())

    def __aiter__(self) -> _Items[T]:
        return self

    async def __anext__(self) -> T:
        while True:
            for item in self._page:
                return item
            self._page = iter(self._items(await self._pages.__anext__()))
