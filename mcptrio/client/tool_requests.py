"""Tool calls: adds the headers that a tool's schema requires, and checks results against the output schema.

Client uses it for ``tools/call``. Schemas come from ``tools/list``. Without a subscription the client does not learn of
changes, so it lists the tools again when the server rejects a header or a result does not match.

Source: MCP 2026-07-28, basic/transports/streamable-http, "Custom Headers from Tool Parameters"; server/tools, "Output
Schema".
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from math import inf
from typing import Any, TypeAlias

import trio

from mcptrio.abc.tracing import joining
from mcptrio.client.cache import Cache
from mcptrio.client.known_tools import KnownTools
from mcptrio.client.subscriptions import Change
from mcptrio.client.supervisor import ClientSupervisor
from mcptrio.errors import HeaderMismatch, MCPTrioError, RemoteProtocolError
from mcptrio.protocol.model.fields import ABSENT
from mcptrio.protocol.model.tools import CallToolResult, ListToolsResult

__all__ = ["ToolRequests"]

_log = logging.getLogger("mcptrio.client.tool_requests")

LISTING_TIMEOUT = 5.0
"""Seconds that a result waits for the tool's schema. Without the schema, the result is not checked."""
RELISTING_INTERVAL = 60.0
"""Seconds before the client lists the tools again after a listing timed out."""

Send: TypeAlias = Callable[[Mapping[str, tuple[str, ...]]], Awaitable[Any]]
"""Sends a call. The argument maps header names to the paths of the arguments that they repeat."""


class ToolRequests:
    """Calls the tools of one server.

    Args:
        pages: Lists all tools; each page goes through :meth:`list_page`.
    """

    def __init__(
        self, supervisor: ClientSupervisor, cache: Cache, pages: Callable[[], AsyncIterator[Any]], *, name: str
    ) -> None:
        self._supervisor = supervisor
        self._cache = cache
        self._pages = pages
        self._name = name
        self._known = KnownTools()
        self._listing = trio.Lock()
        # After a timeout, the tools are not listed again before this time.
        self._not_before = -inf

    async def call(self, name: str, send: Send, timeout: float) -> CallToolResult:
        """Call a tool and check its result.

        Args:
            timeout: Seconds for the answer and the listing of the schema together.

        Raises:
            RemoteProtocolError: Structured content is missing or does not match the tool's output schema.
        """
        began = trio.current_time()
        # The polls of a task belong to the call.
        with joining():
            result: CallToolResult = await self.send(name, send, timeout)
        remaining = min(LISTING_TIMEOUT, began + timeout - trio.current_time())
        # A result without structured content costs no listing; only a known schema can require such content.
        if result.structured_content is not ABSENT and name not in self._known:
            await self._list(remaining)
        try:
            self._known.check(name, result)
        except RemoteProtocolError:
            if self._known.listed_at >= began:
                raise
            # The schema may have changed since it was listed.
            self.forget()
            await self._list(remaining)
            self._known.check(name, result)
        return result

    async def send(self, name: str, send: Send, timeout: float) -> Any:
        """Send a call with its headers. If the server rejects them, list the tools again and retry once."""
        session = await self._supervisor.current(timeout)
        sends_param_headers = session.link.sends_param_headers(session.revision)
        if sends_param_headers and name not in self._known:
            await self._list(timeout)
        try:
            return await send(self._known.param_headers(name))
        except HeaderMismatch:
            if not sends_param_headers:
                raise
            # "SHOULD fetch the tools again and retry" (streamable-http).
            self.forget()
            await self._list(timeout)
            return await send(self._known.param_headers(name))

    async def list_page(self, fetch: Callable[[], Awaitable[ListToolsResult]]) -> ListToolsResult:
        """Fetch a page and add it to the snapshot; return it without the tools whose header annotations are invalid."""
        # Taken before the request: if the list changes meanwhile, the page goes into the old snapshot.
        known = self._known
        page = await fetch()
        session = await self._supervisor.current()
        return known.learn(page, sends_param_headers=session.link.sends_param_headers(session.revision))

    def forget(self) -> None:
        """Discard the snapshot, because the tools may have changed."""
        self._cache.changed(Change("tools"))
        self._known = KnownTools()

    async def _list(self, timeout: float) -> None:
        """List the tools, unless the snapshot is complete. After a failure, results are not checked."""
        if self._known.listed_at > -inf or trio.current_time() < self._not_before:
            return
        with trio.move_on_after(max(timeout, 0.0)) as scope:
            # Concurrent calls wait for one listing.
            async with self._listing:
                if self._known.listed_at == -inf:
                    await self._list_once()
        if scope.cancelled_caught:
            self._not_before = trio.current_time() + RELISTING_INTERVAL
            _log.warning("%s: the tools were not listed within %g s; results are not checked", self._name, timeout)

    async def _list_once(self) -> None:
        known, began = self._known, trio.current_time()
        try:
            async for _ in self._pages():
                pass
        except MCPTrioError as error:
            _log.warning("%s: the tools cannot be listed: %s", self._name, error)
            return
        known.listed_at = began
