"""One HTTP exchange: a request as it came, and the response as it goes.

Made by the ASGI entry for every request, used by whoever answers it. Each exchange is answered once, whole
(:meth:`Exchange.respond`) or as a stream of events (:meth:`Exchange.stream`).
The one rule: nothing here waits without a deadline; a peer that is slow in sending or in reading ends its own exchange.

Source: ASGI 3.0, HTTP and WebSocket message format; WHATWG HTML 9.2 (event streams).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, MutableMapping, Sequence
from math import ceil
from typing import Any, Final, Protocol, TypeAlias

import trio
from attrs import define, field

from mcptrio.errors import ConnectionClosed, Overloaded, RateLimited
from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.http.headers import EVENT_STREAM, JSON, Headers, accepts
from mcptrio.http.server.limits import HTTPLimits
from mcptrio.http.server.reauthorization import Stay
from mcptrio.http.server.rules import Refusal
from mcptrio.protocol import sse
from mcptrio.protocol.jsonrpc import encode
from mcptrio.protocol.messages import ErrorResponse, Incoming, Message, Notification, Request

__all__ = ["COMMENT", "Exchange", "Receive", "Scope", "Send"]

Scope: TypeAlias = "MutableMapping[str, Any]"
Receive: TypeAlias = "Callable[[], Awaitable[MutableMapping[str, Any]]]"
Send: TypeAlias = "Callable[[MutableMapping[str, Any]], Awaitable[None]]"

_NOTED: Final = 100
"""Characters of a name that the access log shows."""
COMMENT: Final = sse.comment()
_NO_HEADERS: Final = Headers(())
_STREAM_HEADERS: Final = (
    (b"content-type", EVENT_STREAM.encode()),
    # no-transform: a proxy that compresses holds events back until its buffer is full.
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class Connected(Protocol):
    """What our own server knows of a request beside what ASGI says; see :mod:`mcptrio.http.engine.exchange`.

    Where it is there, writes are bounded by the server, and nobody has to wait for the client to leave.
    """

    note: str
    """Appended to the line of the access log."""

    def body_now(self) -> bytes | None:
        """The whole body if it is here."""
        ...

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """Call it once when the client leaves before the response is complete; replaces the one given before."""
        ...

    def begin(self, event: MutableMapping[str, Any]) -> None:
        """``http.response.start``, without waiting."""
        ...

    def write_now(self, body: bytes) -> bytes | memoryview:
        """Write a part of a stream that has begun, as far as that needs no waiting. Returns the rest, encoded."""
        ...

    async def write_rest(self, rest: bytes | memoryview) -> None: ...

    def part(self) -> None:
        """The application returns, the response goes on until :meth:`over`."""
        ...

    def over(self) -> None: ...


@define(eq=False)
class Exchange:
    headers: Headers
    limits: HTTPLimits
    _receive: Receive
    _send: Send
    _connected: Connected | None = None
    """``None`` on somebody else's server."""
    common: list[tuple[bytes, bytes]] = field(factory=list)
    """Headers of every response to this request: CORS, the session."""
    answered: bool = False
    """Whether a response has begun."""
    streaming: bool = False
    """Whether the response is a stream of events that has begun."""
    gone: bool = False
    """Whether the client has left, or is as good as gone because it does not read."""
    parted: bool = False
    """Whether the response goes on, though nobody waits for its end."""
    owner: Hashable = None
    """The client that it counts for, as :class:`mcptrio.ground.shares.Places` has it."""
    stay: Stay | None = None
    """Of a request that a guard has admitted: what ends it if it stays open for longer than its token is good."""
    on_over: Callable[[], None] | None = None
    """Called when a response that was parted with is over."""

    @property
    def takes_json(self) -> bool:
        return accepts(self.headers.get("accept"), JSON)

    @property
    def takes_events(self) -> bool:
        return accepts(self.headers.get("accept"), EVENT_STREAM)

    def stays(self, end: Callable[[], None]) -> None:
        """It stays open after the request was admitted, and ``end`` ends it when its token is no longer good."""
        if self.stay is not None:
            self.stay.begin(end)

    def describe(self, incoming: Incoming) -> None:
        """Name the MCP method, and the tool or prompt, in the access log of our own server."""
        if self._connected is not None and isinstance(incoming, Request | Notification):
            name = (incoming.params or {}).get("name")
            self._connected.note = incoming.method[:_NOTED]
            if isinstance(name, str):
                self._connected.note += f" {name[:_NOTED]}"

    async def body(self) -> bytes | Refusal:
        """The whole body, or why it was not taken.

        Raises:
            ConnectionClosed: the client left.
        """
        whole = self._connected.body_now() if self._connected is not None else None
        if whole is not None:
            return whole if len(whole) <= self.limits.message.bytes else self._too_large(len(whole))
        parts: list[bytes] = []
        size = 0
        with trio.move_on_after(self.limits.body_timeout) as scope:
            while True:
                event = await self._receive()
                if event["type"] != "http.request":
                    raise ConnectionClosed("the client has left")
                part = event.get("body", b"")
                size += len(part)
                if size > self.limits.message.bytes:
                    return self._too_large(size)
                parts.append(part)
                if not event.get("more_body"):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
        if scope.cancelled_caught:
            return Refusal.because(408, f"expected the body within {self.limits.body_timeout:g} s, got {size} bytes")
        raise ConnectionClosed("the client has left")

    async def while_connected(self, work: Callable[[], Awaitable[object]], leave: Callable[[], None]) -> None:
        """Do it, and call ``leave`` if the client leaves meanwhile. Only after :meth:`body`.

        What ``work`` raises comes out as it is.
        """

        def left() -> None:
            self.gone = True
            leave()

        if self._connected is not None:
            self._connected.on_disconnect(left)
            await work()
            return

        async def watch() -> None:
            await self.disconnected()
            left()

        async with open_hidden_nursery() as nursery:
            nursery.start_soon(watch)
            await work()

    async def disconnected(self) -> None:
        """Wait until the client leaves. Only after :meth:`body`."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True

    async def respond(
        self, status: int, body: bytes = b"", headers: Sequence[tuple[bytes, bytes]] = (), *, media: str = JSON
    ) -> None:
        """The whole response."""
        self.answered = True
        head = [*self.common, *headers, (b"content-length", b"%d" % len(body))]
        if body:
            head.append((b"content-type", media.encode()))
        start = {"type": "http.response.start", "status": status, "headers": head}
        if self._connected is not None:
            await self._send(start)
            await self._send({"type": "http.response.body", "body": body})
            return
        with trio.move_on_after(self.limits.write_timeout) as scope:
            await self._send(start)
            await self._send({"type": "http.response.body", "body": body})
        if scope.cancelled_caught:
            self.gone = True

    async def reply(self, status: int, message: Message | Sequence[Message]) -> None:
        """The whole response, one JSON-RPC message or batch; as an event where the client reads nothing else.

        An error that says when to try again is a 503 with ``Retry-After``, or 429 where the caller asks too often.
        """
        if isinstance(message, ErrorResponse) and isinstance(message.data, dict):
            retry_after = message.data.get("retryAfter")
            if isinstance(retry_after, int | float):
                kind = RateLimited if message.data.get("reason") == RateLimited.REASON else Overloaded
                await self.overloaded(kind(message.message, retry_after=retry_after), message.id)
                return
        data = encode(message)
        if status == 200 and not self.takes_json:
            await self.respond(status, sse.encode(data), _STREAM_HEADERS[1:], media=EVENT_STREAM)
        else:
            await self.respond(status, data)

    async def refuse(self, refusal: Refusal) -> None:
        await self.respond(refusal.status, encode(refusal.error) if refusal.error else b"", refusal.headers)

    async def overloaded(self, error: Overloaded, id: str | int | None = None) -> None:
        status = 429 if isinstance(error, RateLimited) else 503
        after = b"%d" % max(1, ceil(error.retry_after))
        await self.respond(status, encode(ErrorResponse.of(id, error)), [(b"retry-after", after)])

    async def stream(self) -> None:
        """Begin a stream of events, unless it has begun; ``write`` and ``end`` follow."""
        if self.streaming:
            return
        self.answered = self.streaming = True
        await self._write(self._beginning())

    async def write(self, data: bytes = COMMENT) -> None:
        """Encoded events; without any, a comment that shows the line is alive.

        Raises:
            ConnectionClosed: the client did not read for too long.
        """
        await self._write({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        """The end of the stream of events."""
        await self._write({"type": "http.response.body", "body": b""})

    # On our own server only

    @property
    def is_direct(self) -> bool:
        """Whether what is written goes to a server of ours, past nobody who wants to see it."""
        return self._connected is not None and getattr(self._send, "__self__", None) is self._connected

    def write_now(self, data: bytes = COMMENT) -> bytes | memoryview:
        """:meth:`stream` and :meth:`write` as far as that needs no waiting; the rest is for :meth:`write_rest`."""
        assert self._connected is not None
        if not self.streaming:
            self.answered = self.streaming = True
            self._connected.begin(self._beginning())
        return self._connected.write_now(data)

    async def write_rest(self, rest: bytes | memoryview) -> None:
        """Goes before anything else. The server bounds it, and cuts off who does not read."""
        assert self._connected is not None
        await self._connected.write_rest(rest)

    def part(self) -> None:
        """Nobody waits for the end of this stream any more. What came with the request is forgotten."""
        assert self._connected is not None
        self.parted = True
        self.headers = _NO_HEADERS
        self._connected.part()

    def over(self) -> None:
        """The end of a stream that was parted with, complete or not."""
        assert self._connected is not None
        self._connected.over()
        callback, self.on_over = self.on_over, None
        if callback is not None:
            callback()

    def _beginning(self) -> MutableMapping[str, Any]:
        return {"type": "http.response.start", "status": 200, "headers": [*self.common, *_STREAM_HEADERS]}

    def _too_large(self, size: int) -> Refusal:
        limit = self.limits.message.bytes
        return Refusal.because(413, f"body of at least {size} bytes: the limit is {limit} bytes")

    async def _write(self, event: MutableMapping[str, Any]) -> None:
        with trio.move_on_after(self.limits.write_timeout) as scope:
            await self._send(event)
        if scope.cancelled_caught:
            self.gone = True
            raise ConnectionClosed("the client does not read")
