"""One HTTP request for the endpoint: MCP's responses, refusals and event streams on an :class:`HTTPExchange`.

``HTTPApp`` makes one for every request. Each is answered once: as a whole (:meth:`Exchange.respond`) or as a stream
of events (:meth:`Exchange.stream`). Every wait has a deadline, so a client that sends or reads slowly ends only its own
request.

Source: WHATWG HTML 9.2 (event streams).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Final

import trio
from attrs import define, field

from mcptrio.errors import ConnectionClosed, Overloaded, RateLimited
from mcptrio.ground.refusals import count_refusal
from mcptrio.http.exchange import HTTPExchange, RawHeaders
from mcptrio.http.headers import EVENT_STREAM, JSON, JSON_AND_EVENTS, Headers, accepts
from mcptrio.http.server.limits import HTTPLimits
from mcptrio.http.server.reauthorization import AdmittedExchange
from mcptrio.http.server.rules import HTTPRefusal
from mcptrio.protocol import sse
from mcptrio.protocol.jsonrpc import encode
from mcptrio.protocol.messages import ErrorResponse, Incoming, Message, Notification, Request

__all__ = ["COMMENT", "Exchange", "read_headers"]

_MAX_NOTE_CHARS: Final = 100
"""Characters of a name that the access log shows."""
COMMENT: Final = sse.comment()
_NO_HEADERS: Final = Headers()
_STREAM_HEADERS: Final = (
    (b"content-type", EVENT_STREAM.encode()),
    # no-transform: a proxy that compresses holds events back until its buffer is full.
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


def read_headers(raw: RawHeaders) -> Headers:
    """Return the headers of an ASGI scope."""
    values = {str(name, "latin-1").lower(): str(value, "latin-1").strip(" \t") for name, value in raw}
    # No name occurs twice, as nearly always.
    return Headers(values) if len(values) == len(raw) else Headers.of(raw)


@define(eq=False)
class Exchange:
    headers: Headers
    limits: HTTPLimits
    _http: HTTPExchange
    owner: Hashable = None
    """The client that it counts for, as :class:`mcptrio.ground.shares.Shares` has it."""
    common: list[tuple[bytes, bytes]] = field(factory=list)
    """Headers of every response to this request: CORS, the session."""
    is_streaming: bool = False
    """Whether the response is a stream of events that has begun."""
    is_gone: bool = False
    """Whether the client has left, or is as good as gone because it does not read."""
    is_kept_open: bool = False
    """Whether the response continues without a task that waits for its end."""
    admitted: AdmittedExchange | None = None
    """Ends a request that stays open after its token has expired; ``None`` without a guard."""
    on_close: Callable[[], None] | None = None
    """Called when a response that was kept open has ended."""
    takes_json: bool = field(init=False)
    takes_events: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        accept = self.headers.get("accept")
        is_usual = accept == JSON_AND_EVENTS
        self.takes_json, self.takes_events = (
            is_usual or accepts(accept, JSON),
            is_usual or accepts(accept, EVENT_STREAM),
        )

    @property
    def is_answered(self) -> bool:
        """Whether a response has begun."""
        return self._http.status != 0

    @property
    def can_stay_open(self) -> bool:
        return self._http.can_stay_open

    def end_if_unauthorized(self, end: Callable[[], None]) -> None:
        """Keep the exchange open until its token is no longer accepted; then ``end`` is called."""
        if self.admitted is not None:
            self.admitted.begin(end)

    def describe(self, incoming: Incoming) -> None:
        """Name the MCP method, and the tool or prompt, in the access log of our own server."""
        if isinstance(incoming, Request | Notification):
            name = (incoming.params or {}).get("name")
            self._http.note = incoming.method[:_MAX_NOTE_CHARS]
            if isinstance(name, str):
                self._http.note += f" {name[:_MAX_NOTE_CHARS]}"

    async def body(self) -> bytes | HTTPRefusal:
        """Return the whole body, or the refusal.

        Raises:
            ConnectionClosed: The client left.
        """
        limit = self.limits.message.bytes
        whole = self._http.body_now()
        if whole is None:
            parts: list[bytes] = []
            size = 0
            with trio.move_on_after(self.limits.body_timeout) as scope:
                # One part beyond the limit is enough to refuse; the rest is never held.
                while size <= limit and (part := await self._http.read()):
                    size += len(part)
                    parts.append(part)
            if scope.cancelled_caught:
                within = self.limits.body_timeout
                return HTTPRefusal.because(408, f"expected the body within {within:g} s, got {size} bytes")
            whole = b"".join(parts)
        if len(whole) > limit:
            # Content-Length was checked before; this is a chunked body or another ASGI server.
            return HTTPRefusal.because(413, f"body of at least {len(whole)} bytes: the limit is {limit} bytes")
        return whole

    async def while_connected(self, work: Callable[[], Awaitable[object]], leave: Callable[[], None]) -> None:
        """Run ``work``, and call ``leave`` if the client disconnects in the meantime. Only after :meth:`body`.

        An exception of ``work`` is raised unchanged.
        """

        def left() -> None:
            self.is_gone = True
            leave()

        await self._http.while_connected(work, left)

    async def respond(self, status: int, body: bytes = b"", headers: RawHeaders = (), *, media: str = JSON) -> None:
        """Send a whole response."""
        head = [*self.common, *headers, (b"content-length", b"%d" % len(body))]
        if body:
            head.append((b"content-type", media.encode()))
        await self._http.respond(status, head, body)

    async def reply(self, status: int, message: Message | Sequence[Message]) -> None:
        """Send a whole response of one JSON-RPC message or batch, as an event if the client accepts only events.

        An error with a retry time becomes a 503 with ``Retry-After``, or a 429 if the client sends too often.
        """
        if isinstance(message, ErrorResponse) and isinstance(message.data, dict):
            retry_after = message.data.get("retryAfter")
            if isinstance(retry_after, int | float):
                kind = RateLimited if message.data.get("reason") == RateLimited.REASON else Overloaded
                await self.overloaded(kind(message.message, retry_after=retry_after), message.id)
                return
        data = encode(message)
        # Errors stay JSON: a client that reads only events still looks at the status first.
        if status == 200 and not self.takes_json:
            await self.respond(status, sse.encode(data), _STREAM_HEADERS[1:], media=EVENT_STREAM)
        else:
            await self.respond(status, data)

    async def refuse(self, refusal: HTTPRefusal) -> None:
        count_refusal(refusal.status, refusal.reason)
        await self.respond(refusal.status, encode(refusal.error) if refusal.error else b"", refusal.headers)

    async def overloaded(self, error: Overloaded, id: str | int | None = None) -> None:
        await self.refuse(HTTPRefusal.overloaded(error, id))

    # Streams of events

    def stream(self) -> None:
        """Begin a stream of events, unless it has begun. Its head goes out with the first bytes."""
        if not self.is_streaming:
            self.is_streaming = True
            self._http.begin(200, [*self.common, *_STREAM_HEADERS])

    async def write(self, data: bytes = COMMENT) -> None:
        """Write encoded events to the stream; without an argument a comment, which shows that the server is alive.

        Raises:
            ConnectionClosed: The client did not read for too long.
        """
        self.stream()
        await self._bounded(self._http.write(data))

    def write_now(self, data: bytes) -> bytes | memoryview:
        """Write as much as needs no waiting, and return the rest for :meth:`write_rest`."""
        self.stream()
        return self._http.write_now(data)

    async def write_rest(self, rest: bytes | memoryview) -> None:
        """Write what :meth:`write_now` has returned; nothing else may be written before it.

        Raises:
            ConnectionClosed: As :meth:`write`.
        """
        await self._bounded(self._http.write_rest(rest))

    async def end(self) -> None:
        """End the stream of events.

        Raises:
            ConnectionClosed: As :meth:`write`.
        """
        await self._bounded(self._http.finish())

    def keep_open(self) -> None:
        """Continue the stream without a task, and drop the data of the request."""
        self.is_kept_open = True
        # A stream that stays open for hours must not hold the headers of its request.
        self.headers = _NO_HEADERS
        self._http.keep_open()

    def close(self) -> None:
        """Close a stream that was kept open, complete or not."""
        self._http.close()
        on_close, self.on_close = self.on_close, None
        if on_close is not None:
            on_close()

    async def _bounded(self, write: Awaitable[None]) -> None:
        with trio.move_on_after(self.limits.write_timeout) as scope:
            try:
                await write
            except ConnectionClosed:
                self.is_gone = True
                raise
        if scope.cancelled_caught:
            self.is_gone = True
            # A client that reads nothing for so long counts as gone, or it would hold the place forever.
            raise ConnectionClosed("the client does not read")
