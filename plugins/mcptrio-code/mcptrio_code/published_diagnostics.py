"""The diagnostics that a language server publishes without a request.

A session stores those of its open documents. Servers that support ``textDocument/diagnostic`` do not need it.

Source: LSP 3.17, "PublishDiagnostics Notification".
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import unquote

import trio
from attrs import define, field

__all__ = ["PublishedDiagnostics"]

_QUIET_SECONDS: Final = 0.5
"""Seconds without a publication after which diagnostics are complete. Some servers publish type errors later than
syntax errors."""


@define(eq=False)
class PublishedDiagnostics:
    """The latest diagnostics of documents, by unquoted URI."""

    _by_uri: dict[str, Any] = field(init=False, factory=dict)
    _expected: set[str] = field(init=False, factory=set)
    _change_event: trio.Event = field(init=False, factory=trio.Event)

    def expect(self, uri: str) -> None:
        """Begin to store the diagnostics of a new version of a document. Those of older versions are discarded."""
        self._expected.add(unquote(uri))
        self._by_uri.pop(unquote(uri), None)

    def remove(self, uri: str) -> None:
        """Discard the diagnostics of a document and stop storing them."""
        self._expected.discard(unquote(uri))
        self._by_uri.pop(unquote(uri), None)

    def store(self, params: Any) -> None:
        """Store the diagnostics of a notification if their document is open."""
        uri = params.get("uri") if isinstance(params, dict) else None
        if isinstance(uri, str) and unquote(uri) in self._expected:
            self._by_uri[unquote(uri)] = params.get("diagnostics")
            self._change_event.set()
            self._change_event = trio.Event()

    async def wait(self, uri: str, *, seconds: float) -> Any:
        """Wait until the diagnostics of a document are complete and return them; ``None`` if none arrive in time."""
        with trio.move_on_after(seconds):
            while unquote(uri) not in self._by_uri:
                await self._change_event.wait()
            while True:
                with trio.move_on_after(_QUIET_SECONDS) as quiet:
                    await self._change_event.wait()
                if quiet.cancelled_caught:
                    break
        return self._by_uri.get(unquote(uri))
