"""Reads and writes descriptors that no other process uses: the writing end of a child's pipe, and connected sockets.

Child channels use :class:`ExclusiveWriter` for the child's standard input, and stream channels use
:class:`ExclusiveSocket` for TCP and Unix sockets. :mod:`mcptrio.transports.fd_streams` has the interfaces, and handles
descriptors that may be shared. A cancelled read or write has either completed, and the next call reports it, or has
done nothing.

Source: pipe(7); fcntl(2), O_NONBLOCK; unix(7), tcp(7), ioctl_tty(2) (TIOCOUTQ is SIOCOUTQ).
"""

from __future__ import annotations

import os
import socket
import sys

import trio

from mcptrio.errors import ConnectionClosed
from mcptrio.transports.fd_streams import ATOMIC, ByteWriter, PollableDescriptor, ThreadWriter, WaitingReader

if sys.platform == "linux":
    import fcntl
    import termios

__all__ = ["ExclusiveSocket", "ExclusiveWriter", "open_exclusive_pipe_writer"]

_NOTHING_QUEUED = bytes(4)
"""The result of TIOCOUTQ for a socket whose data has all been sent: an int with the value 0."""


def open_exclusive_pipe_writer(fd: int) -> ByteWriter:
    """Return a writer that owns ``fd``."""
    if sys.platform == "win32":
        # Windows cannot wait for room in a pipe.
        return ThreadWriter(fd)
    # This is safe because this process has created the pipe, and only it uses this end; the flag does not affect the
    # other end. One write then takes all that fits: 60 kB in one write, instead of 15 writes with a poll before each.
    os.set_blocking(fd, False)
    return ExclusiveWriter(fd)


class ExclusiveWriter(PollableDescriptor):
    """Writes as much as fits in one call, to a descriptor with O_NONBLOCK set."""

    def write_now(self, data: memoryview) -> int:
        self._require_open()
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0

    def write_whole(self, data: bytes) -> bool:
        if self._fd < 0 or len(data) > ATOMIC:
            return False
        try:
            # pipe(7): a nonblocking write of at most PIPE_BUF bytes is all or nothing.
            return os.write(self._fd, data) == len(data)
        except OSError:
            return False

    async def write_some(self, data: memoryview) -> int:
        while True:
            self._require_open()
            try:
                await trio.lowlevel.wait_writable(self._fd)
                return os.write(self._fd, data)
            except BlockingIOError:
                continue  # the pipe has less room than the kernel requires for this write
            except trio.ClosedResourceError as error:
                raise ConnectionClosed(f"the {self.what} was closed") from error


class ExclusiveSocket(WaitingReader, ExclusiveWriter):
    """A reader and writer of a socket. Not on Windows, where sockets are not file descriptors.

    Args:
        stream: The connected stream. Its socket is owned from now on.
    """

    what = "connection"

    def __init__(self, stream: trio.SocketStream) -> None:
        super().__init__(stream.socket.fileno())
        self._socket = stream.socket
        self._is_unix = sys.platform != "win32" and stream.socket.family == socket.AF_UNIX
        self._is_incomplete = False
        """True if only a part of a message was written. Nothing may follow it."""

    def write_whole(self, data: bytes) -> bool:
        if self._fd < 0 or self._is_incomplete or len(data) > ATOMIC or not self._takes_whole():
            return False
        try:
            written = os.write(self._fd, data)
        except OSError:
            return False  # the next write raises the error
        self._is_incomplete = written != len(data)
        return not self._is_incomplete

    def close(self) -> None:
        self._fd = -1
        self._socket.close()

    def _require_open(self) -> None:
        super()._require_open()
        if self._is_incomplete:
            raise ConnectionClosed("the connection ends in the middle of a message")

    def _takes_whole(self) -> bool:
        """Return whether the socket accepts a small write either completely or not at all."""
        if sys.platform == "linux":
            # A small write to a Unix socket is one kernel buffer. TCP accepts at least a page if nothing is queued,
            # which is the usual state of a socket whose peer waits for an answer.
            return self._is_unix or fcntl.ioctl(self._fd, termios.TIOCOUTQ, _NOTHING_QUEUED) == _NOTHING_QUEUED
        return False
