"""An HTTP server written by hand, in which a test can choose every byte; and links to it.

It checks nothing, so that it can do everything that a server should not do.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio
from attrs import define, field

from mcptrio.http.client.link import HTTPLink, open_http_link
from mcptrio.protocol.messages import Notification, Request
from mcptrio.protocol.revisions.registry import REVISIONS
from mcptrio.protocol.sse import encode

__all__ = [
    "BATCHED",
    "HANDSHAKE",
    "MODERN",
    "SESSION",
    "Handler",
    "ReceivedRequest",
    "Web",
    "Wire",
    "answer",
    "begin",
    "call",
    "eventually",
    "linked",
    "serving",
    "with_session",
]

MODERN = REVISIONS["2026-07-28"]
HANDSHAKE = REVISIONS["2025-11-25"]
BATCHED = REVISIONS["2025-03-26"]

SESSION = "session-1"


@define
class ReceivedRequest:
    """A received request."""

    method: str
    target: str
    headers: dict[str, str]
    """Headers by name in lower case; the last value of a repeated one."""
    body: bytes
    connection: int
    """The number of the connection, counted from 1."""
    time: float = field(factory=trio.current_time)

    @property
    def message(self) -> Any:
        return json.loads(self.body)


@define
class Wire:
    """The server's end of one connection, while it answers one request."""

    socket: trio.SocketStream
    closed: bool = False
    _lock: trio.Lock = field(factory=trio.Lock)

    async def send(self, data: bytes) -> None:
        async with self._lock:
            await self.socket.send_all(data)

    async def head(self, status: int = 200, **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", *(f"{name.replace('_', '-')}: {headers[name]}" for name in headers)]
        await self.send("\r\n".join([*lines, "", ""]).encode())

    async def reply(self, value: Any = None, status: int = 200, **headers: str) -> None:
        """Send a complete response: JSON, text, bytes or no body."""
        data = value if isinstance(value, bytes) else b"" if value is None else json.dumps(value).encode()
        if value is not None:
            headers.setdefault("content_type", "application/json")
        await self.head(status, content_length=str(len(data)), **headers)
        await self.send(data)

    async def stream(self, **headers: str) -> None:
        """Send the head of an event stream."""
        await self.head(content_type="text/event-stream", transfer_encoding="chunked", **headers)

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def event(self, value: Any = "", **fields: Any) -> None:
        await self.chunk(encode(json.dumps(value).encode() if value != "" else b"", **fields))

    async def end(self) -> None:
        """End an event stream properly."""
        await self.send(b"0\r\n\r\n")

    def hang_up(self) -> None:
        self.socket.socket.close()
        self.closed = True

    async def wait_closed(self) -> None:
        """Wait until the client has closed the connection."""
        with trio.fail_after(30):
            try:
                while await self.socket.receive_some():
                    pass
            except trio.BrokenResourceError:
                pass
        self.closed = True


Handler = Callable[[ReceivedRequest, Wire], Awaitable[None]]


@define
class Web:
    port: int
    seen: list[ReceivedRequest] = field(factory=list)
    connections: int = 0
    open: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def of(self, method: str) -> list[ReceivedRequest]:
        return [seen for seen in self.seen if seen.method == method]


@asynccontextmanager
async def serving(handler: Handler, *, ssl: Any = None) -> AsyncIterator[Web]:
    """Pass every request to ``handler``; the connection stays open unless the handler closes it."""

    async def connected(stream: Any) -> None:
        web.connections += 1
        web.open += 1
        number = web.connections
        try:
            if ssl is not None:
                stream = trio.SSLStream(stream, ssl, server_side=True, https_compatible=True)
            wire = Wire(stream)
            data = bytearray()
            while not wire.closed and (seen := await _read(stream, data, number)) is not None:
                web.seen.append(seen)
                await handler(seen, wire)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            web.open -= 1
            await trio.aclose_forcefully(stream)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, connected, 0, host="127.0.0.1"))
        web = Web(listeners[0].socket.getsockname()[1])
        yield web
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def linked(handler: Handler, **options: Any) -> AsyncIterator[tuple[HTTPLink, Web, list[Request | Notification]]]:
    """Yield a hand-written server, a link to it, and its unsolicited messages, for at most a minute."""
    received: list[Request | Notification] = []
    with trio.fail_after(60):
        async with serving(handler) as web:
            async with open_http_link(web.url, received.append, **options) as link:
                yield link, web, received


def call(tool: str = "echo", arguments: dict[str, Any] | None = None, *, id: Any = 1) -> Request:
    return Request(id, "tools/call", {"name": tool, "arguments": arguments or {}})


def answer(seen: ReceivedRequest, **result: Any) -> dict[str, Any]:
    """The response to a request."""
    return {"jsonrpc": "2.0", "id": seen.message["id"], "result": result}


async def eventually(claim: Callable[[], object]) -> None:
    """Wait until this is true of the server, if no message reports it."""
    with trio.fail_after(30):
        while not claim():  # noqa: ASYNC110 - no event reports it
            await trio.sleep(0.005)


async def begin(link: HTTPLink, *, settle: bool = False) -> None:
    """Run the handshake of a link whose server answers ``initialize``."""
    params = {"protocolVersion": HANDSHAKE.version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    await link.exchange(Request(0, "initialize", params), HANDSHAKE)
    if settle:
        link.start_listening(HANDSHAKE)


def with_session(handler: Handler) -> Handler:
    """Return a handler that answers ``initialize`` and DELETE itself, and starts a session."""

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        if seen.method == "DELETE":
            await wire.reply(status=204)
        elif seen.method == "POST" and seen.message.get("method") == "initialize":
            await wire.reply(answer(seen, protocolVersion=HANDSHAKE.version), mcp_session_id=SESSION)
        else:
            await handler(seen, wire)

    return handle


async def _read(stream: trio.abc.ReceiveStream, data: bytearray, connection: int) -> ReceivedRequest | None:
    while b"\r\n\r\n" not in data:
        chunk = await stream.receive_some()
        if not chunk:
            return None
        data += chunk
    head, _, _ = bytes(data).partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    del data[: len(head) + 4]
    length = int(headers.get("content-length", 0))
    while len(data) < length:
        data += await stream.receive_some()
    body = bytes(data[:length])
    del data[:length]
    return ReceivedRequest(method, target, headers, body, connection)
