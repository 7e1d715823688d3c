"""The client: every feature of a server as a method.

Opened by ``mcptrio.connect``; a plain object that any task may use while its ``async with`` lasts.
The one rule: what goes wrong with one call is raised by that call and leaves the others alone.

Source: MCP 2026-07-28, server/ and basic/; the same of the four handshake revisions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal

import trio

from mcptrio.abc.links import LinkOpener
from mcptrio.client.cache import Cache
from mcptrio.client.calls import OnProgress
from mcptrio.client.consent import with_consent
from mcptrio.client.handlers import Handlers
from mcptrio.client.listings import Listing
from mcptrio.client.requests import ClientRequests
from mcptrio.client.session import ClientSession
from mcptrio.client.subscriber import Subscriber
from mcptrio.client.subscriptions import Change, Changes
from mcptrio.client.supervisor import ClientSupervisor
from mcptrio.client.timeouts import ClientTimeouts
from mcptrio.client.tool_calls import ToolCall, followed
from mcptrio.client.tool_requests import ToolRequests
from mcptrio.errors import ConnectionClosed, MCPTrioError, MethodNotFound
from mcptrio.protocol.envelope import SUBSCRIPTION_ID
from mcptrio.protocol.events import CancelReceived, NotificationReceived
from mcptrio.protocol.model.base import CacheableResult
from mcptrio.protocol.model.completion import (
    CompleteParams,
    CompleteResult,
    Completion,
    CompletionArgument,
    CompletionContext,
    CompletionReference,
    PromptReference,
    ResourceTemplateReference,
)
from mcptrio.protocol.model.lifecycle import DiscoverParams, Implementation, PingParams, ServerCapabilities
from mcptrio.protocol.model.logging import LoggingLevel, SetLevelParams
from mcptrio.protocol.model.methods import Side
from mcptrio.protocol.model.prompts import GetPromptParams, GetPromptResult, ListPromptsParams, Prompt
from mcptrio.protocol.model.resources import (
    ListResourcesParams,
    ListResourceTemplatesParams,
    ReadResourceParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)
from mcptrio.protocol.model.subscriptions import SubscriptionFilter
from mcptrio.protocol.model.tools import CallToolParams, CallToolResult, ListToolsParams, Tool
from mcptrio.protocol.revisions.revision import LogLevel

__all__ = ["Client"]


class Client:
    """A connection to one server. Made by ``mcptrio.connect``."""

    def __init__(
        self,
        openers: Sequence[LinkOpener],
        *,
        name: str,
        info: Implementation,
        handlers: Handlers,
        timeouts: ClientTimeouts,
        revision: str | None,
        restart: bool,
        ping_interval: float,
        log_level: LoggingLevel | None,
        cache_entries: int,
        known: str | None = None,
        prefers_handshake: bool = False,
    ) -> None:
        self.name = name
        """What the user calls the server."""
        self._info = info
        self._handlers = handlers
        self._timeouts = timeouts
        self._log_level = log_level
        self._cache = Cache(cache_entries)
        self._supervisor = ClientSupervisor(
            openers,
            self._make_session,
            self._settled,
            timeouts=timeouts,
            restart=restart,
            ping_interval=ping_interval,
            pinned=revision,
            known=known,
            prefers_handshake=prefers_handshake,
        )
        self._requests = ClientRequests(
            self._supervisor, opens_urls=handlers.open_url is not None, input_timeout=timeouts.input
        )
        self._tools = ToolRequests(self._supervisor, self._cache, lambda: self.tools().pages(), name=name)
        self._subscriber = Subscriber(self._supervisor, self._changed, name=name, ack_timeout=timeouts.idle)

    # Who is there

    @property
    def revision(self) -> str:
        """The revision spoken, as a date."""
        return self._session.revision.version

    @property
    def server_info(self) -> Implementation | None:
        """The server's name and version; ``None`` where it does not say."""
        return self._session.server.info if self._session.server is not None else None

    @property
    def capabilities(self) -> ServerCapabilities:
        """What the server says it can do."""
        server = self._session.server
        assert server is not None
        return server.capabilities

    @property
    def instructions(self) -> str | None:
        """How the server wants to be used; for the model."""
        server = self._session.server
        return server.instructions if server is not None else None

    async def until_connected(self, timeout: float) -> None:
        """Wait, if need be, until there is a connection: requests wait for it too, but as long as connecting may take.

        Raises:
            ConnectionClosed: there is none within ``timeout`` seconds, or there will be none.
        """
        with trio.move_on_after(timeout):
            await self._supervisor.current()
            return
        raise ConnectionClosed(f"{self.name} is not connected")

    async def ping(self, *, meta: Mapping[str, Any] | None = None) -> float:
        """Ask the server for a sign of life, and return the seconds it took."""
        started = trio.current_time()
        session = await self._supervisor.current()
        has_ping = session.revision.method("ping", Side.SERVER) is not None
        method, params = ("ping", PingParams()) if has_ping else ("server/discover", DiscoverParams())
        await self._requests.send(method, params, meta=meta)
        return trio.current_time() - started

    # Tools

    def tools(self, *, meta: Mapping[str, Any] | None = None) -> Listing[Tool]:
        """The server's tools, without those whose ``x-mcp-header`` annotations break a rule."""
        return Listing(partial(self._list_tools, meta), lambda page: page.tools, "tools/list")

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> CallToolResult:
        """Call a tool; what the server asks meanwhile goes to the handlers.

        Args:
            timeout: seconds for an answer, since the call or its last progress; by default ``timeouts.idle``.
            progress: called with each report, in order, before this returns.
            meta: members of the request's ``_meta``, for example ``traceparent``; sent unchanged.

        Returns:
            The result; where the tool failed in a way a model can read, one with ``is_error``.

        Raises:
            MCPError: the server refused, or a handler could not answer.
            RemoteProtocolError: the result cannot be read, or does not fit the tool's output schema.
            RequestTimeout: no answer in time; the server has been told.
            RequestFailed, ConnectionClosed: the call did not get through.
        """
        params = CallToolParams(name=name, arguments=dict(arguments or {}))
        send = partial(
            self._requests.send_with_input, "tools/call", params, timeout=timeout, progress=progress, meta=meta
        )
        seconds = self._timeouts.idle if timeout is None else timeout
        return await self._tools.call(name, lambda mirrored: send(mirrored=mirrored), seconds)

    @asynccontextmanager
    async def start_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[ToolCall]:
        """Call a tool and follow it: iterate over its progress, then take ``await call.result()``.

        Leaving before the result cancels the call.
        """
        work = partial(self.call_tool, name, arguments, timeout=timeout, meta=meta)
        async with followed(lambda report: work(progress=report)) as call:
            yield call

    # Resources

    def resources(self, *, meta: Mapping[str, Any] | None = None) -> Listing[Resource]:
        """The server's resources."""
        fetch = partial(self._list, "resources/list", ListResourcesParams, meta)
        return Listing(fetch, lambda page: page.resources, "resources/list")

    def resource_templates(self, *, meta: Mapping[str, Any] | None = None) -> Listing[ResourceTemplate]:
        """Its families of resources."""
        fetch = partial(self._list, "resources/templates/list", ListResourceTemplatesParams, meta)
        return Listing(fetch, lambda page: page.resource_templates, "resources/templates/list")

    async def read_resource(
        self,
        uri: str,
        *,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ReadResourceResult:
        """Read a resource; from what is kept, while that is fresh.

        Raises:
            MCPError: there is none, or it cannot be read.
        """
        params = ReadResourceParams(uri=uri)
        kept = self._cache.get("resources/read", {"uri": uri})
        if kept is not None:
            return kept  # type: ignore[return-value]
        # What was answered in between would be part of it, and of nobody else's.
        keep = partial(self._cache.put, "resources/read", {"uri": uri}, changes_before=self._cache.changes)
        result: ReadResourceResult = await self._requests.send_with_input(
            "resources/read", params, timeout=timeout, progress=progress, meta=meta, without_input=keep
        )
        return result

    # Prompts and completion

    def prompts(self, *, meta: Mapping[str, Any] | None = None) -> Listing[Prompt]:
        """The server's prompts."""
        fetch = partial(self._list, "prompts/list", ListPromptsParams, meta)
        return Listing(fetch, lambda page: page.prompts, "prompts/list")

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> GetPromptResult:
        """Fill in a prompt.

        Raises:
            MCPError: there is none, or an argument is missing.
        """
        params = GetPromptParams(name=name, arguments=dict(arguments or {}))
        result: GetPromptResult = await self._requests.send_with_input(
            "prompts/get", params, timeout=timeout, progress=progress, meta=meta
        )
        return result

    async def complete(
        self,
        of: Literal["prompt", "resource"],
        name: str,
        argument: str,
        value: str,
        *,
        context: Mapping[str, str] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Completion:
        """Suggestions for an argument of a prompt, or a variable of a resource template.

        Args:
            name: of the prompt, or the URI template.
            value: what has been typed so far.
            context: the arguments that are settled already.

        Raises:
            MethodNotFound: the server has no completions.
            ValueError: ``of`` is neither ``prompt`` nor ``resource``.
        """
        if of not in ("prompt", "resource"):
            raise ValueError(f"complete: expected 'prompt' or 'resource', got {of!r}")
        ref: CompletionReference = PromptReference(name=name) if of == "prompt" else ResourceTemplateReference(uri=name)
        params = CompleteParams(
            ref=ref,
            argument=CompletionArgument(name=argument, value=value),
            context=CompletionContext(arguments=dict(context)) if context else None,
        )
        result: CompleteResult = await self._requests.send("completion/complete", params, meta=meta)
        return result.completion

    # Logging and roots

    async def set_log_level(self, level: LoggingLevel, *, meta: Mapping[str, Any] | None = None) -> None:
        """Have log messages of this level and above sent to the handler.

        Raises:
            MCPError: the server has no log messages, or not this level.
        """
        session = await self._supervisor.current()
        if session.revision.log_level is LogLevel.SESSION:
            await self._requests.send("logging/setLevel", SetLevelParams(level=level), meta=meta)
        self._log_level = level
        session.log_level = level

    async def roots_changed(self) -> None:
        """Tell the server that the folders it may work in have changed, where the revision has a word for that.

        Raises:
            MethodNotFound: the client declares no roots.
        """
        if self._handlers.capabilities().roots is None:
            raise MethodNotFound("roots_changed: the client declares no roots; set Handlers(roots=...)")
        session = await self._supervisor.current()
        await with_consent(partial(session.notify, "notifications/roots/list_changed"))

    # Changes

    @asynccontextmanager
    async def subscribe(
        self, uris: Sequence[str] = (), *, tools: bool = False, prompts: bool = False, resources: bool = False
    ) -> AsyncIterator[Changes]:
        """Be told of changes: ``async with client.subscribe(uris) as changes: async for change in changes: ...``.

        Args:
            uris: resources whose contents matter.
            tools, prompts, resources: whether the list matters.

        Raises:
            MCPError: the server does not tell of them.
        """
        wanted = SubscriptionFilter(
            tools_list_changed=tools,
            prompts_list_changed=prompts,
            resources_list_changed=resources,
            resource_subscriptions=tuple(dict.fromkeys(uris)),
        )
        async with self._subscriber.open(wanted) as changes:
            yield changes

    # Beyond the specification

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        progress: OnProgress | None = None,
    ) -> Any:
        """Send a request by hand, once, with parameters in wire form.

        Returns:
            An instance of the method's result, or an InputRequiredResult, which is not followed up; for a method
            outside the specification the result in wire form.
        """
        send = partial(self._requests.send, method, dict(params or {}), timeout=timeout, progress=progress)
        if method != "tools/call":
            return await send()
        seconds = self._timeouts.idle if timeout is None else timeout
        name = str((params or {}).get("name"))
        return await self._tools.send(name, lambda mirrored: send(mirrored=mirrored), seconds)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        session = await self._supervisor.current()
        await with_consent(partial(session.notify, method, dict(params or {})))

    # The life of it

    async def run(self, *, task_status: trio.TaskStatus[MCPTrioError | None]) -> None:
        """Stay connected; started with ``None`` once connected, or with the reason why not."""
        try:
            await self._supervisor.run(task_status=task_status)
        finally:
            self._subscriber.end()

    # Private

    @property
    def _session(self) -> ClientSession:
        """The session, or the last one there was: what is known of a server stays known while it is away."""
        assert self._supervisor.last_session is not None
        return self._supervisor.last_session

    def _make_session(self) -> ClientSession:
        return ClientSession(
            name=self.name,
            info=self._info,
            handlers=self._handlers,
            timeouts=self._timeouts,
            log_level=self._log_level,
            notified=self._notified,
        )

    def _settled(self) -> None:
        """There is a new session in the place of one that was lost."""
        self._cache.clear()
        self._tools.forget()

    # Lists

    async def _list(
        self, method: str, cls: Callable[..., Any], meta: Mapping[str, Any] | None, cursor: str | None
    ) -> Any:
        """One page, from what is kept while that is fresh."""
        params = {"cursor": cursor} if cursor is not None else {}
        kept = self._cache.get(method, params)
        if kept is not None:
            return kept
        changes = self._cache.changes
        result: CacheableResult = await self._requests.send(method, cls(cursor=cursor), meta=meta)
        self._cache.put(method, params, result, changes_before=changes)
        return result

    async def _list_tools(self, meta: Mapping[str, Any] | None, cursor: str | None) -> Any:
        return await self._tools.list_page(partial(self._list, "tools/list", ListToolsParams, meta, cursor))

    # What the server tells

    def _notified(self, event: NotificationReceived | CancelReceived) -> None:
        if isinstance(event, CancelReceived):
            self._subscriber.cancelled_by_server(event.id)
            return
        method, params = event.method.name, event.params
        if isinstance(params, dict):
            self._handlers._hear_other(method, params)
            return
        change = Change.of(method, params)
        if change is not None:
            self._changed(change)
        self._subscriber.notify(params, change, (params.meta or {}).get(SUBSCRIPTION_ID))

    def _changed(self, change: Change) -> None:
        """What is known of the server may be stale."""
        if change.kind == "tools":
            self._tools.forget()
        else:
            self._cache.changed(change)
