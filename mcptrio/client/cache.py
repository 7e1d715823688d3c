"""Answers kept for as long as the server says they are fresh.

Asked by the client before lists and reads; told by it of every change the server reports.
The one rule: an answer is served again only for the same method and parameters of the same session of the same client,
so nothing private can reach another principal.

Source: MCP 2026-07-28, server/utilities/caching.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import orjson
import trio
from attrs import frozen

from mcptrio.client.subscriptions import Change, ChangeKind
from mcptrio.protocol.model.base import CacheableResult

__all__ = ["Cache"]

_STALE: dict[ChangeKind, tuple[str, ...]] = {
    "tools": ("tools/list",),
    "prompts": ("prompts/list",),
    "resources": ("resources/list", "resources/templates/list"),
    "resource": ("resources/read",),
}
"""Methods whose answers a change makes stale."""


@frozen
class _Kept:
    result: CacheableResult
    until: float


class Cache:
    """
    Args:
        max_entries: the one that was used longest ago gives way; 0 keeps nothing.
        longest: seconds an answer is kept at most, whatever the server says.
    """

    def __init__(self, max_entries: int = 256, longest: float = 3600.0) -> None:
        self._max = max_entries
        self._longest = longest
        self._kept: OrderedDict[tuple[str, bytes], _Kept] = OrderedDict()
        self.changes = 0
        """How many changes there have been. To be remembered when something is asked for."""

    def get(self, method: str, params: dict[str, Any]) -> CacheableResult | None:
        """A fresh answer, or ``None``."""
        key = _key(method, params)
        kept = self._kept.get(key)
        if kept is None:
            return None
        if trio.current_time() >= kept.until:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return kept.result

    def put(self, method: str, params: dict[str, Any], result: CacheableResult, *, changes_before: int) -> None:
        """Keep an answer, if it says that it may be kept.

        Args:
            changes_before: :attr:`changes` when the request was sent. An answer that a change overtook is not kept.
        """
        if result.ttl_ms <= 0 or not self._max or changes_before != self.changes:
            return
        self._kept[_key(method, params)] = _Kept(result, trio.current_time() + min(result.ttl_ms / 1000, self._longest))
        while len(self._kept) > self._max:
            self._kept.popitem(last=False)

    def changed(self, change: Change) -> None:
        """Forget what is stale: every page of a list, or what was read of a resource."""
        self.changes += 1
        for key in [key for key in self._kept if key[0] in _STALE[change.kind]]:
            if change.kind != "resource" or change.concerns(orjson.loads(key[1]).get("uri", "")):
                del self._kept[key]

    def clear(self) -> None:
        """Forget everything: another session may see other things."""
        self.changes += 1
        self._kept.clear()


def _key(method: str, params: dict[str, Any]) -> tuple[str, bytes]:
    return method, orjson.dumps(params, option=orjson.OPT_SORT_KEYS)
