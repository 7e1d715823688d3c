"""One WebSocket, for ASGI.

The connection makes it for an upgrade request, and the application calls :meth:`WebSocketExchange.receive` and
:meth:`WebSocketExchange.send`. wsproto encodes and decodes the frames. Compression is not offered, because a few
compressed bytes could become many. Both queues are bounded. While one is full, the connection is not read.

Source: RFC 6455; ASGI 3.0, WebSocket message format and the denial response extension.
"""

from __future__ import annotations

import base64
import binascii
from collections import deque
from collections.abc import MutableMapping
from math import inf
from typing import TYPE_CHECKING, Any, Final

import trio
from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Message, Ping, Pong, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError, RemoteProtocolError, generate_accept_token

from mcptrio.http.engine.engine import status_line
from mcptrio.http.engine.request_parser import ParsedHead

if TYPE_CHECKING:
    from mcptrio.http.engine.connection import HTTPConnection

__all__ = ["WebSocketExchange"]

_MAX_QUEUED_MESSAGES: Final = 64
"""Messages that may wait for the application, with at most ``message_bytes`` bytes together, before reading stops."""
_MAX_UNWRITTEN_BYTES: Final = 64 * 1024
"""Bytes of pongs that may wait behind a write of the application before reading stops."""
_ABNORMAL: Final = 1006


class WebSocketExchange:
    """A requested or open WebSocket.

    Attributes:
        early: The bytes that followed the request.
    """

    def __init__(self, connection: HTTPConnection, head: ParsedHead) -> None:
        self.head = head
        self.is_complete = False
        """True once the WebSocket has ended with a response or a close frame."""
        self.closes = True
        self.is_gone = False
        self.is_uploading = False
        self.is_kept_open = False
        self.refusal = 0
        self.began = trio.current_time()
        self.is_logged = not connection.engine.access_log.wanted
        """True once the access log has the line of this WebSocket, or if the log is off."""
        self.note = ""
        self.status = 0
        self.early = b""
        self._connection = connection
        self._frames: Frames | None = None
        """``None`` until the application has accepted."""
        self._denial: MutableMapping[str, Any] | None = None
        self._denial_body: list[bytes] = []
        self._inbox: deque[MutableMapping[str, Any]] = deque([{"type": "websocket.connect"}])
        self._message = bytearray()
        """The received part of a message; text is in UTF-8. One buffer, because a client may send many empty
        fragments."""
        self._queued = 0
        """Bytes of the messages that wait for the application."""
        self._changed = trio.Event()
        self._accepted = trio.Event()
        self._unwritten = bytearray()
        self._written: trio.Event | None = None
        """Set when the current write has ended; ``None`` if nothing is being written."""
        self._last_received = trio.current_time()
        self._pinged = inf
        """Trio clock time of a ping that the client has not answered yet; infinity if there is none."""
        self._is_read = True
        """False while :meth:`feed` handles data or waits for the application."""

    # For the connection

    def end(self) -> None:
        """Do nothing: the request has no body."""

    async def feed(self, data: bytes) -> None:
        """Handle bytes of the client. Waits until the application has accepted the WebSocket and the queue has room."""
        self._is_read = False
        if self._frames is None:
            await self._accepted.wait()
        if self._frames is not None and not self.is_complete:
            self._last_received, self._pinged = trio.current_time(), inf
            await self._receive_frames(self._frames, data)
        max_bytes = self._connection.engine.limits.message_bytes
        while (len(self._inbox) >= _MAX_QUEUED_MESSAGES or self._queued > max_bytes) and not self.is_complete:
            await self._changed.wait()
        self._is_read = True
        self._last_received = trio.current_time()

    def disconnected(self) -> None:
        """Note that the client has disconnected."""
        if not self.is_gone:
            self.is_gone = True
            self._disconnect(_ABNORMAL, "")

    def check_liveness(self, now: float) -> None:
        """Ping an idle client, and cut the connection of a client that has not answered a ping."""
        interval = self._connection.engine.limits.ping_interval
        # While the queue is full, the client's answer may be in data that is not read yet.
        if self._frames is None or self.is_complete or not self._is_read:
            return
        if now >= self._pinged + interval:
            self._connection.cut()
        elif self._pinged == inf and now >= self._last_received + interval:
            self._pinged = now
            self._connection.engine.start_soon(self._answer, self._frames.send(Ping()))

    # ASGI

    def scope(self) -> dict[str, Any]:
        head, connection = self.head, self._connection
        offered = [value.decode("latin-1") for name, value in head.headers if name == b"sec-websocket-protocol"]
        return {
            "type": "websocket",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": head.version,
            "scheme": "wss" if connection.scheme == "https" else "ws",
            "path": head.path,
            "raw_path": head.target.partition(b"?")[0],
            "query_string": head.query,
            "root_path": "",
            "headers": head.headers,
            "client": connection.client,
            "server": connection.server,
            "subprotocols": [each.strip() for value in offered for each in value.split(",") if each.strip()],
            "state": connection.engine.state.copy(),
            "extensions": {"websocket.http.response": {}, **connection.extensions},
        }

    async def receive(self) -> MutableMapping[str, Any]:
        """Return the next event: ``websocket.connect``, then messages, then ``websocket.disconnect``."""
        while not self._inbox:
            await self._changed.wait()
        event = self._inbox.popleft()
        if event["type"] == "websocket.disconnect":
            self._inbox.append(event)  # for every later call
        elif event["type"] == "websocket.receive":
            self._queued -= len(event["bytes"] if "bytes" in event else event["text"].encode())
        self._notify()
        return event

    async def send(self, event: MutableMapping[str, Any]) -> None:
        """Send one ASGI event of the application to the client.

        Raises:
            RuntimeError: The application breaks the rules of ASGI.
        """
        kind = event["type"]
        if kind == "websocket.http.response.body" and self._denial is not None and not self.is_complete:
            self._denial_body.append(event.get("body", b""))
            if not event.get("more_body", False):
                await self._respond(
                    self._denial["status"], self._denial.get("headers", ()), b"".join(self._denial_body)
                )
        elif self.is_complete or self.is_gone:
            # The client may close during the send, which is not an error.
            await trio.lowlevel.checkpoint()
        elif self._frames is not None and kind == "websocket.send":
            text, data = event.get("text"), event.get("bytes")
            message = TextMessage(text) if text is not None else BytesMessage(data if data is not None else b"")
            await self._write(self._frames.send(message))
        elif self._frames is not None and kind == "websocket.close":
            await self._close(self._frames, event.get("code", 1000), event.get("reason") or "")
        elif self._frames is None and kind == "websocket.accept":
            await self._accept(event)
        elif self._frames is None and kind == "websocket.close":
            await self.refuse(403)
        elif self._frames is None and kind == "websocket.http.response.start" and self._denial is None:
            self._denial = event
        else:
            raise RuntimeError(f"ASGI message {kind} is not allowed in this state")

    async def refuse(self, status: int) -> None:
        """Refuse the upgrade, or close the open WebSocket after a failure of the application."""
        if self.is_complete:
            return
        if self._frames is None:
            await self._respond(status, (), b"")
        else:
            await self._close(self._frames, CloseReason.INTERNAL_ERROR, "")

    # Private

    async def _accept(self, event: MutableMapping[str, Any]) -> None:
        keys = [value for name, value in self.head.headers if name == b"sec-websocket-key"]
        if [value for name, value in self.head.headers if name == b"sec-websocket-version"] != [b"13"]:
            # RFC 6455 section 4.4: the response names the version that the server supports.
            await self._respond(426, [(b"sec-websocket-version", b"13"), (b"upgrade", b"websocket")], b"")
            return
        # RFC 6455 section 4.2.1: the key is 16 bytes in Base64.
        if len(keys) != 1 or not _is_key(keys[0]):
            await self._respond(400, (), b"")
            return
        lines = [
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n",
            b"sec-websocket-accept: %b\r\n" % generate_accept_token(keys[0]),
        ]
        if event.get("subprotocol") is not None:
            lines.append(b"sec-websocket-protocol: %b\r\n" % event["subprotocol"].encode("latin-1"))
        self._frames = Frames(ConnectionType.SERVER)
        self.status = 101
        await self._write(self._head(lines, event.get("headers", ())))
        if self.early:
            await self._receive_frames(self._frames, self.early)
        self._accepted.set()

    async def _respond(self, status: int, headers: Any, body: bytes) -> None:
        self.is_complete = True
        self.status = status
        lines = [status_line(status), b"connection: close\r\ncontent-length: %d\r\n" % len(body)]
        unsized = [each for each in headers if each[0] not in (b"content-length", b"connection", b"transfer-encoding")]
        await self._write(self._head(lines, unsized) + body)
        self._disconnect(_ABNORMAL, "")

    def _head(self, lines: list[bytes], headers: Any) -> bytes:
        header_lines = [b"%b: %b\r\n" % (name, value) for name, value in headers]
        if any(line.count(b"\n") != 1 or line.count(b"\r") != 1 for line in header_lines):
            raise RuntimeError("a response header contains a line end")
        return b"".join([*lines, *header_lines]) + self._connection.engine.date()

    async def _receive_frames(self, frames: Frames, data: bytes) -> None:
        try:
            frames.receive_data(data)
            for event in frames.events():
                await self._handle_frame(frames, event)
        except RemoteProtocolError as error:
            hint = error.event_hint
            code = hint.code if isinstance(hint, CloseConnection) else CloseReason.PROTOCOL_ERROR
            await self._close(frames, code, str(error)[:100])

    async def _handle_frame(self, frames: Frames, event: object) -> None:
        if isinstance(event, Message):
            self._message += event.data.encode() if isinstance(event, TextMessage) else event.data
            if len(self._message) > self._connection.engine.limits.message_bytes:
                limit = self._connection.engine.limits.message_bytes
                await self._close(frames, CloseReason.MESSAGE_TOO_BIG, f"the limit is {limit} bytes")
                return
            if event.message_finished:
                message, self._message = self._message, bytearray()
                self._queued += len(message)
                received = {"text": message.decode()} if isinstance(event, TextMessage) else {"bytes": bytes(message)}
                self._inbox.append({"type": "websocket.receive", **received})
                self._notify()
        elif isinstance(event, Ping):
            await self._answer(frames.send(event.response()))
        elif isinstance(event, CloseConnection):
            self.is_complete = True
            await self._answer(frames.send(event.response()))
            self._disconnect(event.code, event.reason or "")
        elif isinstance(event, Pong):
            pass  # feed() has noted that the client is alive

    async def _close(self, frames: Frames, code: int, reason: str) -> None:
        if self.is_complete:
            return
        self.is_complete = True
        try:
            data = frames.send(CloseConnection(code=code, reason=reason[:100]))
        except LocalProtocolError:
            self._connection.cut()
            return
        await self._write(data)
        self._disconnect(code, reason)

    def _disconnect(self, code: int, reason: str) -> None:
        self._inbox.append({"type": "websocket.disconnect", "code": code, "reason": reason})
        self._accepted.set()
        self._notify()

    async def _write(self, data: bytes) -> None:
        """Write data, and return when all data is written."""
        self._unwritten += data
        while self._unwritten:
            if self._written is not None:
                await self._written.wait()
                continue
            await self._flush()

    async def _answer(self, data: bytes) -> None:
        """Write a control frame, after the message that is being written."""
        self._unwritten += data
        if self._written is None:
            await self._flush()
        while self._written is not None and len(self._unwritten) > _MAX_UNWRITTEN_BYTES:
            await self._written.wait()

    async def _flush(self) -> None:
        self._written = trio.Event()
        try:
            while self._unwritten:
                # A copy is written, because more data may be added during the write.
                data = bytes(self._unwritten)
                self._unwritten.clear()
                await self._connection.write(data)
        finally:
            self._written.set()
            self._written = None

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


def _is_key(key: bytes) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == 16
    except binascii.Error:
        return False
