"""Calls tools: adds the headers or the task that a tool requires, and checks results against the output schema.

The client uses it for ``tools/call``. The schemas are those of ``tools/list``. Without a subscription, the client gets
no notification of changes, so it lists the tools again when the server rejects a header or a result does not match.

Source: MCP 2026-07-28, basic/transports/streamable-http, "Custom Headers from Tool Parameters"; server/tools, "Output
Schema".
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from math import inf
from typing import Any, TypeAlias

import trio

from mcptrio.abc.tracing import share_trace
from mcptrio.client.cache import Cache
from mcptrio.client.known_tools import KnownTools
from mcptrio.client.session import ClientSession
from mcptrio.client.subscriptions import Change
from mcptrio.client.supervisor import ClientSupervisor
from mcptrio.errors import HeaderMismatch, MCPTrioError, MethodNotFound, RemoteProtocolError
from mcptrio.protocol.model.fields import ABSENT, evolve
from mcptrio.protocol.model.tools import CallToolParams, CallToolResult, ListToolsResult, TaskMetadata
from mcptrio.protocol.revisions.revision import TaskCreation

__all__ = ["ToolRequests"]

_log = logging.getLogger("mcptrio.client.tool_requests")

LISTING_TIMEOUT = 5.0
"""Seconds that a result waits for the tool's schema. Without the schema, the result is not checked."""
RELISTING_INTERVAL = 60.0
"""Seconds before the client lists the tools again after a listing timed out."""

Params: TypeAlias = CallToolParams | dict[str, Any]
"""The parameters of a call, as an instance or in wire form."""


class ToolRequests:
    """Calls the tools of one server.

    Args:
        pages: Lists all tools, and passes each page through :meth:`list_page`.
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

    async def call(
        self, send: Callable[..., Awaitable[CallToolResult]], params: CallToolParams, timeout: float, *, as_task: bool
    ) -> CallToolResult:
        """Call a tool and check its result.

        Args:
            timeout: Seconds for the answer and the listing of the schema together.
            as_task: True if the server may make a task of the call; see :meth:`send`.

        Raises:
            RemoteProtocolError: Structured content is missing or does not match the tool's output schema.
        """
        began, name = trio.current_time(), params.name
        # The polls of a task belong to the trace of the call.
        with share_trace():
            result: CallToolResult = await self.send(send, params, timeout, as_task=as_task)
        remaining = min(LISTING_TIMEOUT, began + timeout - trio.current_time())
        # A result without structured content needs no listing, because only a known schema can require such content.
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

    async def send(
        self, send: Callable[..., Awaitable[Any]], params: Params, timeout: float, *, as_task: bool = False
    ) -> Any:
        """Send a call with its headers. If the server rejects them, list the tools again and retry once.

        Args:
            send: Sends the parameters. Its ``param_headers`` maps the name of each header to the path of the argument
                that the header repeats.
            as_task: Ask for a task even if the tool does not require one (2025-11-25).
        """
        session = await self._supervisor.current(timeout)
        name = params.name if isinstance(params, CallToolParams) else str(params.get("name"))
        sends_param_headers = session.link.sends_param_headers(session.revision)
        makes_tasks = _makes_tasks(session)
        if (sends_param_headers or makes_tasks) and name not in self._known:
            await self._list(timeout)
        supports = ("required", "optional") if as_task else ("required",)
        asks_for_task = makes_tasks and self._known.task_support(name) in supports
        is_unlisted = makes_tasks and name not in self._known
        refusal: MethodNotFound | None = None
        result: Any = None
        try:
            result = await send(
                _with_task(params) if asks_for_task else params, param_headers=self._known.param_headers(name)
            )
        except HeaderMismatch:
            if not sends_param_headers:
                raise
            # "SHOULD fetch the tools again and retry" (streamable-http).
            self.forget()
            await self._list(timeout)
            return await send(params, param_headers=self._known.param_headers(name))
        except MethodNotFound as error:
            if not is_unlisted:
                raise
            refusal = error
        else:
            if not (is_unlisted and getattr(result, "is_error", False)):
                return result
        if not await self._requires_task(name, timeout):
            if refusal is not None:
                raise refusal
            return result
        # The server has refused the plain call, because the tool requires a task, as the new listing shows.
        return await send(_with_task(params), param_headers=self._known.param_headers(name))

    async def _requires_task(self, name: str, timeout: float) -> bool:
        """Return whether the server lists a tool as one that requires a task now."""
        self.forget()
        await self._list(timeout)
        return self._known.task_support(name) == "required"

    async def list_page(self, fetch: Callable[[], Awaitable[ListToolsResult]]) -> ListToolsResult:
        """Fetch a page and add it to the snapshot. Return it without tools whose header annotations are invalid."""
        # Read before the request. If the list changes in the meantime, the page is added to the old snapshot, which is
        # no longer used.
        known = self._known
        page = await fetch()
        session = await self._supervisor.current()
        return known.add_page(page, sends_param_headers=session.link.sends_param_headers(session.revision))

    def forget(self) -> None:
        """Discard the snapshot, because the tools may have changed."""
        self._cache.invalidate(Change("tools"))
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


def _with_task(params: Params) -> Params:
    """Return the parameters of a call that asks for a task."""
    return evolve(params, task=TaskMetadata()) if isinstance(params, CallToolParams) else {"task": {}, **params}


def _makes_tasks(session: ClientSession) -> bool:
    """Return whether the server makes tasks of calls that ask for them."""
    tasks = session.server.capabilities.tasks if session.server is not None else None
    is_declared = tasks is not None and "call" in (tasks.requests or {}).get("tools", {})
    return is_declared and session.revision.tasks is TaskCreation.BY_CLIENT
