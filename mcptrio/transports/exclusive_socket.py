"""Reads and writes a connected socket that no other code uses.

Stream channels use it for TCP and Unix sockets. A cancelled read or write has either completed, and the next call
reports it, or has done nothing.

Source: unix(7), tcp(7), ioctl_tty(2) (TIOCOUTQ is SIOCOUTQ).
"""

from __future__ import annotations

import os
import socket
import sys

import trio

from mcptrio.errors import ConnectionClosed
from mcptrio.transports.fd_streams import ATOMIC

if sys.platform == "linux":
    import fcntl
    import termios

__all__ = ["ExclusiveSocket"]

READ_BYTES = 64 * 1024

_NOTHING = bytes(4)


class ExclusiveSocket:
    """A ByteReader and ByteWriter over a socket. Not on Windows, where sockets are not file descriptors.

    Args:
        stream: The connected stream. Its socket is owned from now on.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self._socket = stream.socket
        self._fd = stream.socket.fileno()
        self._is_unix = sys.platform != "win32" and stream.socket.family == socket.AF_UNIX
        # True if only a part of a message was written, so that nothing may follow it.
        self._torn = False

    async def read(self) -> bytes:
        """Return some bytes; none if the peer has closed its side.

        Raises:
            OSError: As os.read.
            ConnectionClosed: The socket was closed here.
        """
        while True:
            self._require_open()
            try:
                await trio.lowlevel.wait_readable(self._fd)
                return os.read(self._fd, READ_BYTES)
            except BlockingIOError:
                continue  # spurious readiness, for example after a wrong checksum; select(2), "BUGS"
            except trio.ClosedResourceError as error:
                raise ConnectionClosed("the connection was closed") from error

    def write_now(self, data: memoryview) -> int:
        """Write as much as fits without blocking; return the number of bytes.

        Raises:
            OSError: As os.write.
            ConnectionClosed: The socket was closed here.
        """
        self._require_open()
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0

    def write_whole(self, data: bytes) -> bool:
        """Write all of ``data`` and return True, or write nothing and return False. Does not block or raise."""
        if self._fd < 0 or self._torn or len(data) > ATOMIC or not self._takes_whole():
            return False
        try:
            written = os.write(self._fd, data)
        except OSError:
            return False  # the next write raises the error
        self._torn = written != len(data)
        return not self._torn

    async def write_some(self, data: memoryview) -> int:
        """Write the first bytes of ``data``, waiting for room; return the number of bytes.

        Args:
            data: Not empty.

        Raises:
            OSError: As os.write.
            ConnectionClosed: The socket was closed here.
        """
        while True:
            self._require_open()
            try:
                await trio.lowlevel.wait_writable(self._fd)
                return os.write(self._fd, data)
            except BlockingIOError:
                continue
            except trio.ClosedResourceError as error:
                raise ConnectionClosed("the connection was closed") from error

    def close(self) -> None:
        """Close the socket. Pending calls raise ConnectionClosed."""
        self._fd = -1
        self._socket.close()

    def _require_open(self) -> None:
        if self._fd < 0:
            raise ConnectionClosed("the connection is closed")
        if self._torn:
            raise ConnectionClosed("the connection ends in the middle of a message")

    def _takes_whole(self) -> bool:
        """Return whether a small write is certain to be accepted completely or not at all."""
        if sys.platform == "linux":
            # On a Unix socket, a small write is one kernel buffer. TCP accepts at least a page if nothing is left to
            # send, the usual state of a socket whose peer waits for an answer.
            return self._is_unix or fcntl.ioctl(self._fd, termios.TIOCOUTQ, _NOTHING) == _NOTHING
        return False
