"""One accepted socket: its requests, and one response after the other.

The server makes it. Two tasks work for a connection. :meth:`HTTPConnection.run` reads as long as the connection is
open, so it notices a disconnect while the application runs. A worker of the server runs the application. ``run``
returns when the client, the application, a deadline or the server ends the connection, and has then closed the socket.

===================  =============================  =====================  =====================
``ConnectionState``  lasts until                    deadline               at the deadline
===================  =============================  =====================  =====================
``SECURING``         the TLS handshake is complete  ``tls_timeout``        stop reading
``WAITING``          the first byte of a head       ``keepalive_timeout``  stop reading
``HEAD``             the end of the head            ``header_timeout``     answer 408, linger
``SERVING``          the last response is sent      none                   --
``LINGERING``        the client closes              ``_LINGER_TIMEOUT``    stop reading
``CLOSED``           --                             --                     --
===================  =============================  =====================  =====================

Three waits have their own deadlines in every state: a write (``write_timeout``, then the connection is cut), the
next byte of a body (``body_timeout``, then the client is regarded as disconnected) and an idle WebSocket
(``ping_interval``). States change from top to bottom, except that ``SERVING`` returns to ``WAITING`` or ``HEAD`` for
the next request.

Source: RFC 9112 sections 9.3 (persistence, pipelining) and 9.6 (tear-down).
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from enum import Enum
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import trio

from mcptrio.http.engine.engine import HTTPEngine, ServedRequest
from mcptrio.http.engine.exchange import MAX_BUFFERED_BYTES, EngineExchange, ReadingState
from mcptrio.http.engine.request_parser import Event, MalformedRequest, ParsedHead, RequestEnd, RequestParser, Upgraded
from mcptrio.http.engine.wire import CLOSE_TIMEOUT, Wire

if TYPE_CHECKING:
    from mcptrio.http.engine.websocket import WebSocketExchange

__all__ = ["HTTPConnection"]

_LINGER_TIMEOUT: Final = 0.5
"""Seconds for which the data of a client is read and dropped, so that the client can read the last response."""
_NOT_TLS: Final = b"this port speaks HTTPS\n"
_MAX_PIPELINED_REQUESTS: Final = 16
"""Pipelined requests that may wait behind the current one before reading stops."""


ConnectionState = Enum("ConnectionState", "SECURING WAITING HEAD SERVING LINGERING CLOSED")


class HTTPConnection:
    """One connection: reads requests, and has workers answer them in order."""

    __slots__ = (
        "_answered_event",
        "_body_deadline",
        "_current",
        "_parser",
        "_pending",
        "_reading",
        "_receiving",
        "_refused",
        "_room_event",
        "_state",
        "_state_deadline",
        "_websocket",
        "_wire",
        "_write_deadline",
        "client",
        "engine",
        "extensions",
        "server",
    )

    def __init__(self, engine: HTTPEngine, wire: Wire, client: Any, server: Any) -> None:
        self.client = client
        self.server = server
        self.extensions: dict[str, Any] = {}
        self.engine = engine
        self._wire = wire
        self._parser = RequestParser(engine.limits.header_bytes)
        self._reading = trio.CancelScope()
        self._pending: list[EngineExchange | WebSocketExchange] = []
        self._current: EngineExchange | WebSocketExchange | None = None
        self._receiving: EngineExchange | WebSocketExchange | None = None
        """The exchange whose request is being received."""
        self._websocket: WebSocketExchange | None = None
        self._refused: MalformedRequest | None = None
        self._room_event: trio.Event | None = None
        self._answered_event: trio.Event | None = None
        self._state = ConnectionState.SECURING
        self._state_deadline: float | None = inf
        """The deadline of the state; ``None`` until the server's next check sets it, because reading the clock after
        each request would double the cost of a change of state."""
        self._write_deadline = inf
        self._body_deadline = inf

    async def run(self) -> None:
        engine, tls = self.engine, self._wire.tls
        http2: Callable[[HTTPConnection], Awaitable[None]] | None = None
        try:
            with self._reading:
                if tls is not None:
                    self._enter(ConnectionState.SECURING, engine.limits.tls_timeout)
                    await self._handshake(tls)
                    http2 = engine.http2 if tls.selected_alpn_protocol() == "h2" else None
                self._enter(ConnectionState.WAITING, engine.limits.keepalive_timeout)
                if http2 is None:
                    await self._read()
            if http2 is not None and not self._reading.cancel_called:
                self._reading = trio.CancelScope()
                await http2(self)
            self._notify_disconnected()
            while self._current is not None and self._state is not ConnectionState.CLOSED:
                # The client may have closed only its half of the connection, so still send the response.
                self._answered_event = trio.Event()
                await self._answered_event.wait()
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has caused this, and a failed handshake is already logged
        finally:
            self._notify_disconnected()
            self._parser.close()
            with trio.move_on_after(CLOSE_TIMEOUT, shield=True):
                await self._wire.close()

    # For an exchange

    @property
    def scheme(self) -> str:
        return "http" if self._wire.tls is None else "https"

    async def write(self, data: bytes) -> bool:
        """Send all data, and return whether that was possible. A client that reads too slowly is cut off."""
        rest = self._wire.send_now(data)
        return not rest or await self.write_rest(rest)

    def write_now(self, data: bytes) -> bytes | memoryview:
        """Send as much as the socket accepts now, and return the rest."""
        return self._wire.send_now(data)

    async def write_rest(self, rest: bytes | memoryview) -> bool:
        """Send the rest that :meth:`write_now` has returned, like :meth:`write`."""
        self._write_deadline = trio.current_time() + self.engine.limits.write_timeout
        is_sent = False
        try:
            is_sent = await self._wire.send(rest)
        finally:
            self._write_deadline = inf
            if not is_sent:
                # The connection broke, or the write was cancelled in the middle of a message. The client could not read
                # anything after that.
                self.cut()
        return is_sent

    def resume(self) -> None:
        """Continue to read, because the application has consumed data."""
        if self._room_event is not None:
            self._room_event.set()
            self._room_event = None

    def finish(self, exchange: EngineExchange | WebSocketExchange) -> None:
        """Log an exchange that has ended."""
        exchange.is_logged = True
        self.log_request(exchange.head.method, exchange.head.path, exchange.status, exchange.began, exchange.note)

    def log_request(self, method: str, path: str, status: int, began: float, note: str = "") -> None:
        """Add a request to the access log. Status 0 means that the client has disconnected before the response."""
        # nginx logs 499 in this case.
        self.engine.access_log.add(self.client, method, path, status or 499, began, note)

    # For HTTP/2

    async def receive_all(self, handle: Callable[[bytes], Awaitable[None]]) -> None:
        """Pass received data on until the client, a deadline or the server ends the connection."""
        with self._reading:
            while data := await self._wire.receive():
                await handle(data)

    async def close(self) -> None:
        """Close the connection cleanly and at once. The application may continue for a moment."""
        with trio.move_on_after(CLOSE_TIMEOUT, shield=True):
            await self._wire.close()

    async def call(self, request: ServedRequest) -> None:
        """Run the application for one request. The server logs and contains its exceptions."""
        await self.engine.call(request, self.client)

    def log_failure(self) -> None:
        """Log the exception that is being handled, which ends this connection."""
        self.engine.log_failure(self.client)

    def mark_busy(self) -> None:
        """Note that a request is being served, so the connection has no deadline and is not evicted."""
        if self._state is not ConnectionState.CLOSED:
            self._state, self._state_deadline = ConnectionState.SERVING, inf
        admission = self.engine.admission
        # A connection that was not idle has not had a request yet.
        if admission.idle.pop(self, None) is None:
            admission.unused.pop(self, None)

    def mark_idle(self) -> None:
        """Note that no request is being served."""
        if self._state is not ConnectionState.CLOSED:
            self._state = ConnectionState.HEAD if self._parser.began else ConnectionState.WAITING
            self._state_deadline = None
        admission = self.engine.admission
        if self in admission.open:
            admission.idle[self] = monotonic()

    def end(self) -> None:
        """Stop reading."""
        self._reading.cancel()

    def cut(self) -> None:
        """Close at once."""
        self._state = ConnectionState.CLOSED
        self._wire.cut()
        self._reading.cancel()

    # For the workers

    async def _serve(self, exchange: EngineExchange | WebSocketExchange) -> None:
        """Have the application serve a request, and then the pipelined ones."""
        following: EngineExchange | WebSocketExchange | None = exchange
        while following is not None:
            await self.engine.run(following, self.client)
            following = self._next(following)
            if following is not None:
                # Each pipelined request may be served without a checkpoint, so let other tasks run.
                await trio.lowlevel.checkpoint()

    def _next(self, done: EngineExchange | WebSocketExchange) -> EngineExchange | WebSocketExchange | None:
        """Return the next request for the same worker; ``None`` if there is none yet."""
        is_closed = self._state is ConnectionState.CLOSED
        if isinstance(done, EngineExchange) and done.is_kept_open and not (done.is_complete or is_closed):
            if not done.closes:
                # An event stream may stay open for hours, so free the parser until the next request.
                self._parser.free_parser()
            return None
        self._current = None
        if not done.is_logged:
            self.finish(done)
        if self._answered_event is not None:
            self._answered_event.set()
        if is_closed:
            return None
        if not done.is_complete:
            self.cut()
        elif done.closes:
            self._linger(is_uploading=done.is_uploading)
        elif self._pending:
            self._current = self._pending.pop(0)
            self.resume()
            return self._current
        elif self._refused is not None:
            self._refuse(self._refused.status)
        elif self.engine.is_ending:
            self._linger(is_uploading=False)
        else:
            self.mark_idle()
            self.resume()
        return None

    def close_kept(self, done: EngineExchange) -> None:
        """Continue after a response that was kept open without a worker."""
        if done is self._current:
            following = self._next(done)
            if following is not None:
                self.engine.start(self._serve, following)

    # For the server

    def expire(self, now: float) -> None:
        """End the wait whose deadline has passed, as the table above says."""
        if now >= self._write_deadline:
            self.cut()
        elif now >= self._body_deadline:
            self._expire_body()
        elif self._state_deadline is None:
            limits, has_begun = self.engine.limits, self._state is ConnectionState.HEAD
            self._state_deadline = now + (limits.header_timeout if has_begun else limits.keepalive_timeout)
        elif now >= self._state_deadline:
            if self._state is ConnectionState.HEAD:
                self._refuse(408)
            else:
                self._reading.cancel()
        elif self._websocket is not None:
            self._websocket.check_liveness(now)

    def end_if_idle(self) -> None:
        """Close the connection unless a request is being served: the server is stopping or needs the descriptor."""
        if self._state is not ConnectionState.SERVING:
            self._reading.cancel()

    # Private

    @property
    def _is_lingering(self) -> bool:
        return self._state is ConnectionState.LINGERING

    def _enter(self, state: ConnectionState, seconds: float) -> None:
        if self._state is not ConnectionState.CLOSED:
            self._state, self._state_deadline = state, trio.current_time() + seconds

    async def _handshake(self, tls: trio.SSLStream[trio.SocketStream]) -> None:
        """Complete the TLS handshake, and log a failed one.

        Raises:
            OSError, trio.BrokenResourceError: The handshake failed, or the connection was cut.
        """
        try:
            await self._wire.begin()
        except (OSError, trio.BrokenResourceError) as error:
            cause = error if isinstance(error, ssl.SSLError) else error.__cause__
            if isinstance(cause, ssl.SSLError):
                self.engine.log_handshake(self.client, cause)
                if cause.reason == "HTTP_REQUEST":
                    self._wire.send_in_the_clear(self.engine.error(400, _NOT_TLS))
            raise
        self.extensions = self.engine.describe_tls(tls)

    async def _read(self) -> None:
        while True:
            data = await self._wire.receive()
            if not data:
                return
            if self._is_lingering:
                continue
            if self._websocket is not None:
                await self._websocket.feed(data)
                continue
            events = self._parser.feed(data)
            # 10,000 waiting connections must not each hold the buffer of their last read.
            data = b""
            await self._handle_events(events)
            while self._parser.unread and not self._is_lingering:
                # One packet may hold a thousand heads, so let other tasks run between the pieces.
                await trio.lowlevel.checkpoint()
                await self._handle_events(self._parser.feed(b""))

    async def _handle_events(self, events: list[Event]) -> None:
        """Handle the parsed events, and wait while too much is queued for the application."""
        for event in events:
            self._handle_event(event)
        if self._current is None:
            if self._pending:
                self.mark_busy()
                self._current = self._pending.pop(0)
                self.engine.start(self._serve, self._current)
            elif self._refused is not None:
                self._refuse(self._refused.status)
            elif self._parser.began and self._state is ConnectionState.WAITING:
                self._enter(ConnectionState.HEAD, self.engine.limits.header_timeout)
        if self._receiving is not None or len(self._pending) > _MAX_PIPELINED_REQUESTS:
            await self._wait_for_room()

    async def _wait_for_room(self) -> None:
        """Wait until the application has consumed enough of the received data."""
        receiving = self._receiving
        # The client need not send more in the meantime, so it has no deadline.
        self._body_deadline = inf
        while not self._is_lingering and (
            len(self._pending) > _MAX_PIPELINED_REQUESTS
            or (isinstance(receiving, EngineExchange) and receiving.buffered > MAX_BUFFERED_BYTES)
        ):
            self._room_event = trio.Event()
            await self._room_event.wait()
        if isinstance(receiving, EngineExchange):
            # From now on the connection waits for the client again.
            self._body_deadline = trio.current_time() + self.engine.limits.body_timeout

    def _expire_body(self) -> None:
        receiving = self._receiving
        if isinstance(receiving, EngineExchange) and receiving.reading is ReadingState.AWAITING_100:
            # The client may still wait, because the application has not asked for the body yet.
            self._body_deadline = trio.current_time() + self.engine.limits.body_timeout
        elif isinstance(receiving, EngineExchange):
            self._body_deadline = inf
            receiving.closes = True
            receiving.refusal = 408
            receiving.disconnected()

    def _handle_event(self, event: object) -> None:
        if isinstance(event, ParsedHead):
            if event.is_websocket:
                # Imported here, because most servers never open a WebSocket, and wsproto imports all of h11.
                from mcptrio.http.engine.websocket import WebSocketExchange

                self._receiving = WebSocketExchange(self, event)
            else:
                self._receiving = EngineExchange(self, event)
            self._pending.append(self._receiving)
        elif isinstance(event, bytes):
            assert isinstance(self._receiving, EngineExchange)
            self._receiving.feed(event)
        elif isinstance(event, RequestEnd):
            assert self._receiving is not None
            self._receiving.end()
            if isinstance(self._receiving, EngineExchange):
                self._receiving = None
                self._body_deadline = inf
        elif isinstance(event, Upgraded):
            assert self._receiving is not None
            assert not isinstance(self._receiving, EngineExchange)
            self._websocket = self._receiving
            self._websocket.early = event.data
        elif isinstance(event, MalformedRequest):
            self._refused = event
            self.engine.log_refusal(self.client, event)
            if isinstance(self._receiving, EngineExchange):
                # The body of the current request will never be complete.
                self._receiving.closes = True
                self._receiving.refusal = event.status
                self._receiving.disconnected()
                self._receiving = None
                self._body_deadline = inf

    def _refuse(self, status: int) -> None:
        """Answer invalid data with an error status, and linger."""
        # No other response is being written. The reading task must not wait for the client, so another task writes.
        rest = self._wire.send_now(self.engine.error(status))
        if rest:
            self.engine.start_soon(self.write, bytes(rest))
        self._linger(is_uploading=True)

    def _linger(self, *, is_uploading: bool) -> None:
        """Linger after the last response (RFC 9112 section 9.6)."""
        # If a socket is closed with unread data, the system resets the connection, and the client may lose the
        # response. So read for a moment longer.
        self._enter(ConnectionState.LINGERING, _LINGER_TIMEOUT)
        if self._wire.tls is not None and not is_uploading:
            self._reading.cancel()
            return
        self._wire.half_close()
        self.resume()

    def _notify_disconnected(self) -> None:
        """Tell the application that the client has disconnected."""
        for exchange in (self._current, *self._pending):
            if exchange is not None:
                exchange.disconnected()
