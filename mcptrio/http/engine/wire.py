"""The byte stream of one connection: a plain socket, or TLS on a socket.

The connection owns it. One task reads and one task writes. :meth:`Wire.cut` ends their waits.

Source: RFC 8446 section 6.1 (the end of a TLS connection).
"""

from __future__ import annotations

import socket
import ssl
from typing import Final, Protocol

import trio

from mcptrio.ground.traffic import TRAFFIC

__all__ = ["CLOSE_TIMEOUT", "PlainWire", "TLSWire", "Wire"]

MAX_READ_BYTES: Final = 64 * 1024
"""Maximum bytes of one read, and therefore of the data that is parsed and queued at once."""
CLOSE_TIMEOUT: Final = 1.0
"""Seconds for the closing message of TLS."""


class Wire(Protocol):
    @property
    def tls(self) -> trio.SSLStream[trio.SocketStream] | None: ...

    async def begin(self) -> None:
        """Perform the TLS handshake.

        Raises:
            OSError, trio.BrokenResourceError: The handshake failed, or :meth:`cut` was called.
        """
        ...

    async def receive(self) -> bytes:
        """Return received bytes; empty if the peer has closed its side, or the connection broke or was cut."""
        ...

    def send_now(self, data: bytes) -> bytes | memoryview:
        """Send as much as the socket accepts, and return the rest. Does not block or raise."""
        ...

    def send_in_the_clear(self, data: bytes) -> None:
        """Send as much as the socket accepts, without TLS, after a failed handshake."""
        ...

    async def send(self, data: bytes | memoryview) -> bool:
        """Send all data, and return whether that was possible. If the call is cancelled, a part may have been sent."""
        ...

    def half_close(self) -> None:
        """Tell the peer that nothing more will be sent."""
        ...

    def cut(self) -> None:
        """Close the socket at once. All waits for it end."""
        ...

    async def close(self) -> None:
        """Close cleanly. Call it under a shield, for at most :data:`CLOSE_TIMEOUT` seconds."""
        ...


class PlainWire:
    """A connection without TLS.

    Args:
        sock: The connected, non-blocking socket, which the wire owns from now on.
    """

    __slots__ = ("_sock", "tls")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.tls = None

    async def begin(self) -> None:
        """Do nothing: a plain socket has no handshake."""

    async def receive(self) -> bytes:
        # Wait before the first read: usually there is no data yet, and a failed read costs more than the wait.
        try:
            while self._sock.fileno() >= 0:
                await trio.lowlevel.wait_readable(self._sock)
                try:
                    data = self._sock.recv(MAX_READ_BYTES)
                except BlockingIOError:
                    continue
                TRAFFIC.received += len(data)
                return data
        except (OSError, trio.ClosedResourceError):
            pass
        return b""

    def send_now(self, data: bytes) -> bytes | memoryview:
        try:
            sent = self._sock.send(data)
        except OSError:
            return data
        TRAFFIC.sent += sent
        return b"" if sent == len(data) else memoryview(data)[sent:]

    def send_in_the_clear(self, data: bytes) -> None:
        self.send_now(data)

    async def send(self, data: bytes | memoryview) -> bool:
        rest = memoryview(data)
        try:
            while rest and self._sock.fileno() >= 0:
                await trio.lowlevel.wait_writable(self._sock)
                try:
                    sent = self._sock.send(rest)
                except BlockingIOError:
                    continue
                TRAFFIC.sent += sent
                rest = rest[sent:]
        except (OSError, trio.ClosedResourceError):
            return False
        return not rest

    def half_close(self) -> None:
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the peer has closed the connection

    def cut(self) -> None:
        if self._sock.fileno() >= 0:
            # Wakes the reading and the writing task.
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()

    async def close(self) -> None:
        self.cut()


class TLSWire:
    """A connection with TLS.

    Args:
        sock: The connected socket, as for :class:`PlainWire`.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._socket = trio.socket.from_stdlib_socket(sock)
        self.tls: trio.SSLStream[trio.SocketStream] = trio.SSLStream(
            trio.SocketStream(self._socket), context, server_side=True, https_compatible=True
        )

    async def begin(self) -> None:
        await self.tls.do_handshake()

    async def receive(self) -> bytes:
        try:
            data = bytes(await self.tls.receive_some(MAX_READ_BYTES))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return b""
        TRAFFIC.received += len(data)
        return data

    def send_now(self, data: bytes) -> bytes | memoryview:
        # TLS encrypts a record before it sends it, so nothing can be taken back if the socket is full.
        return data

    def send_in_the_clear(self, data: bytes) -> None:
        try:
            # A duplicate of the socket is used, because Trio's sockets only send asynchronously.
            with self._socket.dup() as sock, socket.socket(fileno=sock.detach()) as plain:
                plain.setblocking(False)
                plain.send(data)
        except OSError:
            pass  # the client has closed the connection

    async def send(self, data: bytes | memoryview) -> bool:
        try:
            await self.tls.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        TRAFFIC.sent += len(data)
        return True

    def half_close(self) -> None:
        """Do nothing: a TLS connection is closed as a whole."""

    def cut(self) -> None:
        self._socket.close()

    async def close(self) -> None:
        try:
            await self.tls.aclose()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self._socket.close()
