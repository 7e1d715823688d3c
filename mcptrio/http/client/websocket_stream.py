"""The byte stream below a client's WebSocket, for trio-websocket.

:mod:`mcptrio.http.client.websocket` makes it. After an incomplete frame, the stream sends nothing more: trio-websocket
can be cancelled in the middle of a frame, and the server would read the next frame as the rest of that one.

The stream also records what trio-websocket does not report: when the last byte was received, that the connection ended
during the handshake, and the HTTP response that came instead of the handshake.

Source: RFC 6455 section 5.2; RFC 9112 section 6.3.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import h11
import trio

from mcptrio.errors import RequestFailed
from mcptrio.http.client.responses import MAX_ERROR_BODY_BYTES, refusal
from mcptrio.http.headers import Headers

__all__ = ["WRITE_TIMEOUT", "WebSocketStream"]

WRITE_TIMEOUT: Final = 30.0
"""Seconds without progress of a write, after which the connection is regarded as broken."""

_MAX_READ_BYTES: Final = 64 * 1024
_CLOSE_REASON_TIMEOUT: Final = 0.5
"""Seconds for reading the server's close frame after a failed write."""


class WebSocketStream(trio.abc.Stream):
    """The stream of one WebSocket.

    Args:
        stream: The stream for the protocol.
        socket_stream: The socket below it, which :meth:`close` closes.

    Attributes:
        last_received: The Trio clock time at which the last byte was received.
        opened: True if the handshake is complete. Earlier bytes are kept, up to a limit.
        ended: Set when no more bytes follow.
        problem: The server's error, if any.
    """

    def __init__(self, stream: trio.abc.Stream, socket_stream: trio.SocketStream) -> None:
        self._stream = stream
        self._socket = socket_stream.socket
        self._is_cut_off = False
        self._head = bytearray()
        self.last_received = trio.current_time()
        self.opened = False
        self.ended = trio.Event()
        self.problem: str | None = None

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_cut_off:
            raise trio.BrokenResourceError("a message was cut off")
        rest = memoryview(data)
        self._is_cut_off = True
        with suppress(trio.BrokenResourceError), trio.move_on_after(WRITE_TIMEOUT) as scope:
            while rest:
                await self._stream.send_all(rest[:_MAX_READ_BYTES])
                rest = rest[_MAX_READ_BYTES:]
                scope.deadline = trio.current_time() + WRITE_TIMEOUT
            self._is_cut_off = False
        if self._is_cut_off:
            if scope.cancelled_caught:
                self.problem = f"the server has read nothing for {WRITE_TIMEOUT:g} s"
            else:
                with trio.move_on_after(_CLOSE_REASON_TIMEOUT):
                    await self.ended.wait()
            raise trio.BrokenResourceError(self.problem or "the connection broke")

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        data = b""
        try:
            data = bytes(await self._stream.receive_some(max_bytes))
        finally:
            if not data:
                self.ended.set()
        self.last_received = trio.current_time()
        if not self.opened:
            # Kept for refusal(), which explains a failed handshake.
            self._head += data
            if len(self._head) > MAX_ERROR_BODY_BYTES:
                self.ended.set()
                raise trio.BrokenResourceError(
                    f"the answer to the handshake has more than {MAX_ERROR_BODY_BYTES} bytes"
                )
        return data

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close the socket, so that waiting tasks get an error. WebSocket replaces the closing message of TLS."""
        self.ended.set()
        self._socket.close()

    def refusal(self) -> tuple[RequestFailed, Headers]:
        """Return the reason why there is no WebSocket, from the HTTP response that came instead, and its headers."""
        if not self._head:
            return RequestFailed("the server closed the connection without an answer"), Headers()
        http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_ERROR_BODY_BYTES)
        upgrade = [("Host", "there"), ("Connection", "upgrade"), ("Upgrade", "websocket")]
        http.send(h11.Request(method="GET", target="/", headers=upgrade))
        http.send(h11.EndOfMessage())
        http.receive_data(bytes(self._head))
        try:
            event = http.next_event()
        except h11.RemoteProtocolError:
            return RequestFailed("expected a WebSocket, got data that is not HTTP"), Headers()
        if isinstance(event, h11.InformationalResponse):
            return RequestFailed(f"HTTP {event.status_code}: the WebSocket handshake is wrong"), Headers.of(
                event.headers
            )
        if not isinstance(event, h11.Response):
            return RequestFailed("expected a WebSocket, got an incomplete or too large answer"), Headers()
        headers = Headers.of(event.headers)
        if event.status_code < 300:
            text = f"HTTP {event.status_code}: expected a WebSocket, got a page"
            return RequestFailed(text, status=event.status_code), headers
        return refusal(event.status_code, headers, _body(http)), headers


def _body(http: h11.Connection) -> bytes:
    """Return the received part of the body."""
    body = b""
    try:
        while isinstance(part := http.next_event(), h11.Data):
            body += part.data
    except h11.RemoteProtocolError:
        pass  # the body is incomplete, and the status is enough
    return body
