"""A custom transport: messages over TCP, each with its length, as in the Language Server Protocol.

Run it: mcptrio serve --transport lsp --plugin examples/own_transport.py

It has three parts: a Trio channel of bytes, the server side as a hook, and the client side.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import partial

import trio
from attrs import frozen

from mcptrio import connect, hookimpl, tool
from mcptrio.abc import Engine
from mcptrio.serving import adapt_channel
from mcptrio.types import TextContent

__all__ = ["LSPChannel", "ask", "serve", "shout", "transports"]

# The peer is not trusted, so everything that it can make us buffer has a bound.
MAX_HEAD_BYTES = 1024
MAX_MESSAGE_BYTES = 4 * 1024 * 1024


class LSPChannel(trio.abc.Channel[bytes]):
    """One message at a time over a stream."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    async def send(self, value: bytes) -> None:
        await self._stream.send_all(b"Content-Length: %d\r\n\r\n%b" % (len(value), value))

    async def receive(self) -> bytes:
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > MAX_HEAD_BYTES:
                raise trio.BrokenResourceError(f"expected a head of at most {MAX_HEAD_BYTES} bytes")
            await self._read()
        head = re.fullmatch(rb"content-length: *(\d{1,9})", self._buffer[:end], re.IGNORECASE)
        if head is None or int(head[1]) > MAX_MESSAGE_BYTES:
            raise trio.BrokenResourceError(f"expected a Content-Length of at most {MAX_MESSAGE_BYTES} bytes")
        begin, size = end + 4, int(head[1])
        while len(self._buffer) < begin + size:
            await self._read()
        message = bytes(self._buffer[begin : begin + size])
        del self._buffer[: begin + size]
        return message

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def _read(self) -> None:
        chunk = await self._stream.receive_some()
        if not chunk:
            if self._buffer:
                raise trio.BrokenResourceError("expected the rest of a message, got the end of the stream")
            raise trio.EndOfChannel
        self._buffer += chunk


@frozen(kw_only=True)
class Config:
    """The settings in ``[plugins.own_transport]``."""

    port: int = 0


async def serve(
    engine: Engine, *, port: int = 0, stopping: trio.Event, task_status: trio.TaskStatus[list[str]]
) -> None:
    """Accept connections, and serve each one as a session."""

    async def serve_connection(stream: trio.SocketStream) -> None:
        async with stream:
            channel = adapt_channel(LSPChannel(stream), form="bytes", name="lsp")
            # An error of one connection is logged, and the others continue.
            await engine.run_guarded(partial(engine.serve, channel), "a connection")

    async with trio.open_nursery() as connections, trio.open_nursery() as acceptors:
        accept = partial(trio.serve_tcp, serve_connection, port, host="127.0.0.1", handler_nursery=connections)
        listeners: list[trio.SocketListener] = await acceptors.start(accept)
        task_status.started([f"lsp://127.0.0.1:{listeners[0].socket.getsockname()[1]}"])
        # Accept no new connections. The server ends the open ones.
        await stopping.wait()
        acceptors.cancel_scope.cancel()


@hookimpl
def transports(config: Config) -> dict[str, Callable[..., Awaitable[None]]]:
    return {"lsp": partial(serve, port=config.port)}


@tool(read_only=True)
async def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


async def ask(port: int, text: str) -> str:
    """Call the tool as a client. Any channel can be a target of `connect`."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with connect(adapt_channel(LSPChannel(stream), form="bytes")) as client:
        result = await client.call_tool("shout", {"text": text})
        (content,) = result.content
        assert isinstance(content, TextContent)
        return content.text
