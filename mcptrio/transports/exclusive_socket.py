"""The bytes of a connected socket that nobody else reads or writes.

Used for connections over TCP and Unix sockets, on a channel of lines. A reader and a writer at once, closed once.
The one rule: a cancelled read or write has either happened and is told by the next one, or has not happened.

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
    """See :class:`mcptrio.transports.fd_streams.ByteReader` and ``Writer``. Not on Windows, where sockets are no files.

    Args:
        stream: its socket is owned from now on.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self._socket = stream.socket
        self._fd = stream.socket.fileno()
        self._is_unix = sys.platform != "win32" and stream.socket.family == socket.AF_UNIX
        self._torn = False
        """Whether a message was written in part that was to be written whole."""

    async def read(self) -> bytes:
        """Some bytes; none where the peer sends nothing more.

        Raises:
            OSError: as os.read.
            ConnectionClosed: it was closed here.
        """
        while True:
            self._require_open()
            try:
                await trio.lowlevel.wait_readable(self._fd)
                return os.read(self._fd, READ_BYTES)
            except BlockingIOError:
                continue  # a checksum was wrong, say
            except trio.ClosedResourceError as error:
                raise ConnectionClosed("the connection was closed") from error

    def write_now(self, data: memoryview) -> int:
        """Write what there is room for, and return how many bytes that were. Never waits.

        Raises:
            OSError: as os.write.
            ConnectionClosed: it was closed here.
        """
        self._require_open()
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0

    def write_whole(self, data: bytes) -> bool:
        """Write all of ``data`` or nothing, and return whether it was written. Never waits, never raises."""
        if self._fd < 0 or self._torn or len(data) > ATOMIC or not self._takes_whole():
            return False
        try:
            written = os.write(self._fd, data)
        except OSError:
            return False  # the next write tells
        self._torn = written != len(data)
        return not self._torn

    async def write_some(self, data: memoryview) -> int:
        """Write the first bytes of ``data``, which is not empty, and return how many. Waits until there is room.

        Raises:
            OSError: as os.write.
            ConnectionClosed: it was closed here.
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
        """Close the socket. Whoever waits in it gets ConnectionClosed."""
        self._fd = -1
        self._socket.close()

    def _require_open(self) -> None:
        if self._fd < 0:
            raise ConnectionClosed("the connection is closed")
        if self._torn:
            raise ConnectionClosed("the connection ends in the middle of a message")

    def _takes_whole(self) -> bool:
        """Whether a small write is taken as a whole or not at all.

        On a Unix socket it is one buffer of the kernel's. On TCP the kernel promises a page to a socket that has
        nothing left to send, which is what a peer that waits for an answer makes it.
        """
        if sys.platform == "linux":
            return self._is_unix or fcntl.ioctl(self._fd, termios.TIOCOUTQ, _NOTHING) == _NOTHING
        return False
