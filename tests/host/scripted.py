"""A server for the tests of the host, which fails as a test says and accepts new connections afterwards.

It is a target like an in-process ``mcptrio.Server``. Requests that are not scripted get the results of a plain
handshake server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio
from attrs import define, field

from mcptrio import ConnectionClosed, Server
from mcptrio.abc import MessageChannel
from mcptrio.protocol.messages import ErrorResponse, Notification, Request, Response
from mcptrio.protocol.model.lifecycle import Implementation
from tests.server_options import server_options

__all__ = ["Scripted", "note", "plain", "text_of"]

Script = Callable[["Scripted", MessageChannel, dict[str, Any]], Awaitable[Any]]
"""Gets the server, its channel and the request's params. Returns the result, or ``None`` to send no response."""


@define(eq=False)
class Scripted:
    """A server whose responses a test writes.

    Args:
        scripts: The function that responds to each method.
        tools: The names of the listed tools.
        begins: Called with the channel after connecting, before the first read.
    """

    scripts: dict[str, Script] = field(factory=dict)
    tools: tuple[str, ...] = ("echo",)
    begins: Callable[[MessageChannel], Awaitable[None]] | None = None
    title: str | None = None
    name: str = "scripted"
    connected: int = 0
    received: list[Any] = field(factory=list)
    channel: MessageChannel | None = None
    is_open: bool = True
    _arrived: trio.Event = field(factory=trio.Event)

    @property
    def supervisor(self) -> Scripted:
        return self

    @property
    def info(self) -> Implementation:
        return Implementation(name=self.name, version="1")

    async def serve(self, channel: MessageChannel, *, principal: object = None) -> None:
        self.connected += 1
        self.channel = channel
        try:
            async with trio.open_nursery() as nursery:
                if self.begins is not None:
                    await self.begins(channel)
                while True:
                    for message in await channel.receive():
                        self.received.append(message)
                        self._arrived.set()
                        self._arrived = trio.Event()
                        if isinstance(message, Request):
                            nursery.start_soon(self._answer, channel, message)
        except* (trio.EndOfChannel, ConnectionClosed):
            pass
        finally:
            with trio.CancelScope(shield=True):
                await channel.aclose()

    async def answer_to(self, id: str) -> Any:
        """Return the client's response to a request of this server."""
        while not (found := [each for each in self.received if getattr(each, "id", None) == id]):
            await self._arrived.wait()
        return found[0]

    async def _answer(self, channel: MessageChannel, request: Request) -> None:
        script = self.scripts.get(request.method)
        if script is not None:
            result = await script(self, channel, dict(request.params or {}))
        else:
            result = self._usual(request)
        if isinstance(result, tuple):
            code, message = result
            await channel.send([ErrorResponse(id=request.id, code=code, message=message)])
        elif result is not None:
            await channel.send([Response(id=request.id, result=result)])

    def _usual(self, request: Request) -> Any:
        params = request.params or {}
        if request.method == "initialize":
            info = {"name": self.name, "version": "1"} | ({"title": self.title} if self.title else {})
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True}},
                "serverInfo": info,
            }
        if request.method == "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in self.tools]}
        if request.method == "tools/call":
            response = params.get("arguments", {}).get("text", params["name"])
            return {"content": [{"type": "text", "text": response}]}
        if request.method in ("ping", "resources/subscribe", "resources/unsubscribe"):
            return {}
        if request.method == "resources/list":
            return {"resources": []}
        return -32601, f"no such method: {request.method}"


def note(method: str, **params: Any) -> Notification:
    return Notification(method=method, params=params or None)


def plain(name: str = "plain", **options: Any) -> Server:
    """Return an mcptrio server with a tool, a prompt and a resource."""
    server = Server(name, **server_options(options))

    async def echo(text: str = "") -> str:
        """Repeat the text."""
        return text or name

    async def greet(who: str) -> str:
        """Greet a person."""
        return f"Greet {who} of {name}."

    async def readme() -> str:
        """The readme."""
        return f"This is {name}."

    server.add_tool(echo, read_only=True)
    server.add_prompt(greet)
    server.add_resource(readme, "text://readme")
    return server


def text_of(result: Any) -> str:
    """Return the text of a tool's result."""
    return str(result.content[0].text)
