"""A cache of list pages and resources, for as long as the server declares them fresh.

Client asks it before lists and reads, and reports changes to it. Each client has its own cache, keyed by method and by
cursor or URI, and cleared for each new session, so a private result cannot reach another principal.

Source: MCP 2026-07-28, server/utilities/caching.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import trio

from mcptrio.client.subscriptions import Change, ChangeKind
from mcptrio.protocol.model.base import CacheableResult

__all__ = ["Cache"]

# Methods whose results a change makes stale.
_STALE: dict[ChangeKind, tuple[str, ...]] = {
    "tools": ("tools/list",),
    "prompts": ("prompts/list",),
    "resources": ("resources/list", "resources/templates/list"),
    "resource": ("resources/read",),
}


MAX_TTL_SECONDS = 3600.0
"""Upper limit for the lifetime that a server declares."""


class Cache:
    """The cached results of one client.

    Args:
        max_entries: Number of entries; when full, the least recently used one is evicted. 0 disables the cache.
    """

    def __init__(self, max_entries: int) -> None:
        self._max = max_entries
        # The results, each with the Trio clock time of its expiry.
        self._kept: OrderedDict[tuple[str, str | None], tuple[Any, float]] = OrderedDict()
        self.changes = 0
        """Number of changes so far. Callers remember it before a request and pass it to :meth:`put`."""

    def get(self, method: str, what: str | None) -> Any:
        """Return the fresh result for a cursor or URI, or ``None``."""
        kept = self._kept.get((method, what))
        if kept is None:
            return None
        if trio.current_time() >= kept[1]:
            del self._kept[method, what]
            return None
        self._kept.move_to_end((method, what))
        return kept[0]

    def put(self, method: str, what: str | None, result: CacheableResult, *, changes_before: int) -> None:
        """Store a result if the server allows it.

        Args:
            changes_before: :attr:`changes` when the request was sent. If a change has come since, the result is not
                stored.
        """
        if result.ttl_ms <= 0 or not self._max or changes_before != self.changes:
            return
        self._kept[method, what] = result, trio.current_time() + min(result.ttl_ms / 1000, MAX_TTL_SECONDS)
        while len(self._kept) > self._max:
            self._kept.popitem(last=False)

    def changed(self, change: Change) -> None:
        """Remove the entries that a change makes stale: every page of a list, or the contents of one resource."""
        self.changes += 1
        for key in [key for key in self._kept if key[0] in _STALE[change.kind]]:
            if change.kind != "resource" or change.concerns(key[1] or ""):
                del self._kept[key]

    def clear(self) -> None:
        """Remove everything, because a new session may see other lists."""
        self.changes += 1
        self._kept.clear()
