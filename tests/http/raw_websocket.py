"""A WebSocket written by hand, in which a test can choose every byte.

The tests of the server use it as a client, and the tests of the client use it as a server. It builds frames itself,
so that they can be invalid; wsproto parses the received ones.
"""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

import h11
import trio
from attrs import define, field, frozen
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage

__all__ = [
    "BINARY",
    "CLOSE",
    "CONTINUATION",
    "PING",
    "PONG",
    "TEXT",
    "Accepted",
    "Refused",
    "Socket",
    "accepting",
    "close_payload",
    "frame",
    "upgrade",
]

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10

WAIT_TIMEOUT = 30.0
"""Seconds; only a failing test waits this long."""


@frozen
class Refused(Exception):
    """The server responded with another status than 101."""

    status: int
    headers: dict[str, str]
    body: bytes


def frame(opcode: int, payload: bytes, *, fin: bool = True, masked: bool = True) -> bytes:
    """RFC 6455 section 5.2."""
    size = len(payload)
    mask = 0x80 if masked else 0
    head = bytes([(0x80 if fin else 0) | opcode])
    if size < 126:
        head += bytes([mask | size])
    elif size < 1 << 16:
        head += bytes([mask | 126]) + size.to_bytes(2, "big")
    else:
        head += bytes([mask | 127]) + size.to_bytes(8, "big")
    # A mask of zeros is valid and leaves the payload unchanged.
    return head + (bytes(4) if masked else b"") + payload


def close_payload(code: int, reason: str = "") -> bytes:
    return code.to_bytes(2, "big") + reason.encode()


def upgrade(port: int, path: str = "/ws", *headers: str, host: str | None = None, offers: str | None = "mcp") -> bytes:
    """The request that opens a WebSocket; ``offers`` is the value of Sec-WebSocket-Protocol."""
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {host or f'127.0.0.1:{port}'}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
        *([f"Sec-WebSocket-Protocol: {offers}"] if offers is not None else []),
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


Stream: TypeAlias = "trio.SocketStream | trio.SSLStream[trio.SocketStream]"


@define(eq=False)
class Socket:
    """One end of an open WebSocket.

    Attributes:
        accepted: The headers of the 101, names in lower case; empty at the server's end.
        pongs: The payloads of the received pongs.
        masked: Whether this end masks its frames, as a client must.
    """

    stream: Stream
    reader: Connection
    accepted: dict[str, str] = field(factory=dict)
    pongs: list[bytes] = field(factory=list)
    pings: list[bytes] = field(factory=list)
    masked: bool = True
    answers_pings: bool = True
    timeout: float = WAIT_TIMEOUT
    """Timeout of a read, in seconds."""
    _text: str = ""

    @classmethod
    async def open(cls, port: int, request: bytes | None = None) -> Socket:
        """Open a WebSocket.

        Raises:
            Refused: The server responded with another status than 101.
        """
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        try:
            with trio.fail_after(WAIT_TIMEOUT):
                return await cls._shake_hands(stream, request or upgrade(port))
        except BaseException:
            stream.socket.close()
            raise

    @classmethod
    async def _shake_hands(cls, stream: trio.SocketStream, request: bytes) -> Socket:
        await stream.send_all(request)
        http = h11.Connection(h11.CLIENT)
        http.send(h11.Request(method="GET", target="/", headers=[("host", "a"), ("upgrade", "websocket")]))
        http.send(h11.EndOfMessage())
        body = b""
        status = 0
        headers: dict[str, str] = {}
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await stream.receive_some())
            elif isinstance(event, h11.InformationalResponse | h11.Response):
                status = event.status_code
                headers = {name.decode(): value.decode() for name, value in event.headers}
                if status == 101:
                    return cls(stream, Connection(ConnectionType.CLIENT, [], http.trailing_data[0]), headers)
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            else:
                raise Refused(status, headers, body)

    async def raw(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def send(self, opcode: int, payload: bytes = b"", *, fin: bool = True) -> None:
        await self.raw(frame(opcode, payload, fin=fin, masked=self.masked))

    async def text(self, text: str) -> None:
        await self.send(TEXT, text.encode())

    async def message(self, value: Any) -> None:
        await self.text(json.dumps(value))

    async def close(self, code: int = 1000, reason: str = "") -> None:
        await self.send(CLOSE, close_payload(code, reason))

    async def receive(self) -> Any:
        """Return the next JSON value, the code (an int) of a close frame, or ``None`` if the connection ends.

        Pings are answered, as long as ``answers_pings`` is set.
        """
        with trio.fail_after(self.timeout):
            while True:
                for event in self.reader.events():
                    if isinstance(event, TextMessage):
                        self._text += event.data
                        if event.message_finished:
                            text, self._text = self._text, ""
                            return json.loads(text)
                    elif isinstance(event, CloseConnection):
                        return int(event.code)
                    elif isinstance(event, Ping):
                        self.pings.append(bytes(event.payload))
                        if self.answers_pings:
                            await self.send(PONG, bytes(event.payload))
                    elif isinstance(event, Pong):
                        self.pongs.append(bytes(event.payload))
                    elif isinstance(event, BytesMessage):
                        raise AssertionError("a binary message came")
                try:
                    data = await self.stream.receive_some(65536)
                except trio.BrokenResourceError:
                    return None
                if not data:
                    return None
                self.reader.receive_data(data)

    async def ask(self, method: str, params: Any = None, *, id: int = 1) -> Any:
        """Send a request, and return the next message."""
        await self.message({"jsonrpc": "2.0", "id": id, "method": method, **({"params": params} if params else {})})
        return await self.receive()

    async def initialize(self, revision: str, capabilities: Sequence[str] = ()) -> Any:
        """Run the handshake, and return its result."""
        info = {"name": "raw", "version": "1"}
        params = {"protocolVersion": revision, "capabilities": {name: {} for name in capabilities}, "clientInfo": info}
        answer = await self.ask("initialize", params, id=0)
        await self.message({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer["result"]

    async def wait_closed(self) -> None:
        """Wait until the other side has closed the TCP connection, answering a close frame."""
        while (came := await self.receive()) is not None:
            if isinstance(came, int):
                with suppress(trio.BrokenResourceError):
                    await self.close()

    def cut(self) -> None:
        """Close the socket without a close frame."""
        self.stream.socket.close()

    def reset(self) -> None:
        """Reset the connection, which drops unsent data."""
        self.stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.cut()


@define(eq=False)
class Accepted:
    """A connection at the server's end whose request head has been read."""

    stream: Stream
    head: str

    @property
    def headers(self) -> dict[str, str]:
        pairs = (line.partition(": ") for line in self.head.split("\r\n")[1:])
        return {name.lower(): value for name, _, value in pairs}

    async def send(self, *lines: str, body: bytes = b"") -> None:
        await self.stream.send_all("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    @property
    def token(self) -> str:
        """The value of Sec-WebSocket-Accept."""
        joined = self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        return base64.b64encode(hashlib.sha1(joined.encode()).digest()).decode()

    async def open(self, protocol: str | None = "mcp", *, body: bytes = b"") -> Socket:
        """Open the WebSocket.

        Args:
            body: Data sent with the head, in one write.
        """
        lines = [
            "HTTP/1.1 101 Switching",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Accept: {self.token}",
        ]
        await self.send(*lines, *([f"Sec-WebSocket-Protocol: {protocol}"] if protocol else []), body=body)
        return Socket(self.stream, Connection(ConnectionType.SERVER, []), masked=False)


@asynccontextmanager
async def accepting(
    handle: Callable[[Accepted], Awaitable[object]], *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Run a server on a free port; the test decides what it does after the head of a request."""

    async def serve(socket: trio.SocketStream) -> None:
        stream: Stream = socket if tls is None else trio.SSLStream(socket, tls, server_side=True, https_compatible=True)
        async with socket:
            try:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    head += await stream.receive_some(1)
                await handle(Accepted(stream, head.decode().removesuffix("\r\n\r\n")))
            except trio.BrokenResourceError:
                pass

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()
