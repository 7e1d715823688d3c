"""Paginated lists of a server, read as one sequence.

Client returns a Listing for tools, resources, resource templates and prompts.

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
"""Pages of one list. A server with more of them is assumed to loop."""
MAX_ITEMS = 100_000
"""Entries of one list, in all pages together."""
MAX_BYTES = 64 * 1024 * 1024
"""Bytes of JSON in one list, in all pages after the first. The message limit covers the first page."""


class Listing(Generic[T]):
    """A list of the server. Made by :class:`Client`.

    Read it with ``async for item in listing``, with ``await listing.all()``, or page by page. Each iteration requests
    the list again, except for pages that are still fresh in the cache.
    """

    def __init__(
        self, fetch: Callable[[str | None], Awaitable[Any]], items: Callable[[Any], tuple[T, ...]], label: str
    ) -> None:
        self._fetch = fetch
        self._items = items
        self._label = label

    def pages(self) -> AsyncIterator[Any]:
        """Iterate over the results as received, each with its ``next_cursor`` and ``ttl_ms``."""
        return _Pages(self)

    async def page(self, cursor: str | None = None) -> Any:
        """Return one page: the first, or the one at ``cursor``."""
        return await self._fetch(cursor)

    async def all(self) -> tuple[T, ...]:
        """Return the items of all pages."""
        return tuple([item async for item in self])

    def __aiter__(self) -> AsyncIterator[T]:
        return _Items(self.pages(), self._items)


# Classes, because an async generator that a loop leaves early needs an explicit aclose(), which callers forget.


class _Pages:
    def __init__(self, listing: Listing[Any]) -> None:
        self._listing = listing
        self._item_count = 0
        self._byte_count = 0
        self._cursor: str | None = None
        self._seen: set[str] = set()
        self._ended = False

    def __aiter__(self) -> _Pages:
        return self

    async def __anext__(self) -> Any:
        if self._ended:
            raise StopAsyncIteration
        self._check()
        page = await self._listing.page(self._cursor)
        self._count(page)
        # The cursor is opaque: sent back unchanged. Only its absence ends the list; an empty page does not.
        self._cursor = page.next_cursor
        self._ended = self._cursor is None
        return page

    def _count(self, page: Any) -> None:
        self._item_count += len(self._listing._items(page))
        if self._item_count > MAX_ITEMS:
            raise RemoteProtocolError(
                f"{self._listing._label}: expected at most {MAX_ITEMS} entries on all pages, got more"
            )
        # The first page is not measured, because encoding it again would make short lists slower.
        if self._seen:
            self._byte_count += encoded_size(Response(0, LATEST.unstructure(page)))
            if self._byte_count > MAX_BYTES:
                raise RemoteProtocolError(
                    f"{self._listing._label}: expected at most {MAX_BYTES} bytes on all pages, got more"
                )

    def _check(self) -> None:
        if self._cursor is None:
            return
        if self._cursor in self._seen:
            raise RemoteProtocolError(f"{self._listing._label}: the server gave the same cursor twice")
        self._seen.add(self._cursor)
        if len(self._seen) >= MAX_PAGES:
            raise RemoteProtocolError(f"{self._listing._label}: expected at most {MAX_PAGES} pages, got more")


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
