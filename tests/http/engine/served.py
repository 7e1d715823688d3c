"""An application that the engine serves, and a client with one connection to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import h11
import trio
import trio.testing

from mcptrio.http.engine.limits import ConnectionLimits
from mcptrio.http.engine.server import serve_asgi as serve

__all__ = ["POST", "UPGRADE", "App", "Client", "Receive", "Send", "answering", "connected", "serving"]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

UPGRADE = (
    b"GET %b HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
POST = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n%b"


@asynccontextmanager
async def serving(app: App, *, access_log: bool = False, limits: ConnectionLimits | None = None) -> AsyncIterator[int]:
    """Yield the port. The application receives requests only; the lifespan is refused."""

    async def requests(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            raise NotImplementedError
        await app(scope, receive, send)

    shutdown = trio.Event()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            serving = partial(
                serve, requests, bind="127.0.0.1:0", shutdown=shutdown, access_log=access_log, limits=limits
            )
            (url,) = await nursery.start(serving)
            yield int(url.rpartition(":")[2])
            shutdown.set()


class Client:
    """One connection, from which the responses are read sequentially."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._h11 = h11.Connection(h11.CLIENT)

    async def ask(self, method: str = "GET", target: str = "/", body: bytes = b"", **headers: str) -> Any:
        """Status, headers and body of the answer."""
        fields = {"host": "a", **({"content-length": str(len(body))} if body else {}), **headers}
        send = self._h11.send
        data = send(h11.Request(method=method, target=target, headers=list(fields.items()))) or b""
        data += (send(h11.Data(data=body)) or b"") if body else b""
        await self.stream.send_all(data + (send(h11.EndOfMessage()) or b""))
        return await self.answer()

    async def answer(self) -> tuple[int, dict[bytes, bytes], bytes]:
        body = b""
        head: h11.Response | None = None
        while True:
            event = self._h11.next_event()
            if event is h11.NEED_DATA:
                self._h11.receive_data(await self.stream.receive_some())
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                if self._h11.their_state is h11.DONE and self._h11.our_state is h11.DONE:
                    self._h11.start_next_cycle()
                return head.status_code, dict(head.headers), body
            else:
                raise AssertionError(f"expected an answer, got {event!r}")


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Client]:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        yield Client(stream)


def answering(*events: dict[str, Any]) -> App:
    """Return an application that sends these events for every request."""

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        for event in events:
            await send({"type": f"http.response.{'start' if 'status' in event else 'body'}", **event})

    return app
