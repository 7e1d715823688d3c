"""A connection with the official Python SDK's client, which records the messages that it receives.

Used by python_sdk.py.
Source: mcp 2.3.0, mcp/client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Protocol, TypeAlias

import anyio
import httpx2
import mcp.client.session
import mcp.client.stdio
import mcp_types as types
from attrs import Factory, define, frozen
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

__all__ = [
    "WAIT_TIMEOUT",
    "Connect",
    "HTTPHooks",
    "Peer",
    "ReceivedMessages",
    "Target",
    "connect",
    "failure_of",
    "text_of",
]

HTTPHooks: TypeAlias = Mapping[str, list[Callable[..., Awaitable[None]]]]
"""Functions that receive each ``request`` or ``response`` of HTTP."""

WAIT_TIMEOUT = 60.0
"""Seconds for one behaviour."""

# The server exits at the end of its input, not by the signal after these seconds; a busy machine needs more.
mcp.client.stdio.PROCESS_TERMINATION_TIMEOUT = WAIT_TIMEOUT


@frozen(kw_only=True)
class Target:
    """The server's address or command."""

    url: str | None = None
    sse: str | None = None
    command: tuple[str, ...] = ()

    def transport(self, **options: Any) -> Any:
        if self.sse is not None:
            return sse_client(self.sse)
        if self.url is not None:
            return streamable_http_client(self.url, **options)
        return StdioServerParameters(command=self.command[0], args=list(self.command[1:]))


@define(eq=False)
class ReceivedMessages:
    """Unsolicited messages, requests of the server, and errors of the client."""

    faults: list[Exception] = Factory(list)
    logs: list[dict[str, Any]] = Factory(list)
    notifications: list[types.ServerNotification] = Factory(list)
    asked: list[dict[str, Any]] = Factory(list)
    _more: anyio.Event = Factory(anyio.Event)

    def clear(self) -> None:
        self.faults, self.logs, self.notifications, self.asked = [], [], [], []

    def tell(self) -> None:
        self._more.set()
        self._more = anyio.Event()

    async def until(self, claim: Callable[[], Any]) -> None:
        while not claim():
            await self._more.wait()

    async def on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logs.append({"level": params.level, "data": params.data, "logger": params.logger})
        self.tell()

    async def on_message(self, message: Any) -> None:
        if isinstance(message, Exception):
            self.faults.append(message)
        else:
            self.notifications.append(message)
        self.tell()

    def count(self, kind: type[Any]) -> int:
        return sum(isinstance(notification, kind) for notification in self.notifications)

    async def on_elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        if isinstance(params, types.ElicitRequestURLParams):
            self.asked.append({"url": params.url, "id": params.elicitation_id})
            return types.ElicitResult(action="accept")
        self.asked.append({"message": params.message, "fields": sorted(params.requested_schema["properties"])})
        if params.message in ("decline", "cancel"):
            return types.ElicitResult(action=params.message)  # type: ignore[arg-type]
        if params.message.startswith("Really"):
            return types.ElicitResult(action="accept", content={"value": True})
        return types.ElicitResult(action="accept", content={"size": "large", "sugar": 2})

    async def on_sample(self, context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        content = params.messages[0].content
        text = content.text if isinstance(content, types.TextContent) else repr(content)
        self.asked.append({"text": text, "max_tokens": params.max_tokens, "system_prompt": params.system_prompt})
        answer = types.TextContent(type="text", text=f"{text}!")
        return types.CreateMessageResult(role="assistant", content=answer, model="a-model", stop_reason="endTurn")

    async def on_roots(self, context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///srv/data", name="data")])  # type: ignore[arg-type]


@frozen(kw_only=True)
class Peer:
    """A connected client."""

    client: Any
    """The SDK's client, or one with the same methods."""
    heard: ReceivedMessages
    target: Target
    revision: str
    connect: Connect
    """Opens another connection with the same kind of client."""

    @property
    def modern(self) -> bool:
        return self.revision in MODERN_PROTOCOL_VERSIONS

    @property
    def agreed(self) -> types.InitializeResult:
        """Return the state with which a session continues on another connection."""
        agreed = self.client.session.initialize_result
        assert agreed is not None
        return agreed

    async def text(self, tool: str, **arguments: Any) -> str:
        """Return the text of a tool's result, or the code of the error."""
        try:
            return text_of(await self.client.call_tool(tool, arguments))
        except MCPError as error:
            return f"error {error.code}"


class Connect(Protocol):
    def __call__(
        self, target: Target, revision: str, *, pinned: bool = False, hooks: HTTPHooks | None = None
    ) -> AbstractAsyncContextManager[Peer]:
        """Connect a client.

        Args:
            pinned: Use the revision without probing the server.
            hooks: Called with every HTTP request and response.
        """
        ...


@asynccontextmanager
async def connect(
    target: Target,
    revision: str,
    *,
    transport: Any = None,
    pinned: bool = False,
    hooks: HTTPHooks | None = None,
) -> AsyncIterator[Peer]:
    """Connect the SDK's client; see :class:`Connect`.

    Args:
        transport: Replaces the transport of the target.
    """
    received_messages = ReceivedMessages()
    modern = revision in MODERN_PROTOCOL_VERSIONS
    async with AsyncExitStack() as stack:
        if hooks is not None:
            http = httpx2.AsyncClient(event_hooks=hooks, timeout=WAIT_TIMEOUT)
            transport = target.transport(http_client=await stack.enter_async_context(http))
        client = Client(
            transport or target.transport(),
            mode="legacy" if not modern else revision if pinned else "auto",
            elicitation_callback=received_messages.on_elicit,
            sampling_callback=received_messages.on_sample,
            list_roots_callback=received_messages.on_roots,
            logging_callback=received_messages.on_log,
            message_handler=received_messages.on_message,
            client_info=types.Implementation(name="python-sdk", version="2.3.0"),
            read_timeout_seconds=WAIT_TIMEOUT,
        )
        await stack.enter_async_context(client)
        yield Peer(client=client, heard=received_messages, target=target, revision=revision, connect=connect)


def text_of(result: types.CallToolResult) -> str:
    content = result.content[0]
    assert isinstance(content, types.TextContent), content
    return f"error: {content.text}" if result.is_error else content.text


async def failure_of(call: Awaitable[Any]) -> int | str:
    """Return the code of the error, or a description of another result."""
    try:
        return repr(await call)
    except MCPError as error:
        return error.code
