"""A server whose messages a test reads and sends one by one.

The tests of this directory use it for behaviour that our server never shows. Only the first request of a connection is
answered automatically.

Source: MCP 2025-11-25, basic/lifecycle; MCP 2026-07-28, basic/versioning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import trio
import trio.testing

from mcptrio import Client, connect
from mcptrio.protocol.messages import ErrorResponse, Message, Notification, Request, Response
from mcptrio.serving import memory_channel_pair
from mcptrio.transports.memory import MemoryChannel
from mcptrio.types import TextContent
from tests.interaction.applies import HANDSHAKE

__all__ = ["EVERYTHING", "FORM", "TOOL", "Script", "is_usable", "play", "text"]

M = TypeVar("M", Request, Notification, Response, ErrorResponse)

WAIT_TIMEOUT = 30.0
"""Real seconds that a test waits for a message."""
VIRTUAL_WAIT_TIMEOUT = 1e7
"""The same in tests whose clock jumps."""

EVERYTHING: dict[str, Any] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "completions": {},
    "logging": {},
}

TOOL = {"name": "work", "inputSchema": {"type": "object"}}

FORM = {
    "message": "Your name?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}

_CACHEABLE = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")


def text(words: str) -> dict[str, Any]:
    """Return the result of a tool that returns a text."""
    return {"content": [{"type": "text", "text": words}]}


class Script:
    """The server's end of a connection. Only one task may wait for messages at a time.

    Attributes:
        received: All messages received, in order.
        lacks: Methods that the server does not know; the test does not see their requests.
    """

    def __init__(self, channel: MemoryChannel, revision: str) -> None:
        self.revision = revision
        self.received: list[Message] = []
        self.lacks: frozenset[str] = frozenset()
        self._channel = channel
        self._unread: deque[Any] = deque()

    @property
    def handshake(self) -> bool:
        return self.revision in HANDSHAKE

    # Receiving

    async def take(self, kind: type[M], method: str | None = None) -> M:
        """Return the next message, which must be of this kind."""
        message = await self.take_any()
        assert isinstance(message, kind), message
        assert method is None or getattr(message, "method", method) == method, message
        return message

    async def take_any(self) -> Message:
        """Return the next message."""
        jumps = isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock)
        with trio.fail_after(VIRTUAL_WAIT_TIMEOUT if jumps else WAIT_TIMEOUT):
            while True:
                while not self._unread:
                    self._unread.extend(await self._channel.receive())
                message: Message = self._unread.popleft()
                if not (isinstance(message, Request) and message.method in self.lacks):
                    break
                await self.refuse(message, -32601)
        self.received.append(message)
        return message

    async def next_request(self, method: str | None = None) -> Request:
        return await self.take(Request, method)

    async def next_notification(self, method: str) -> Notification:
        return await self.take(Notification, method)

    async def expect_nothing(self) -> None:
        """Fail if a message has arrived or is about to arrive."""
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0):
            self._unread.extend(await self._channel.receive())
        assert not self._unread, list(self._unread)

    # Sending

    async def send(self, *messages: Message) -> None:
        await self._channel.send(messages)

    async def answer(self, request: Request, result: Mapping[str, Any] | None = None) -> None:
        """Send a result, with the members that its revision requires."""
        await self.send(Response(request.id, self.complete(request.method, result or {})))

    def complete(self, method: str, result: Mapping[str, Any]) -> dict[str, Any]:
        if self.handshake:
            return dict(result)
        more = {"ttlMs": 0, "cacheScope": "private"} if method in _CACHEABLE else {}
        return {"resultType": "complete", **more, **result}

    async def refuse(self, request: Request, code: int, message: str = "no", data: Any = None) -> None:
        await self.send(ErrorResponse(request.id, code, message, data))

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        await self.send(Notification(method, dict(params) if params is not None else None))

    async def progress(self, request: Request, progress: float, **more: Any) -> None:
        """Send a progress report with the token of the request."""
        assert request.params is not None
        token = request.params["_meta"]["progressToken"]
        await self.notify("notifications/progress", {"progressToken": token, "progress": progress, **more})

    async def close(self) -> None:
        await self._channel.aclose()

    async def begin(self, capabilities: Mapping[str, Any]) -> None:
        """Agree on the revision, as a server of that revision does."""
        info = {"name": "played", "version": "1"}
        if not self.handshake:
            request = await self.next_request("server/discover")
            meta = {"io.modelcontextprotocol/serverInfo": info}
            result = {"supportedVersions": [self.revision], "capabilities": dict(capabilities), "_meta": meta}
            await self.answer(request, {"ttlMs": 0, "cacheScope": "private", **result})
            return
        request = await self.next_request("initialize")
        result = {"protocolVersion": self.revision, "capabilities": dict(capabilities), "serverInfo": info}
        await self.answer(request, result)
        await self.next_notification("notifications/initialized")


@asynccontextmanager
async def play(
    revision: str, *, capabilities: Mapping[str, Any] | None = None, **options: Any
) -> AsyncIterator[tuple[Client, Script]]:
    """Yield a client of this revision and the server's end, after both have agreed.

    Args:
        options: Options of :func:`mcptrio.connect`; pings are off by default.
    """
    options = {"ping_interval": 0, **options}
    ours, theirs = memory_channel_pair()
    script = Script(theirs, revision)
    started = trio.Event()

    async def begin() -> None:
        await script.begin(EVERYTHING if capabilities is None else capabilities)
        started.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(begin)
        async with connect(ours, revision=revision, **options) as client:
            # Only one task may read.
            await started.wait()
            yield client, script
    await theirs.aclose()


async def is_usable(client: Client, script: Script) -> bool:
    """Return whether a tool call still succeeds."""
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            await script.answer(await script.next_request("tools/call"), text("here"))

        nursery.start_soon(serve)
        result = await client.call_tool("work")
    return result.content == (TextContent(text="here"),)
