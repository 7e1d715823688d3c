"""A server that a test plays by hand: it reads each message of the client and sends the test's messages.

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

__all__ = ["EVERYTHING", "FORM", "TOOL", "Script", "lives", "play", "text"]

M = TypeVar("M", Request, Notification, Response, ErrorResponse)

WAIT_TIMEOUT = 30.0
"""Real seconds a test waits for a message."""
VIRTUAL_WAIT_TIMEOUT = 1e7
"""The same where the clock jumps."""

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
    """The result of a tool that says something."""
    return {"content": [{"type": "text", "text": words}]}


class Script:
    """
    Only one task may wait for messages at a time.

    Attributes:
        received: all messages that came, in order.
    """

    def __init__(self, channel: MemoryChannel, revision: str) -> None:
        self.revision = revision
        self.received: list[Message] = []
        self._channel = channel
        self._unread: deque[Any] = deque()

    @property
    def handshake(self) -> bool:
        return self.revision in HANDSHAKE

    # Receiving

    async def take(self, kind: type[M], method: str | None = None) -> M:
        """The next message, which must be of this kind."""
        message = await self.take_any()
        assert isinstance(message, kind), message
        assert method is None or getattr(message, "method", method) == method, message
        return message

    async def take_any(self) -> Message:
        """The next message."""
        jumps = isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock)
        with trio.fail_after(VIRTUAL_WAIT_TIMEOUT if jumps else WAIT_TIMEOUT):
            while not self._unread:
                self._unread.extend(await self._channel.receive())
        message: Message = self._unread.popleft()
        self.received.append(message)
        return message

    async def asked(self, method: str | None = None) -> Request:
        return await self.take(Request, method)

    async def told(self, method: str) -> Notification:
        return await self.take(Notification, method)

    async def silent(self) -> None:
        """Nothing has come, and nothing is on its way."""
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0):
            self._unread.extend(await self._channel.receive())
        assert not self._unread, list(self._unread)

    # Sending

    async def send(self, *messages: Message) -> None:
        await self._channel.send(messages)

    async def answer(self, request: Request, result: Mapping[str, Any] | None = None) -> None:
        """A result, with what its revision wants of every result."""
        await self.send(Response(request.id, self.complete(request.method, result or {})))

    def complete(self, method: str, result: Mapping[str, Any]) -> dict[str, Any]:
        if self.handshake:
            return dict(result)
        more = {"ttlMs": 0, "cacheScope": "private"} if method in _CACHEABLE else {}
        return {"resultType": "complete", **more, **result}

    async def refuse(self, request: Request, code: int, message: str = "no", data: Any = None) -> None:
        await self.send(ErrorResponse(request.id, code, message, data))

    async def tell(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        await self.send(Notification(method, dict(params) if params is not None else None))

    async def progress(self, request: Request, progress: float, **more: Any) -> None:
        """A report about a request, with the token it brought."""
        assert request.params is not None
        token = request.params["_meta"]["progressToken"]
        await self.tell("notifications/progress", {"progressToken": token, "progress": progress, **more})

    async def close(self) -> None:
        await self._channel.aclose()

    async def begin(self, capabilities: Mapping[str, Any]) -> None:
        """Agree on the revision, as its servers do."""
        info = {"name": "played", "version": "1"}
        if not self.handshake:
            request = await self.asked("server/discover")
            meta = {"io.modelcontextprotocol/serverInfo": info}
            result = {"supportedVersions": [self.revision], "capabilities": dict(capabilities), "_meta": meta}
            await self.answer(request, {"ttlMs": 0, "cacheScope": "private", **result})
            return
        request = await self.asked("initialize")
        result = {"protocolVersion": self.revision, "capabilities": dict(capabilities), "serverInfo": info}
        await self.answer(request, result)
        await self.told("notifications/initialized")


@asynccontextmanager
async def play(
    revision: str, *, capabilities: Mapping[str, Any] | None = None, **options: Any
) -> AsyncIterator[tuple[Client, Script]]:
    """A client that speaks this revision, and the server's end, after they have agreed.

    Args:
        options: of :func:`mcptrio.connect`; without pings unless they say otherwise.
    """
    options = {"ping_interval": 0, **options}
    ours, theirs = memory_channel_pair()
    script = Script(theirs, revision)
    begun = trio.Event()

    async def begin() -> None:
        await script.begin(EVERYTHING if capabilities is None else capabilities)
        begun.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(begin)
        async with connect(ours, revision=revision, **options) as client:
            # One reads at a time.
            await begun.wait()
            yield client, script
    await theirs.aclose()


async def lives(client: Client, script: Script) -> bool:
    """Whether the two still understand each other."""
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            await script.answer(await script.asked("tools/call"), text("here"))

        nursery.start_soon(serve)
        result = await client.call_tool("work")
    return result.content == (TextContent(text="here"),)
