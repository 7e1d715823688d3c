"""One request and its response, as ASGI has them.

Made by the connection for each head; the application calls :meth:`Exchange.receive` and :meth:`Exchange.send`.
The one rule: what is written is one well-formed response, or the connection ends.

An application that knows us finds this object under :data:`EXTENSION` in the scope's extensions, and needs no task that
waits for the client to leave: it asks to be told (:meth:`Exchange.on_disconnect`). Writes are bounded here. Nor does it
need one for a response that goes on for hours and says little: it writes some without waiting
(:meth:`Exchange.write_now`), and returns while the response stays open (:meth:`Exchange.part`).

Source: ASGI 3.0, HTTP message format; RFC 9110 sections 8.6, 10.1.1, 15; RFC 9112 sections 6 and 7.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Final

import trio

from mcptrio.http.engine.request_parser import Head
from mcptrio.http.extension import EXTENSION

if TYPE_CHECKING:
    from mcptrio.http.engine.connection import Connection

__all__ = ["BUFFER", "Exchange"]

BUFFER: Final = 64 * 1024
"""Bytes of a body that wait for the application; then no more are read."""
_BREATH: Final = 256 * 1024
"""Bytes of a streamed response after which others get a turn, though the client takes all that is sent."""

_BODILESS: Final = frozenset({204, 304})
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class Exchange:
    __slots__ = (
        "_body",
        "_callback",
        "_chunked",
        "_connection",
        "_continued",
        "_ended",
        "_interim",
        "_left",
        "_news",
        "_received",
        "_start",
        "_unbroken",
        "began",
        "buffered",
        "closes",
        "complete",
        "gone",
        "head",
        "is_logged",
        "note",
        "parted",
        "refusal",
        "status",
    )

    def __init__(self, connection: Connection, head: Head) -> None:
        self.head = head
        self.buffered = 0
        """Bytes of the body that the application has not taken."""
        self.closes = not head.keep_alive
        """Whether the connection ends with this response."""
        self.complete = False
        """Whether the response has been written."""
        self.gone = False
        """Whether the client has left."""
        self.parted = False
        """Whether the response goes on without the application."""
        self.status = 0
        self.refusal = 0
        """The status to answer with if the application does not, where the request turned out to be none."""
        self._connection = connection
        is_wanted = connection.is_logged
        self.began = trio.current_time() if is_wanted else 0.0
        self.is_logged = not is_wanted
        """Whether the access log has its line, or wants none."""
        self.note = ""
        """What the access log says of it besides method and path."""
        self._body: list[bytes] = []
        self._ended = False
        self._received = False
        """Whether the application has taken all of the body."""
        self._continued = not head.expects_continue
        """Whether 100 Continue was sent, or is not to be sent any more."""
        self._interim: trio.Event | None = None
        """Set once 100 Continue has been written; a response that begins meanwhile waits for it."""
        self._news: trio.Event | None = None
        self._callback: Callable[[], None] | None = None
        self._start: MutableMapping[str, Any] | None = None
        """The beginning of the response, until there is something to send it with."""
        self._chunked = False
        self._left: int | None = None
        """Bytes of the response that its Content-Length still promises."""
        self._unbroken = 0

    # What the connection tells

    def feed(self, body: bytes) -> None:
        self._body.append(body)
        self.buffered += len(body)
        self._continued = True  # the client did not wait
        self._wake()

    def end(self) -> None:
        """The request is complete."""
        self._ended = self._continued = True
        self._wake()

    @property
    def awaits_continue(self) -> bool:
        """Whether the client waits to be asked for the body."""
        return not self._continued

    @property
    def is_uploading(self) -> bool:
        """Whether the client still sends the request."""
        return not self._ended

    def leave(self) -> None:
        """The client has left."""
        if not self.gone:
            self.gone = True
            self._wake()
            callback, self._callback = self._callback, None
            if callback is not None and not self.complete:
                callback()

    # What an application that knows us may use

    def body_now(self) -> bytes | None:
        """The whole body, if it is here and nothing of it has been taken. Then ``receive`` gives it no more."""
        if not self._ended or self._received:
            return None
        self._received = True
        self.buffered = 0
        body, self._body = self._body, []
        return body[0] if len(body) == 1 else b"".join(body)

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """Call it once, when the client leaves before the response is complete; at once if it has left. Not async."""
        if self.gone:
            callback()
        else:
            self._callback = callback

    def begin(self, event: MutableMapping[str, Any]) -> None:
        """``http.response.start``; it goes out with what follows."""
        if self._start is not None or self.status:
            raise RuntimeError("the response has started already")
        self._start = event
        self.status = event["status"]
        # 100 Continue in the middle of the final response would break it.
        self._continued = True

    def write_now(self, body: bytes) -> bytes | memoryview:
        """Write a part of a response that has begun, or as much of it as the client takes now. Never waits.

        Returns:
            What is left, for :meth:`write_rest`, before anything else is written.
        """
        if not self.status or self.complete:
            raise RuntimeError("a part of a response is not expected here")
        data = b""
        if self._start is not None:
            data = self._encode_head(self._start, None)
            self._start = None
        data += self._encode_body(body, True)
        return data if self._interim is not None else self._connection.write_now(data)

    async def write_rest(self, rest: bytes | memoryview) -> None:
        """Bounded as every write; a client that has left is told nothing."""
        if self._interim is not None:
            await self._interim.wait()
        await self._connection.write_rest(rest)

    def part(self) -> None:
        """The application returns, and what it has begun goes on until :meth:`over`. The request is forgotten."""
        self.parted = True
        self.head.headers = []

    def over(self) -> None:
        """A response that was parted with is complete; or it never will be, and the connection ends."""
        self._connection.over(self)

    # ASGI

    def scope(self) -> dict[str, Any]:
        """The ASGI scope of this request."""
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
            "state": connection.state.copy(),
            "extensions": {EXTENSION: self, **connection.extensions},
        }

    async def receive(self) -> MutableMapping[str, Any]:
        """The next part of the body, or ``http.disconnect`` when the response is complete or the client has left."""
        while not self._body and (self._received or not self._ended):
            if self.gone or self.complete:
                return {"type": "http.disconnect"}
            if not self._continued:
                await self._ask_for_body()
                continue
            if self._news is None:
                self._news = trio.Event()
            await self._news.wait()
        body, self._body = b"".join(self._body), []
        self.buffered = 0
        self._received = self._ended
        self._connection.resume()
        return {"type": "http.request", "body": body, "more_body": not self._ended}

    async def send(self, event: MutableMapping[str, Any]) -> None:
        """A checkpoint only where it has to wait, or has not waited for long.

        Raises:
            RuntimeError: the application breaks the rules of ASGI or HTTP.
        """
        kind = event["type"]
        if kind == "http.response.start":
            self.begin(event)
            return
        if kind != "http.response.body" or not self.status or self.complete:
            raise RuntimeError(f"{kind} is not expected here")
        body: bytes = event.get("body", b"")
        more: bool = event.get("more_body", False)
        data = b""
        if self._start is not None:
            data = self._encode_head(self._start, None if more else len(body))
            self._start = None
        data += self._encode_body(body, more)
        self.complete = not more
        if data:
            if self._interim is not None:
                await self._interim.wait()
            await self._connection.write(data)
        if more:
            self._unbroken += len(data) + 1024
            if self._unbroken > _BREATH:
                self._unbroken = 0
                await trio.lowlevel.checkpoint()
            else:
                await trio.lowlevel.checkpoint_if_cancelled()
        else:
            # Who is told of the client's leaving holds this request, and would be held by it until a collection.
            self._callback = None
            if self._left:
                # What was promised will never come; the client must not take the next response for it.
                self._connection.cut()
            self._wake()
            if not self.is_logged:
                self._connection.finish(self)

    async def refuse(self, status: int) -> None:
        """A response without a body, where the application has not begun one; the connection ends with it."""
        self.closes = True
        if self._start is not None:
            self._start, self.status, self._left, self._chunked = None, 0, None, False
        if not self.status:
            await self.send({"type": "http.response.start", "status": status, "headers": []})
            await self.send({"type": "http.response.body"})

    # Private

    async def _ask_for_body(self) -> None:
        self._continued = True
        self._interim = trio.Event()
        try:
            await self._connection.write(_CONTINUE)
        finally:
            self._interim.set()
            self._interim = None

    def _wake(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = None

    def _encode_head(self, start: MutableMapping[str, Any], length: int | None) -> bytes:
        status: int = start["status"]
        bodiless = status in _BODILESS or self.head.method == "HEAD"
        lines = [self._connection.status_line(status)]
        is_sized = False
        for name, value in start.get("headers", ()):
            if name == b"content-length":
                is_sized = True
                if status == 204:
                    continue
                if not bodiless:
                    self._left = int(value)
            elif name == b"connection":
                self.closes = self.closes or value.lower() == b"close"
                continue
            elif name == b"transfer-encoding":
                continue
            lines.append(b"%b: %b\r\n" % (name, value))
        if not is_sized and not bodiless:
            if length is not None:
                lines.append(b"content-length: %d\r\n" % length)
            elif self.head.version == "1.1":
                self._chunked = True
                lines.append(b"transfer-encoding: chunked\r\n")
            else:
                self.closes = True
        # A request that is still being sent cannot be followed by another one.
        self.closes = self.closes or not self._ended or self._connection.draining
        if self.closes:
            lines.append(b"connection: close\r\n")
        elif self.head.version == "1.0":
            lines.append(b"connection: keep-alive\r\n")
        head = b"".join(lines)
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
            raise RuntimeError("a response header holds a line end")
        return head + self._connection.date()

    def _encode_body(self, body: bytes, more: bool) -> bytes:
        if self.head.method == "HEAD" or self.status in _BODILESS:
            return b""
        if self._chunked:
            part = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            return part if more else part + b"0\r\n\r\n"
        if self._left is not None:
            self._left -= len(body)
            if self._left < 0:
                raise RuntimeError("the response is longer than its content-length")
        return body
