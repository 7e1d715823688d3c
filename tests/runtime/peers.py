"""A raw client in memory: it sends messages and reads the received ones in order.

Used by the tests of the runtime. All tasks are in one process with the autojump clock, so order and time are exact.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio
from attrs import define, field

from mcptrio import Server
from mcptrio.abc import Principal
from mcptrio.protocol.messages import ErrorResponse, Message, Notification, Request, Response
from mcptrio.serving import memory_channel_pair
from mcptrio.transports.memory import MemoryChannel

__all__ = ["ALL", "Client", "connected", "envelope", "handshake", "open_client", "tool"]

ALL: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
"""The capabilities of a client that supports everything."""
MODERN = "2026-07-28"
_PREFIX = "io.modelcontextprotocol/"


def envelope(**more: Any) -> dict[str, Any]:
    """The ``_meta`` of a request of the stateless revision."""
    return {_PREFIX + "protocolVersion": MODERN, _PREFIX + "clientCapabilities": dict(ALL), **more}


def tool(
    id: Any, name: str, arguments: Mapping[str, Any] | None = None, *, modern: bool = False, **more: Any
) -> Request:
    """A ``tools/call``."""
    params: dict[str, Any] = {"name": name, "arguments": dict(arguments or {}), **more}
    if modern:
        params["_meta"] = {**envelope(), **params.get("_meta", {})}
    return Request(id, "tools/call", params)


@define(eq=False)
class Client:
    channel: MemoryChannel
    ended: trio.Event = field(factory=trio.Event)
    """Set when the server's side has closed."""
    _unread: list[Message] = field(factory=list)

    async def send(self, *messages: Message) -> None:
        await self.channel.send(messages)

    async def next(self) -> Message:
        """The next message."""
        while not self._unread:
            self._unread += await self.channel.receive()  # type: ignore[arg-type]
        return self._unread.pop(0)

    async def ask(self, request: Request) -> Response | ErrorResponse:
        """Send a request, wait for its response, and drop earlier messages."""
        await self.send(request)
        while True:
            message = await self.next()
            if isinstance(message, Response | ErrorResponse) and message.id == request.id:
                return message

    async def result(self, request: Request) -> dict[str, Any]:
        answer = await self.ask(request)
        assert isinstance(answer, Response), answer
        return answer.result

    async def error(self, request: Request) -> ErrorResponse:
        answer = await self.ask(request)
        assert isinstance(answer, ErrorResponse), answer
        return answer

    async def expect_nothing(self, seconds: float = 1.0) -> None:
        """Check that no message arrives for this time."""
        assert self._unread == []
        with trio.move_on_after(seconds):
            raise AssertionError(f"expected nothing, got {await self.next()}")

    async def closes(self) -> None:
        """Wait until the server's side is closed."""
        await self.channel.aclose()
        await self.ended.wait()


async def handshake(client: Client, revision: str = "2025-11-25", capabilities: Mapping[str, Any] = ALL) -> None:
    params = {
        "protocolVersion": revision,
        "capabilities": dict(capabilities),
        "clientInfo": {"name": "raw", "version": "1"},
    }
    await client.result(Request("hello", "initialize", params))
    await client.send(Notification("notifications/initialized"))


@asynccontextmanager
async def open_client(server: Server, *, principal: Principal | None = None) -> AsyncIterator[Client]:
    """A client of an open server, before any handshake."""
    ours, theirs = memory_channel_pair()
    client = Client(ours)

    async def serve() -> None:
        await server.supervisor.serve(theirs, principal=principal)
        client.ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        yield client
        await ours.aclose()
        await client.ended.wait()


@asynccontextmanager
async def connected(server: Server, *, revision: str | None = "2025-11-25") -> AsyncIterator[Client]:
    """Yield an open server with one client after its handshake, if the revision has one.

    Check at the end that no request is in flight or parked and no client is connected.
    """
    async with server.open():
        async with open_client(server) as client:
            if revision is not None:
                await handshake(client, revision)
            yield client
        snapshot = server.status
        assert (snapshot.in_flight, snapshot.sessions) == (0, ())
