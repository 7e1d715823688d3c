"""A transport of one's own: messages as lines over TCP. Any object with these three methods is a channel.

Run it: python examples/own_transport.py, then talk JSON-RPC to it: nc 127.0.0.1 9000
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import trio

from mcptrio import ConnectionClosed, Server
from mcptrio.protocol.messages import Incoming, Message
from mcptrio.transports.lines import LineFramer, to_lines

__all__ = ["StreamChannel", "main"]


class StreamChannel:
    """A ``mcptrio.abc.MessageChannel`` over any Trio stream: TCP, TLS, a Unix socket, a process's pipes."""

    name = "tcp"

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._framer = LineFramer()

    async def receive(self) -> Sequence[Incoming]:
        while True:
            try:
                chunk = await self._stream.receive_some()
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise ConnectionClosed("the connection broke") from error
            received = self._framer.feed(bytes(chunk)) if chunk else self._framer.finish()
            if received:
                return received
            if not chunk:
                raise trio.EndOfChannel

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        try:
            await self._stream.send_all(to_lines(messages))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionClosed("the connection broke") from error

    async def aclose(self) -> None:
        await self._stream.aclose()


async def main(port: int = 9000, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
    server = Server("lines", version="1.0")

    async def shout(text: str) -> str:
        """Say it louder."""
        return text.upper()

    server.add_tool(shout, read_only=True)

    async def connected(stream: trio.SocketStream) -> None:
        # A session each; all of them end with the server.
        await server.serve(StreamChannel(stream))

    async with server.open(), trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, connected, port, host="127.0.0.1"))
        bound: int = listeners[0].socket.getsockname()[1]
        print(f"serving lines on 127.0.0.1:{bound}", flush=True)
        task_status.started(bound)


if __name__ == "__main__":
    trio.run(main)
