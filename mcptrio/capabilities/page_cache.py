"""Pages of lists in wire form, cached for each revision until the list changes.

The capabilities with lists use this. Host applications list all entries at each start, and many before each turn of the
model. A page of a hundred tools takes 72 µs, as long as four calls, and 17 µs from the cache.

Source: MCP 2026-07-28, server/utilities/pagination.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from mcptrio.capabilities.registry import Entry, Registry
from mcptrio.protocol.jsonrpc import preencoded
from mcptrio.protocol.revisions.revision import Revision

__all__ = ["PageCache"]

E = TypeVar("E", bound=Entry)

_MAX_CACHED_PAGES = 64
"""Pages in the cache. When it is full, it is cleared. The bound is needed, because a client may invent cursors."""


class PageCache(Generic[E]):
    """The pages of one list in wire form, cached by revision and cursor.

    Args:
        member: The member of the result in wire form that contains the list.
        result: Makes a result from the entries of a page and the cursor of the next page.
        size: Entries on one page.
    """

    def __init__(
        self, registry: Registry[E], member: str, result: Callable[[list[E], str | None], Any], *, size: int
    ) -> None:
        self._registry = registry
        self._member = member
        self._result = result
        self._size = size
        self._pages: dict[tuple[str, str | None], dict[str, Any]] = {}
        self._version = registry.version

    def page(
        self, revision: Revision, cursor: str | None, visible: Callable[[E], bool] | None = None
    ) -> dict[str, Any]:
        """Return the result for a page, in wire form. The caller may change its members, except for the list.

        Args:
            visible: Returns whether the principal may see an entry. With it, the page is not cached.

        Raises:
            InvalidParams: The cursor is not one of this list.
        """
        # A list that depends on the principal is not cached, because each principal would need a copy.
        if visible is not None:
            return self._to_wire(revision, *self._registry.page(cursor, self._size, visible))
        # The version is compared, because an observer could be called in another thread.
        if self._version != self._registry.version or len(self._pages) >= _MAX_CACHED_PAGES:
            self._pages.clear()
            self._version = self._registry.version
        key = (revision.version, cursor)
        page = self._pages.get(key)
        if page is None:
            page = self._to_wire(revision, *self._registry.page(cursor, self._size))
            # The list is nearly all of the bytes, and is the same for every client of this revision.
            page[self._member] = preencoded(page[self._member])
            self._pages[key] = page
        # A copy, because the caller adds members such as _meta.
        return dict(page)

    def _to_wire(self, revision: Revision, entries: list[E], following: str | None) -> dict[str, Any]:
        page: dict[str, Any] = revision.unstructure(self._result(entries, following))
        return page
