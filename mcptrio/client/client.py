"""The client: one method for each feature of an MCP server.

Any task may use it inside the block of :func:`mcptrio.connect`. A failed call raises and does not affect other calls.

Source: MCP 2026-07-28, server/ and basic/; the same sections of the four handshake revisions.
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
from mcptrio.client.connection_watcher import ConnectionWatcher
from mcptrio.client.consent import with_consent
from mcptrio.client.listings import Listing
from mcptrio.client.options import ClientOptions
from mcptrio.client.requests import ClientRequests
from mcptrio.client.session import ClientSession
from mcptrio.client.subscriber import Subscriber, distinct_uris
from mcptrio.client.subscriptions import Change, Changes
from mcptrio.client.supervisor import ClientSupervisor
from mcptrio.client.task_listener import TaskListener
from mcptrio.client.tasks import ClientTask
from mcptrio.client.tool_calls import ToolCall, followed
from mcptrio.client.tool_requests import ToolRequests
from mcptrio.client.traced_link import traced
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
from mcptrio.protocol.model.tasks import CreateTaskResult
from mcptrio.protocol.model.tools import CallToolParams, CallToolResult, ListToolsParams, Tool
from mcptrio.protocol.revisions.revision import LogLevel

__all__ = ["Client"]


class Client:
    """A connection to one server. Made by :func:`mcptrio.connect`."""

    def __init__(
        self, openers: Sequence[LinkOpener], options: ClientOptions, watcher: ConnectionWatcher | None = None
    ) -> None:
        self.name = options.name
        """The name under which the user knows the server."""
        self._options = options
        self._watcher = watcher or ConnectionWatcher()
        self._log_level: LoggingLevel | None = options.log_level
        self._cache = Cache(options.cache_entries)
        self._supervisor = ClientSupervisor(
            traced(openers),
            lambda: ClientSession(options, self._log_level, self._on_notification),
            self._session_replaced,
            options,
            self._watcher,
        )
        self._requests = ClientRequests(self._supervisor, options)
        self._tools = ToolRequests(self._supervisor, self._cache, lambda: self.tools().pages(), name=self.name)
        self._subscriber = Subscriber(self._supervisor, self._on_change, options)
        self._task_listener = TaskListener(self._supervisor, self._subscriber)

    # The server

    @property
    def revision(self) -> str:
        """The negotiated protocol revision, as a date."""
        return self._session.revision.version

    @property
    def server_info(self) -> Implementation | None:
        """The server's name and version; ``None`` if it does not send them."""
        return self._session.server.info if self._session.server is not None else None

    @property
    def capabilities(self) -> ServerCapabilities:
        """The capabilities that the server declares."""
        server = self._session.server
        assert server is not None
        return server.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's usage instructions for a model; ``None`` if it has none."""
        server = self._session.server
        return server.instructions if server is not None else None

    async def until_connected(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds for a connection. Requests also wait for one, up to ``timeouts.connect``.

        Raises:
            ConnectionClosed: No connection within ``timeout`` seconds, or the client has ended.
        """
        with trio.move_on_after(timeout):
            await self._supervisor.current()
            return
        raise ConnectionClosed(f"{self.name} is not connected")

    async def ping(self, *, meta: Mapping[str, Any] | None = None) -> float:
        """Check that the server responds, and return the round-trip time in seconds."""
        started = trio.current_time()
        session = await self._supervisor.current()
        has_ping = session.revision.server_methods.get("ping") is not None
        # 2026-07-28 has no ping. server/discover is the cheapest request that each of its servers answers.
        method, params = ("ping", PingParams()) if has_ping else ("server/discover", DiscoverParams())
        await self._requests.send(method, params, meta=meta)
        return trio.current_time() - started

    # Tools

    def tools(self, *, meta: Mapping[str, Any] | None = None) -> Listing[Tool]:
        """Return the server's tools, without those whose ``x-mcp-header`` annotations are invalid."""
        return Listing(partial(self._list_tools, meta), lambda page: page.tools, "tools/list")

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
        created: Callable[[ClientTask], object] | None = None,
        as_task: bool = False,
    ) -> CallToolResult:
        """Call a tool and return its result. The handlers answer questions that the server asks in the meantime.

        Args:
            timeout: Seconds to wait for an answer since the call or its last progress report; by default
                ``timeouts.idle``. If the server makes a task of the call, seconds without a change to the task; by
                default without limit.
            progress: Called with each progress report, in order, before this method returns.
            meta: Members of the request's ``_meta``, for example ``traceparent``; sent unchanged.
            created: Called with the task, if the server makes one. :meth:`task` finds the task again by its id.
            as_task: Ask for a task even if the tool does not require one. Only 2025-11-25 lets the client decide.

        Returns:
            The result. It has ``is_error`` set if the tool reports a failure for the model to read.

        Raises:
            MCPError: The server refused the call, or a handler failed to answer.
            RemoteProtocolError: The result is malformed or does not match the tool's output schema.
            RequestTimeout: No answer in time; the client has asked the server to cancel the call.
            RequestFailed, ConnectionClosed: The call could not be delivered, or its answer was lost.
            TaskCancelled: The server had made a task of the call, and another program has cancelled it.
        """
        params = CallToolParams(name=name, arguments=dict(arguments or {}))
        send = partial(self._requests.send_with_input, "tools/call", timeout=timeout, progress=progress, meta=meta)
        seconds = self._options.timeouts.idle if timeout is None else timeout

        async def call(params: CallToolParams, **options: Any) -> CallToolResult:
            result: CallToolResult | CreateTaskResult = await send(params, **options)
            if isinstance(result, CreateTaskResult):
                task = self.task(result.task_id, timeout=timeout)
                if created is not None:
                    created(task)
                return await task._finish(result, progress)
            return result

        return await self._tools.call(call, params, seconds, as_task=as_task)

    def task(self, id: str, *, timeout: float | None = None) -> ClientTask:
        """Return a task of the server, for example one that an earlier process has begun.

        Args:
            id: The id of the task; nothing is sent yet.
            timeout: Seconds without a change to the task after which waiting for its result ends with an error.
        """
        return ClientTask(self._requests, self._supervisor, self._task_listener, id, timeout=timeout)

    @asynccontextmanager
    async def start_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        meta: Mapping[str, Any] | None = None,
        as_task: bool = False,
    ) -> AsyncIterator[ToolCall]:
        """Start a tool call and follow it: iterate over its progress, then ``await call.result()``.

        Leaving the block before the result cancels the call, unless it was detached. See :meth:`call_tool` for the
        arguments.
        """
        async with followed(
            partial(self.call_tool, name, arguments, timeout=timeout, meta=meta, as_task=as_task)
        ) as call:
            yield call

    # Resources

    def resources(self, *, meta: Mapping[str, Any] | None = None) -> Listing[Resource]:
        """Return the server's resources."""
        fetch = partial(self._list, "resources/list", ListResourcesParams, meta)
        return Listing(fetch, lambda page: page.resources, "resources/list")

    def resource_templates(self, *, meta: Mapping[str, Any] | None = None) -> Listing[ResourceTemplate]:
        """Return the server's resource templates."""
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
        """Read a resource, from the cache while its entry is fresh. The options are those of :meth:`call_tool`.

        Raises:
            MCPError: The resource does not exist or cannot be read.
        """
        params = ReadResourceParams(uri=uri)
        cached: ReadResourceResult | None = self._cache.get("resources/read", uri)
        if cached is not None:
            return cached
        # A result for which the server asked questions depends on the answers, and is not cached.
        store = partial(self._cache.put, "resources/read", uri, changes_before=self._cache.changes)
        result: ReadResourceResult = await self._requests.send_with_input(
            "resources/read", params, timeout=timeout, progress=progress, meta=meta, without_input=store
        )
        return result

    # Prompts and completion

    def prompts(self, *, meta: Mapping[str, Any] | None = None) -> Listing[Prompt]:
        """Return the server's prompts."""
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
        """Return the messages of a prompt, filled in with ``arguments``. The options are those of :meth:`call_tool`.

        Raises:
            MCPError: The prompt does not exist, or an argument is missing.
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
        """Return suggestions for an argument of a prompt or a variable of a resource template.

        Args:
            name: Name of the prompt, or the URI template.
            argument: Name of the argument or variable.
            value: Text that the user has typed so far.
            context: Values of the other arguments that the user has already chosen.

        Raises:
            MethodNotFound: The server does not declare completions.
            ValueError: ``of`` is neither ``"prompt"`` nor ``"resource"``.
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
        """Receive the server's log messages of this level and above in ``Handlers.log``.

        Raises:
            MCPError: The server has no logging, or refuses this level.
        """
        session = await self._supervisor.current()
        if session.revision.log_level is LogLevel.SESSION:
            await self._requests.send("logging/setLevel", SetLevelParams(level=level), meta=meta)
        # Later sessions request this level too. In 2026-07-28 it is a member of each request's _meta.
        self._log_level = level
        session.log_level = level

    async def roots_changed(self) -> None:
        """Notify the server that the list of roots has changed, if the revision has that notification.

        Raises:
            MethodNotFound: The handlers declare no roots.
        """
        if self._options.handlers.capabilities().roots is None:
            raise MethodNotFound("roots_changed: the client declares no roots; set Handlers(roots=...)")
        session = await self._supervisor.current()
        await with_consent(partial(session.notify, "notifications/roots/list_changed"))

    # Changes

    @asynccontextmanager
    async def subscribe(
        self, uris: Sequence[str] = (), *, tools: bool = False, prompts: bool = False, resources: bool = False
    ) -> AsyncIterator[Changes]:
        """Receive changes: ``async with client.subscribe(uris) as changes: async for change in changes: ...``.

        Args:
            uris: Resources whose contents to watch; one string is a TypeError.
            tools, prompts, resources: Watch this list.

        Raises:
            MCPError: The server reports none of these changes.
        """
        filter = SubscriptionFilter(
            tools_list_changed=tools,
            prompts_list_changed=prompts,
            resources_list_changed=resources,
            resource_subscriptions=distinct_uris(uris),
        )
        async with self._subscriber.open(filter) as changes:
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
        """Send a request with parameters in wire form. The options are those of :meth:`call_tool`.

        Returns:
            The result; in wire form for a method outside the specification. An ``InputRequiredResult`` is returned
            without being answered, and a task without being followed.
        """
        wire_params = dict(params or {})
        send = partial(self._requests.send, method, timeout=timeout, progress=progress)
        if method != "tools/call":
            return await send(wire_params)
        return await self._tools.send(send, wire_params, self._options.timeouts.idle if timeout is None else timeout)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification with parameters in wire form."""
        session = await self._supervisor.current()
        await with_consent(partial(session.notify, method, dict(params or {})))

    # Lifetime

    async def run(self, *, task_status: trio.TaskStatus[MCPTrioError | None]) -> None:
        """Stay connected until cancelled. Reports ``None`` to ``task_status`` once connected, or the exception."""
        try:
            await self._supervisor.run(task_status=task_status)
        finally:
            self._subscriber.end()

    # Private

    @property
    def _session(self) -> ClientSession:
        # While disconnected, this is the last session, so that revision, capabilities and instructions stay readable.
        assert self._supervisor.last_session is not None
        return self._supervisor.last_session

    def _session_replaced(self) -> None:
        self._cache.clear()
        self._tools.forget()

    # Lists

    async def _list(
        self, method: str, cls: Callable[..., Any], meta: Mapping[str, Any] | None, cursor: str | None
    ) -> Any:
        cached = self._cache.get(method, cursor)
        if cached is not None:
            return cached
        changes = self._cache.changes
        result: CacheableResult = await self._requests.send(method, cls(cursor=cursor), meta=meta)
        self._cache.put(method, cursor, result, changes_before=changes)
        return result

    async def _list_tools(self, meta: Mapping[str, Any] | None, cursor: str | None) -> Any:
        return await self._tools.list_page(partial(self._list, "tools/list", ListToolsParams, meta, cursor))

    # Notifications

    def _on_notification(self, event: NotificationReceived | CancelReceived) -> None:
        if isinstance(event, CancelReceived):
            self._subscriber.cancelled_by_server(event.id)
            return
        method, params = event.method.name, event.params
        if isinstance(params, dict):
            self._options.handlers._handle_notification(method, params)
            return
        self._task_listener.handle(params)
        change = Change.of(method, params)
        if change is not None:
            self._watcher.changed(change)
            self._on_change(change)
        self._subscriber.notify(params, change, (params.meta or {}).get(SUBSCRIPTION_ID))

    def _on_change(self, change: Change) -> None:
        if change.kind == "tools":
            self._tools.forget()
        else:
            self._cache.invalidate(change)
