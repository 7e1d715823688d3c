"""HTTP/1.1 by hand, one connection for each request, so that a client knows exactly what it has received."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import trio
from attrs import define, field

from tests.replicas.credentials import TOKEN

__all__ = ["Broken", "Event", "Reply", "request"]

_CHUNK: Final = 65536


class Broken(Exception):
    """The connection could not be used to the end of the response.

    Attributes:
        reached: Whether a server may have read the request.
    """

    def __init__(self, why: str, *, reached: bool) -> None:
        super().__init__(why)
        self.reached = reached


@define
class Event:
    id: str = ""
    data: str = ""
    is_comment: bool = False


@define
class Reply:
    """A response whose head has arrived."""

    status: int
    headers: Mapping[str, str]
    _stream: trio.SocketStream
    _raw: bytearray
    """Received, not yet decoded."""
    _body: bytearray = field(factory=bytearray)
    """Decoded, not yet taken."""
    _left: int | None = None
    """Bytes of the body or of the chunk that have not arrived; ``None`` before the first chunk."""
    is_complete: bool = False

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")

    async def read(self) -> bytes:
        """Return the rest of the body.

        Raises:
            Broken: It is incomplete.
        """
        while not self.is_complete:
            await self._more()
        return bytes(self._body)

    async def json(self) -> Any:
        return json.loads(await self.read())

    async def message(self) -> dict[str, Any] | None:
        """Return the body, or the first message of a stream; ``None`` if the stream has none.

        Raises:
            Broken: It is incomplete.
        """
        if not self.is_stream:
            body: dict[str, Any] = await self.json()
            return body
        while (event := await self.event()) is not None:
            if event.data:
                message: dict[str, Any] = json.loads(event.data)
                return message
        return None

    async def event(self) -> Event | None:
        """Return the next event; ``None`` at the end of a complete body.

        Raises:
            Broken: The body is incomplete.
        """
        while b"\n\n" not in self._body:
            if self.is_complete:
                return None
            await self._more()
        block, _, rest = bytes(self._body).partition(b"\n\n")
        self._body[:] = rest
        event = Event(is_comment=True)
        for line in block.decode().split("\n"):
            name, _, value = line.partition(":")
            if name == "id":
                event.id, event.is_comment = value.strip(), False
            elif name == "data":
                event.data, event.is_comment = event.data + value.strip(), False
        return event

    async def _more(self) -> None:
        if "content-length" in self.headers:
            if self._left is None:
                self._left = int(self.headers["content-length"])
            while self._left > len(self._raw):
                await self._receive()
            self._body += self._raw[: self._left]
            self.is_complete = True
        elif self.headers.get("transfer-encoding") == "chunked":
            await self._chunk()
        else:
            raise Broken("expected a length or chunks: the end of the body cannot be told from a failure", reached=True)

    async def _chunk(self) -> None:
        while b"\r\n" not in self._raw:
            await self._receive()
        line, _, rest = bytes(self._raw).partition(b"\r\n")
        size = int(line, 16)
        self._raw[:] = rest
        while len(self._raw) < size + 2:
            await self._receive()
        self._body += self._raw[:size]
        del self._raw[: size + 2]
        self.is_complete = size == 0

    async def _receive(self) -> None:
        try:
            data = await self._stream.receive_some(_CHUNK)
        except trio.BrokenResourceError as error:
            raise Broken("the connection was reset", reached=True) from error
        if not data:
            raise Broken("the connection was closed", reached=True)
        self._raw += data


@asynccontextmanager
async def request(
    port: int, method: str, headers: Mapping[str, str], message: Any = None, path: str = "/mcp"
) -> AsyncIterator[Reply]:
    """Send a request, and yield its response once the head has arrived.

    Args:
        headers: If ``Authorization`` is missing, the token that all clients share is sent.

    Raises:
        Broken: The connection failed.
    """
    try:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
    except OSError as error:
        raise Broken(str(error), reached=False) from error
    async with stream:
        body = b"" if message is None else json.dumps(message).encode()
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: close"]
        headers = {"Authorization": f"Bearer {TOKEN}", **headers}
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if message is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        try:
            await stream.send_all("\r\n".join([*lines, "", ""]).encode() + body)
        except trio.BrokenResourceError as error:
            raise Broken("the connection was reset", reached=True) from error
        yield await _head(stream)


async def _head(stream: trio.SocketStream) -> Reply:
    raw = bytearray()
    while b"\r\n\r\n" not in raw:
        try:
            data = await stream.receive_some(_CHUNK)
        except trio.BrokenResourceError as error:
            raise Broken("the connection was reset", reached=True) from error
        if not data:
            raise Broken("the connection was closed before the head", reached=True)
        raw += data
    head, _, rest = bytes(raw).partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    reply = Reply(int(first.split(" ")[1]), headers, stream, bytearray(rest))
    # 204 and the like have no body.
    reply.is_complete = reply.status == 204
    return reply
