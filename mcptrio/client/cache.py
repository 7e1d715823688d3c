"""A cache of list pages and resources, which are kept for as long as the server declares them fresh.

Client reads it before it sends a request for a list or a resource, and reports changes to it. Each client has its own
cache, which is cleared for each new session, so a private result cannot reach another principal. The key is the method
with the cursor or URI.

Source: MCP 2026-07-28, server/utilities/caching.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import trio

from mcptrio.client.subscriptions import Change, ChangeKind
from mcptrio.protocol.model.base import CacheableResult

__all__ = ["Cache"]

# By kind of change, the methods whose results become stale.
_STALE_METHODS: dict[ChangeKind, tuple[str, ...]] = {
    "tools": ("tools/list",),
    "prompts": ("prompts/list",),
    "resources": ("resources/list", "resources/templates/list"),
    "resource": ("resources/read",),
}


MAX_TTL_SECONDS = 3600.0
"""Upper limit of the lifetime that a server declares."""


class Cache:
    """The cached results of one client.

    Args:
        max_entries: The number of entries. When full, the least recently used one is evicted. 0 disables the cache.
    """

    def __init__(self, max_entries: int) -> None:
        self._max = max_entries
        # The results, each with the Trio clock time of its expiry.
        self._entries: OrderedDict[tuple[str, str | None], tuple[Any, float]] = OrderedDict()
        self.changes = 0
        """The number of changes so far. Callers read it before a request and pass it to :meth:`put`."""

    def get(self, method: str, target: str | None) -> Any:
        """Return the fresh result for a cursor or URI, or ``None``."""
        entry = self._entries.get((method, target))
        if entry is None:
            return None
        if trio.current_time() >= entry[1]:
            del self._entries[method, target]
            return None
        self._entries.move_to_end((method, target))
        return entry[0]

    def put(self, method: str, target: str | None, result: CacheableResult, *, changes_before: int) -> None:
        """Store a result if the server allows it.

        Args:
            changes_before: :attr:`changes` when the request was sent. If a change has come since, the result is not
                stored.
        """
        if result.ttl_ms <= 0 or not self._max or changes_before != self.changes:
            return
        self._entries[method, target] = result, trio.current_time() + min(result.ttl_ms / 1000, MAX_TTL_SECONDS)
        while len(self._entries) > self._max:
            self._entries.popitem(last=False)

    def invalidate(self, change: Change) -> None:
        """Remove the entries that a change makes stale: every page of a list, or the contents of one resource."""
        self.changes += 1
        for key in [key for key in self._entries if key[0] in _STALE_METHODS[change.kind]]:
            if change.kind != "resource" or change.concerns(key[1] or ""):
                del self._entries[key]

    def clear(self) -> None:
        """Remove all entries, because a new session may have other lists."""
        self.changes += 1
        self._entries.clear()
