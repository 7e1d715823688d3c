"""One HTTP request to the endpoint: MCP's responses, refusals and event streams on an :class:`HTTPExchange`.

``HTTPApp`` makes one for every request. The response is sent as a whole (:meth:`Exchange.respond`) or as a stream of
events (:meth:`Exchange.begin_stream`). Every wait has a deadline, so a client that sends or reads too slowly loses only
its own request.

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
    # no-transform, because a proxy that compresses holds events back until its buffer is full.
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


def read_headers(raw: RawHeaders) -> Headers:
    """Return the headers of an ASGI scope."""
    values = {str(name, "latin-1").lower(): str(value, "latin-1").strip(" \t") for name, value in raw}
    # This is much faster than Headers.of(), and almost no request repeats a header.
    return Headers(values) if len(values) == len(raw) else Headers.of(raw)


@define(eq=False)
class Exchange:
    """One request to the endpoint and its response."""

    headers: Headers
    limits: HTTPLimits
    _http: HTTPExchange
    owner: Hashable = None
    """The client for which the exchange is counted; see :class:`mcptrio.ground.shares.Shares`."""
    common_headers: list[tuple[bytes, bytes]] = field(factory=list)
    """Headers of every response to this request, for CORS and the session."""
    is_streaming: bool = False
    """True once the response has begun as a stream of events."""
    is_gone: bool = False
    """True once the client has disconnected, or is regarded as disconnected because it does not read."""
    is_kept_open: bool = False
    """True if the response continues without a task that waits for its end."""
    admitted: AdmittedExchange | None = None
    """Ends the exchange when its token has expired; ``None`` without a guard."""
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
        """True once a response has begun."""
        return self._http.status != 0

    @property
    def can_stay_open(self) -> bool:
        return self._http.can_stay_open

    def end_if_unauthorized(self, end: Callable[[], None]) -> None:
        """Call ``end`` when the token of the exchange is no longer accepted."""
        if self.admitted is not None:
            self.admitted.watch(end)

    def describe(self, incoming: Incoming) -> None:
        """Write the MCP method, and the name of the tool or prompt, into the line of the access log."""
        if isinstance(incoming, Request | Notification):
            name = (incoming.params or {}).get("name")
            self._http.note = incoming.method[:_MAX_NOTE_CHARS]
            if isinstance(name, str):
                self._http.note += f" {name[:_MAX_NOTE_CHARS]}"

    async def body(self) -> bytes | HTTPRefusal:
        """Return the whole body, or a refusal.

        Raises:
            ConnectionClosed: The client has disconnected.
        """
        limit = self.limits.message.bytes
        whole = self._http.body_now()
        if whole is None:
            parts: list[bytes] = []
            size = 0
            with trio.move_on_after(self.limits.body_timeout) as scope:
                # One part beyond the limit is enough to refuse, and the rest is not read.
                while size <= limit and (part := await self._http.read()):
                    size += len(part)
                    parts.append(part)
            if scope.cancelled_caught:
                within = self.limits.body_timeout
                return HTTPRefusal.because(408, f"expected the body within {within:g} s, got {size} bytes")
            whole = b"".join(parts)
        if len(whole) > limit:
            # Content-Length was checked before, so this is a chunked body, or the server does not check the length.
            return HTTPRefusal.because(413, f"body of at least {len(whole)} bytes: the limit is {limit} bytes")
        return whole

    async def while_connected(self, work: Callable[[], Awaitable[object]], on_disconnect: Callable[[], None]) -> None:
        """Run ``work``, and call ``on_disconnect`` if the client disconnects in the meantime. Only after :meth:`body`.

        An exception of ``work`` is raised unchanged.
        """

        def disconnected() -> None:
            self.is_gone = True
            on_disconnect()

        await self._http.while_connected(work, disconnected)

    async def respond(self, status: int, body: bytes = b"", headers: RawHeaders = (), *, media: str = JSON) -> None:
        """Send a whole response."""
        head = [*self.common_headers, *headers, (b"content-length", b"%d" % len(body))]
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
        # Errors are always JSON, because a client that reads only events still checks the status first.
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

    def begin_stream(self) -> None:
        """Begin a stream of events, unless it has begun. Its head is sent with the first bytes."""
        if not self.is_streaming:
            self.is_streaming = True
            self._http.begin(200, [*self.common_headers, *_STREAM_HEADERS])

    async def write(self, data: bytes = COMMENT) -> None:
        """Write encoded events to the stream; by default a comment, which shows that the server is alive.

        Raises:
            ConnectionClosed: The client did not read for too long.
        """
        self.begin_stream()
        await self._write_within_timeout(self._http.write(data))

    def write_now(self, data: bytes) -> bytes | memoryview:
        """Write as much as possible without waiting, and return the rest for :meth:`write_rest`."""
        self.begin_stream()
        return self._http.write_now(data)

    async def write_rest(self, rest: bytes | memoryview) -> None:
        """Write the rest that :meth:`write_now` has returned. Nothing else may be written before it.

        Raises:
            ConnectionClosed: As :meth:`write`.
        """
        await self._write_within_timeout(self._http.write_rest(rest))

    async def end(self) -> None:
        """End the stream of events.

        Raises:
            ConnectionClosed: As :meth:`write`.
        """
        await self._write_within_timeout(self._http.finish())

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

    async def _write_within_timeout(self, write: Awaitable[None]) -> None:
        with trio.move_on_after(self.limits.write_timeout) as scope:
            try:
                await write
            except ConnectionClosed:
                self.is_gone = True
                raise
        if scope.cancelled_caught:
            self.is_gone = True
            # A client that reads nothing for so long is regarded as disconnected. Otherwise it would hold its place
            # forever.
            raise ConnectionClosed("the client does not read")
