"""One request and its response, for ASGI and as :class:`mcptrio.http.exchange.HTTPExchange`.

The connection makes one for each head. An ASGI application calls :meth:`EngineExchange.receive` and
:meth:`EngineExchange.send`. Our endpoint finds the exchange in the extensions of the scope, and calls the other
methods. If the exchange cannot write one well-formed response, the connection ends.

The two directions are independent. Each has a state, and no event moves it back:

================  ====================================================================================================
``ReadingState``
================  ====================================================================================================
``AWAITING_100``  The client waits for 100 Continue. Reading asks for the body (to ``BODY``). A response also changes to
                  ``BODY``, because 100 Continue must not be sent within it.
``BODY``          The body arrives.
``WHOLE``         All of the body has arrived, and some of it may wait for the application.
``TAKEN``         The application has read all of the body.
================  ====================================================================================================

================  ====================================================================================================
``WritingState``
================  ====================================================================================================
``IDLE``          Nothing is written, so :meth:`EngineExchange.refuse` may answer.
``HEAD``          The head is known and will be sent with the next part, so ``refuse`` may still replace it.
``BODY``          The head is sent. If the application ends here, the connection is cut.
``DONE``          The last byte is sent, or is being written. The connection may start the next request.
================  ====================================================================================================

Two flags are independent of these. ``is_gone``: the client has disconnected; if it has closed only its half, the
response continues. ``is_kept_open``: the application has returned, and the response continues until
:meth:`EngineExchange.close`.

Source: ASGI 3.0, HTTP message format; RFC 9110 sections 8.6, 10.1.1, 15; RFC 9112 sections 6 and 7.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import trio

from mcptrio.errors import ConnectionClosed
from mcptrio.http.engine.engine import status_line
from mcptrio.http.engine.request_parser import ParsedHead
from mcptrio.http.exchange import EXTENSION, RawHeaders

if TYPE_CHECKING:
    from mcptrio.http.engine.connection import HTTPConnection

__all__ = ["MAX_BUFFERED_BYTES", "EngineExchange", "ReadingState", "WritingState"]

MAX_BUFFERED_BYTES: Final = 64 * 1024
"""Bytes of a body that may wait for the application before reading stops."""
_MAX_BATCH_BYTES: Final = 256 * 1024
"""Bytes of a streamed response after which other tasks get a turn, even if no write had to wait."""

_BODILESS: Final = frozenset({204, 304})
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


ReadingState = Enum("ReadingState", "AWAITING_100 BODY WHOLE TAKEN")
WritingState = Enum("WritingState", "IDLE HEAD BODY DONE")


class EngineExchange:
    """One request and its response on an :class:`~mcptrio.http.engine.connection.HTTPConnection`."""

    __slots__ = (
        "_body",
        "_bytes_since_checkpoint",
        "_changed",
        "_chunked",
        "_connection",
        "_continue_sent",
        "_headers",
        "_on_disconnect",
        "_remaining",
        "began",
        "buffered",
        "closes",
        "head",
        "is_gone",
        "is_kept_open",
        "is_logged",
        "note",
        "reading",
        "refusal",
        "status",
        "writing",
    )

    can_stay_open = True

    def __init__(self, connection: HTTPConnection, head: ParsedHead) -> None:
        self.head = head
        self.reading = ReadingState.AWAITING_100 if head.expects_continue else ReadingState.BODY
        self.writing = WritingState.IDLE
        self.buffered = 0
        """Bytes of the body that the application has not taken."""
        self.closes = not head.keep_alive
        """True if the connection ends with this response."""
        self.is_gone = False
        """True once the client has disconnected."""
        self.is_kept_open = False
        """True if the response continues without the application."""
        self.status = 0
        self.refusal = 0
        """The status of an invalid request, sent if the application has not responded; 0 if it is valid."""
        self._connection = connection
        is_wanted = connection.engine.access_log.wanted
        self.began = trio.current_time() if is_wanted else 0.0
        self.is_logged = not is_wanted
        """True once the access log has the line of this exchange, or if the log is off."""
        self.note = ""
        """A text that follows method and path in the access log."""
        self._body: list[bytes] = []
        self._continue_sent: trio.Event | None = None
        """Set once 100 Continue has been written. A response that begins in the meantime waits for it."""
        self._changed: trio.Event | None = None
        self._on_disconnect: Callable[[], None] | None = None
        """Called when the client disconnects."""
        self._headers: RawHeaders = ()
        """The headers of the response, in ``WritingState.HEAD``."""
        self._chunked = False
        self._remaining: int | None = None
        """Bytes that the Content-Length of the response has announced and that are not written yet."""
        self._bytes_since_checkpoint = 0
        """Bytes that were written since other tasks last got a turn."""

    # For the connection

    def feed(self, body: bytes) -> None:
        self._body.append(body)
        self.buffered += len(body)
        self.reading = ReadingState.BODY  # the client did not wait for 100 Continue
        self._wake()

    def end(self) -> None:
        """Note that the request is complete."""
        self.reading = ReadingState.WHOLE
        self._wake()

    @property
    def is_uploading(self) -> bool:
        """True while the client sends the request."""
        return self.reading is ReadingState.BODY or self.reading is ReadingState.AWAITING_100

    @property
    def is_complete(self) -> bool:
        """True once the response has been written."""
        return self.writing is WritingState.DONE

    def disconnected(self) -> None:
        """Note that the client has disconnected."""
        if not self.is_gone:
            self.is_gone = True
            self._wake()
            on_disconnect, self._on_disconnect = self._on_disconnect, None
            if on_disconnect is not None and self.writing is not WritingState.DONE:
                on_disconnect()

    # For our endpoint: HTTPExchange

    def body_now(self) -> bytes | None:
        return self._take_body() if self.reading is ReadingState.WHOLE else None

    async def read(self) -> bytes:
        if self.reading is ReadingState.TAKEN:
            return b""
        if not await self._wait_for_body():
            raise ConnectionClosed("the client has disconnected")
        return self._take_body()

    async def while_connected(self, work: Callable[[], Awaitable[object]], on_disconnect: Callable[[], None]) -> None:
        if self.is_gone:
            on_disconnect()
        else:
            self._on_disconnect = on_disconnect
        await work()

    async def respond(self, status: int, headers: RawHeaders, body: bytes = b"") -> None:
        self.begin(status, headers)
        await self.finish(body)

    def begin(self, status: int, headers: RawHeaders) -> None:
        if self.writing is not WritingState.IDLE:
            raise RuntimeError("the response has already started")
        self.writing = WritingState.HEAD
        self.status, self._headers = status, headers
        if self.reading is ReadingState.AWAITING_100:
            self.reading = ReadingState.BODY

    async def write(self, data: bytes) -> None:
        if not await self._emit(self._encode(data, more=True)):
            raise ConnectionClosed("the client does not read")

    def write_now(self, data: bytes) -> bytes | memoryview:
        encoded = self._encode(data, more=True)
        return encoded if self._continue_sent is not None else self._connection.write_now(encoded)

    async def write_rest(self, rest: bytes | memoryview) -> None:
        if self._continue_sent is not None:
            await self._continue_sent.wait()
        if not await self._connection.write_rest(rest):
            raise ConnectionClosed("the client does not read")

    async def finish(self, data: bytes = b"") -> None:
        """Send the last part of the response, and log the exchange."""
        encoded = self._encode(data, more=False)
        # Set before the write, because the connection may start the next request as soon as the last byte is sent.
        self.writing = WritingState.DONE
        await self._emit(encoded)
        # The callback refers to this request, and would keep it in memory until a garbage collection.
        self._on_disconnect = None
        if self._remaining:
            # The announced bytes will not come, and the client must not read the next response in their place.
            self._connection.cut()
        self._wake()
        if not self.is_logged:
            self._connection.finish(self)

    def keep_open(self) -> None:
        """Continue the response without the application, and drop the data of the request."""
        self.is_kept_open = True
        self.head.headers = []

    def close(self) -> None:
        self.is_kept_open = False
        self._connection.close_kept(self)

    async def refuse(self, status: int) -> None:
        """Send a response without a body if the application has not begun one. The connection ends with it."""
        self.closes = True
        if self.writing is WritingState.HEAD:
            self.writing, self._remaining, self._chunked = WritingState.IDLE, None, False
        if self.writing is WritingState.IDLE:
            await self.respond(status, ())

    # ASGI

    def scope(self) -> dict[str, Any]:
        """Return the ASGI scope of the request."""
        head, connection = self.head, self._connection
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": head.version,
            "method": head.method,
            "scheme": connection.scheme,
            "path": head.path,
            "raw_path": head.target.partition(b"?")[0],
            "query_string": head.query,
            "root_path": "",
            "headers": head.headers,
            "client": connection.client,
            "server": connection.server,
            "state": connection.engine.state.copy(),
            "extensions": {EXTENSION: self, **connection.extensions},
        }

    async def receive(self) -> MutableMapping[str, Any]:
        """Return the next part of the body; ``http.disconnect`` after the response or the client's disconnect."""
        if not await self._wait_for_body():
            return {"type": "http.disconnect"}
        body = self._take_body()
        return {"type": "http.request", "body": body, "more_body": self.reading is not ReadingState.TAKEN}

    async def send(self, event: MutableMapping[str, Any]) -> None:
        """Send an ASGI event. This is a checkpoint only if it has to wait, or if many bytes were sent without one.

        Raises:
            RuntimeError: The application breaks the rules of ASGI or HTTP.
        """
        kind = event["type"]
        if kind == "http.response.start":
            self.begin(event["status"], event.get("headers", ()))
        elif kind != "http.response.body":
            raise RuntimeError(f"ASGI message {kind} is not allowed in this state")
        elif event.get("more_body", False):
            await self._emit(self._encode(event.get("body", b""), more=True))
        else:
            await self.finish(event.get("body", b""))

    # Private

    def _take_body(self) -> bytes:
        """Return the received part of the body."""
        body, self._body = self._body, []
        self.buffered = 0
        if self.reading is ReadingState.WHOLE:
            self.reading = ReadingState.TAKEN
        self._connection.resume()
        return body[0] if len(body) == 1 else b"".join(body)

    async def _wait_for_body(self) -> bool:
        """Wait for more of the body, and return whether there is more."""
        while not self._body and self.reading is not ReadingState.WHOLE:
            if self.is_gone or self.writing is WritingState.DONE:
                return False
            if self.reading is ReadingState.AWAITING_100:
                await self._ask_for_body()
                continue
            if self._changed is None:
                self._changed = trio.Event()
            await self._changed.wait()
        return True

    async def _ask_for_body(self) -> None:
        self.reading = ReadingState.BODY
        self._continue_sent = trio.Event()
        try:
            await self._connection.write(_CONTINUE)
        finally:
            self._continue_sent.set()
            self._continue_sent = None

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def _emit(self, data: bytes) -> bool:
        """Write encoded data, and return whether the client took it."""
        if self._continue_sent is not None:
            await self._continue_sent.wait()
        is_sent = not data or await self._connection.write(data)
        if self.writing is not WritingState.DONE:
            # Each write counts as 1 KiB more, so that many small events lead to a checkpoint too.
            self._bytes_since_checkpoint += len(data) + 1024
            if self._bytes_since_checkpoint > _MAX_BATCH_BYTES:
                self._bytes_since_checkpoint = 0
                await trio.lowlevel.checkpoint()
            else:
                await trio.lowlevel.checkpoint_if_cancelled()
        return is_sent

    def _encode(self, body: bytes, *, more: bool) -> bytes:
        """Return a part of the response, after the head if that is not sent yet."""
        if self.writing is WritingState.IDLE or self.writing is WritingState.DONE:
            raise RuntimeError("http.response.body is not allowed before http.response.start or after the last part")
        head = b""
        if self.writing is WritingState.HEAD:
            head = self._encode_head(None if more else len(body))
        data = head + self._encode_body(body, more)
        if head:
            self.writing, self._headers = WritingState.BODY, ()
        return data

    def _encode_head(self, length: int | None) -> bytes:
        bodiless = self.status in _BODILESS or self.head.method == "HEAD"
        lines = [status_line(self.status)]
        is_sized = False
        for name, value in self._headers:
            if name == b"content-length":
                is_sized = True
                # RFC 9110 section 8.6: a server must not send Content-Length in a 204.
                if self.status == 204:
                    continue
                if not bodiless:
                    self._remaining = int(value)
            elif name == b"connection":
                self.closes = self.closes or value.lower() == b"close"
                continue
            # The server decides on the framing, not the application.
            elif name == b"transfer-encoding":
                continue
            lines.append(b"%b: %b\r\n" % (name, value))
        if not is_sized and not bodiless:
            if length is not None:
                lines.append(b"content-length: %d\r\n" % length)
            elif self.head.version == "1.1":
                # Only HTTP/1.1 has chunks. An HTTP/1.0 client reads until the connection is closed.
                self._chunked = True
                lines.append(b"transfer-encoding: chunked\r\n")
            else:
                self.closes = True
        # Otherwise the rest of an unread body would be parsed as the next request.
        self.closes = self.closes or self.is_uploading or self._connection.engine.is_draining
        if self.closes:
            lines.append(b"connection: close\r\n")
        elif self.head.version == "1.0":
            lines.append(b"connection: keep-alive\r\n")
        head = b"".join(lines)
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
            # Response splitting: a value with a line end could add headers or a whole response.
            raise RuntimeError("a response header contains a line end")
        return head + self._connection.engine.date()

    def _encode_body(self, body: bytes, more: bool) -> bytes:
        if self.head.method == "HEAD" or self.status in _BODILESS:
            return b""
        if self._chunked:
            part = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            return part if more else part + b"0\r\n\r\n"
        if self._remaining is not None:
            self._remaining -= len(body)
            if self._remaining < 0:
                raise RuntimeError("the response is longer than its content-length")
        return body
