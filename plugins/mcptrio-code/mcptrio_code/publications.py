"""Diagnostics that a language server publishes on its own, and the wait for them.

A session keeps those of its open documents. Servers that answer ``textDocument/diagnostic`` do not need it.

Source: LSP 3.17, "PublishDiagnostics Notification".
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import unquote

import trio
from attrs import define, field

__all__ = ["Publications"]

_SETTLE: Final = 0.5
"""Seconds without another publication. Some servers publish errors of syntax first, and those of types later."""


@define(eq=False)
class Publications:
    """The latest diagnostics of documents, by URI without escapes."""

    _found: dict[str, Any] = field(init=False, factory=dict)
    _wanted: set[str] = field(init=False, factory=set)
    _changed: trio.Event = field(init=False, factory=trio.Event)

    def expect(self, uri: str) -> None:
        """Discard what was published for an older version."""
        self._wanted.add(unquote(uri))
        self._found.pop(unquote(uri), None)

    def forget(self, uri: str) -> None:
        """Stop keeping the diagnostics of a document."""
        self._wanted.discard(unquote(uri))
        self._found.pop(unquote(uri), None)

    def take(self, params: Any) -> None:
        """Keep the diagnostics of a notification if their document is open."""
        uri = params.get("uri") if isinstance(params, dict) else None
        if isinstance(uri, str) and unquote(uri) in self._wanted:
            self._found[unquote(uri)] = params.get("diagnostics")
            self._changed.set()
            self._changed = trio.Event()

    async def wait(self, uri: str, *, seconds: float) -> Any:
        """Return the diagnostics once no others have come for a while; ``None`` if none come in time."""
        with trio.move_on_after(seconds):
            while unquote(uri) not in self._found:
                await self._changed.wait()
            while True:
                with trio.move_on_after(_SETTLE) as quiet:
                    await self._changed.wait()
                if quiet.cancelled_caught:
                    break
        return self._found.get(unquote(uri))
