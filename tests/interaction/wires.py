"""The transports of the test client's messages: memory, pipes, HTTP, HTTP with SSE, WebSocket.

:mod:`tests.interaction.client` uses it. A wire sends JSON values (or raw bytes) and delivers all responses. It uses
no part of mcptrio's client, so that two equal mistakes cannot hide each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Protocol

import h11
import trio
from attrs import define, field

from mcptrio.errors import ConnectionClosed
from mcptrio.protocol.jsonrpc import decode, encode
from mcptrio.protocol.messages import Batch
from mcptrio.transports.memory import MemoryChannel
from tests.http.raw_websocket import Socket

__all__ = ["ChannelWire", "Exchange", "HTTPWire", "MemoryWire", "PipeWire", "SSEWire", "WebSocketWire"]


class ChannelWire(Protocol):
    """A wire with one channel for all messages."""

    async def send(self, data: bytes) -> None: ...

    async def receive(self) -> list[Any] | None:
        """Return JSON values, or ``None`` at the end."""
        ...

    async def aclose(self) -> None: ...


@define
class MemoryWire:
    _channel: MemoryChannel

    async def send(self, data: bytes) -> None:
        message = decode(data)
        items: Any = list(message.messages) if isinstance(message, Batch) else message
        await self._channel.send([items])

    async def receive(self) -> list[Any] | None:
        try:
            received = await self._channel.receive()
        except (trio.EndOfChannel, ConnectionClosed):
            return None
        return [
            json.loads(encode(list(item.messages) if isinstance(item, Batch) else item))  # type: ignore[arg-type]
            for item in received
        ]

    async def aclose(self) -> None:
        await self._channel.aclose()


@define
class PipeWire:
    """Lines over two descriptors, which this wire closes."""

    _reader: trio.lowlevel.FdStream
    _writer: trio.lowlevel.FdStream
    _buffer: bytes = b""
    _lock: trio.Lock = field(factory=trio.Lock)

    async def send(self, data: bytes) -> None:
        async with self._lock:
            await self._writer.send_all(data + b"\n")

    async def receive(self) -> list[Any] | None:
        while b"\n" not in self._buffer:
            try:
                chunk = await self._reader.receive_some(65536)
            except (trio.ClosedResourceError, trio.BrokenResourceError):
                return None
            if not chunk:
                return None
            self._buffer += chunk
        *lines, self._buffer = self._buffer.split(b"\n")
        return [json.loads(line) for line in lines]

    async def half_close(self) -> None:
        """Close the server's input; its output is still read."""
        await self._writer.aclose()

    async def aclose(self) -> None:
        await self._writer.aclose()
        await self._reader.aclose()


@define
class WebSocketWire:
    """One text message for each JSON value."""

    _socket: Socket
    _lock: trio.Lock = field(factory=trio.Lock)

    async def send(self, data: bytes) -> None:
        async with self._lock:
            await self._socket.text(data.decode())

    async def receive(self) -> list[Any] | None:
        self._socket.timeout = inf
        try:
            value = await self._socket.receive()
        except trio.ClosedResourceError:
            return None
        return None if value is None or isinstance(value, int) else [value]

    async def aclose(self) -> None:
        self._socket.cut()


@define(eq=False)
class Exchange:
    """One HTTP exchange on its own socket."""

    status: int | None = None
    headers: dict[str, str] = field(factory=dict)
    began: trio.Event = field(factory=trio.Event)
    """Set when the head of the response has arrived."""
    ended: trio.Event = field(factory=trio.Event)
    body: bytes = b""
    """The body of a response that is not an event stream."""
    streamed: bool = False
    event_ids: list[str] = field(factory=list)
    cancel_scope: trio.CancelScope = field(factory=trio.CancelScope)

    def disconnect(self) -> None:
        """Close the socket during any phase."""
        self.cancel_scope.cancel()


@define(eq=False)
class HTTPWire:
    """Sends and receives bytes over Streamable HTTP.

    Args:
        headers: Sent with every request.
    """

    port: int
    path: str = "/mcp"
    headers: dict[str, str] = field(factory=dict)

    async def run(
        self,
        exchange: Exchange,
        method: str,
        headers: Mapping[str, str],
        body: bytes,
        deliver: Callable[[Any, Exchange], None],
    ) -> None:
        """Send a request, and deliver every JSON value of the response until it ends."""
        sent = {
            "host": f"127.0.0.1:{self.port}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream" if method == "POST" else "text/event-stream",
            "content-length": str(len(body)),
            **self.headers,
            **headers,
        }
        connection = h11.Connection(h11.CLIENT)
        request = h11.Request(method=method, target=self.path, headers=list(sent.items()))
        data = b"".join(connection.send(e) or b"" for e in (request, h11.Data(data=body), h11.EndOfMessage()))
        try:
            with exchange.cancel_scope:
                async with await trio.open_tcp_stream("127.0.0.1", self.port) as socket:
                    await socket.send_all(data)
                    await self._read(exchange, connection, socket, deliver)
        finally:
            exchange.began.set()
            exchange.ended.set()

    async def _read(
        self,
        exchange: Exchange,
        connection: h11.Connection,
        socket: trio.SocketStream,
        deliver: Callable[[Any, Exchange], None],
    ) -> None:
        text = b""
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                try:
                    connection.receive_data(await socket.receive_some(65536))
                except trio.BrokenResourceError:
                    return
            elif isinstance(event, h11.Response):
                exchange.status = event.status_code
                exchange.headers = {name.decode(): value.decode() for name, value in event.headers}
                exchange.streamed = exchange.headers.get("content-type", "").startswith("text/event-stream")
                exchange.began.set()
            elif isinstance(event, h11.Data):
                text += bytes(event.data)
                if exchange.streamed:
                    *blocks, text = text.split(b"\n\n")
                    for block in blocks:
                        fields = dict(
                            line.split(": ", 1) for line in block.decode().split("\n") if not line.startswith(":")
                        )
                        if "id" in fields:
                            exchange.event_ids.append(fields["id"])
                        if fields.get("data"):
                            deliver(json.loads(fields["data"]), exchange)
            else:
                break
        exchange.body = text
        if text and not exchange.streamed and "json" in exchange.headers.get("content-type", ""):
            deliver(json.loads(text), exchange)


@define(eq=False)
class SSEWire:
    """The stream of 2024-11-05 and its POSTs, each on its own socket.

    Args:
        headers: Sent with every request.
    """

    port: int
    path: str = "/sse"
    headers: dict[str, str] = field(factory=dict)
    status: int = 0
    """The connection of the stream."""
    head: dict[str, str] = field(factory=dict)
    endpoint: str = ""
    """The URL to which messages are posted."""
    comments: int = 0
    _lock: trio.Lock = field(factory=trio.Lock)
    _sockets: list[trio.SocketStream] = field(factory=list)
    _stream: h11.Connection = field(factory=lambda: h11.Connection(h11.CLIENT))
    _posts: h11.Connection = field(factory=lambda: h11.Connection(h11.CLIENT))
    _text: bytearray = field(factory=bytearray)
    _looked: int = 0
    """The length of the prefix that contains no end of an event."""

    async def open(self) -> None:
        """Request the stream, and wait for the endpoint event if there is one."""
        for _ in range(2):
            self._sockets.append(await trio.open_tcp_stream("127.0.0.1", self.port))
        await self._request(0, "GET", self.path, {"accept": "text/event-stream"})
        response = await self._next(0)
        self.status = response.status_code
        self.head = {name.decode(): value.decode() for name, value in response.headers}
        if self.status == 200:
            kind, data = await self._event() or ("", b"")
            assert kind == "endpoint", kind
            self.endpoint = data.decode()

    async def send(self, data: bytes) -> None:
        status, body = await self.post(data)
        assert (status, body) == (202, b""), (status, body)

    async def post(
        self, data: bytes, *, to: str | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Return status and body of the response; posts are sent sequentially."""
        sent = {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})}
        async with self._lock:
            await self._request(1, "POST", to or self.endpoint, sent, data)
            response, body = await self._next(1), b""
            while isinstance(event := await self._next(1), h11.Data):
                body += bytes(event.data)
            self._posts.start_next_cycle()
        return response.status_code, body

    async def receive(self) -> list[Any] | None:
        try:
            event = await self._event()
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            return None
        if event is None:
            await self._sockets[0].aclose()
            return None
        assert event[0] == "message", event
        return [json.loads(event[1])]

    async def aclose(self) -> None:
        for socket in self._sockets:
            await socket.aclose()

    async def _event(self) -> tuple[str, bytes] | None:
        """Return the kind and the data of the next event, ``None`` at the end."""
        while True:
            end = self._text.find(b"\n\n", self._looked)
            if end < 0:
                self._looked = max(0, len(self._text) - 1)
                event = await self._next(0)
                if not isinstance(event, h11.Data):
                    return None
                self._text += event.data
                continue
            block = bytes(self._text[:end])
            del self._text[: end + 2]
            self._looked = 0
            if block.startswith(b":"):
                self.comments += 1
                continue
            fields = dict(line.split(b": ", 1) for line in block.split(b"\n"))
            return fields[b"event"].decode(), fields[b"data"]

    async def _request(self, place: int, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        connection = (self._stream, self._posts)[place]
        sent = {"host": f"127.0.0.1:{self.port}", **self.headers, **headers}
        events = (
            h11.Request(method=method, target=path, headers=list(sent.items())),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        await self._sockets[place].send_all(b"".join(connection.send(event) or b"" for event in events))

    async def _next(self, place: int) -> Any:
        connection = (self._stream, self._posts)[place]
        while (event := connection.next_event()) is h11.NEED_DATA:
            connection.receive_data(await self._sockets[place].receive_some(65536))
        return event
