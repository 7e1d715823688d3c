"""Writes to a pipe whose writing end no other process shares.

Child channels use it for the standard input of the child. :mod:`mcptrio.transports.fd_streams` handles descriptors that
may be shared. A cancelled write has either completed, and the next call reports it, or has done nothing.

Source: pipe(7); fcntl(2), O_NONBLOCK.
"""

from __future__ import annotations

import os
import sys

import trio

from mcptrio.errors import ConnectionClosed
from mcptrio.transports.fd_streams import ATOMIC, ByteWriter, ThreadWriter

__all__ = ["ExclusivePipeWriter", "open_exclusive_pipe_writer"]


def open_exclusive_pipe_writer(fd: int) -> ByteWriter:
    """Return a writer that owns ``fd``."""
    if sys.platform == "win32":
        # Windows cannot wait for room in a pipe.
        return ThreadWriter(fd)
    # Safe because this process created the pipe and keeps this end; the reading end does not notice. The pipe then
    # accepts all it has room for: 60 kB in one write, instead of 15 writes with a poll before each.
    os.set_blocking(fd, False)
    return ExclusivePipeWriter(fd)


class ExclusivePipeWriter:
    """Writes as much as fits in one call. See :class:`mcptrio.transports.fd_streams.ByteWriter`.

    Args:
        fd: A descriptor with O_NONBLOCK set. Owned from now on.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write_now(self, data: memoryview) -> int:
        """Write as much as fits without blocking; return the number of bytes.

        Raises:
            OSError: As os.write.
            ConnectionClosed: The writer was closed.
        """
        if self._fd < 0:
            raise ConnectionClosed("the descriptor is closed")
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0

    def write_whole(self, data: bytes) -> bool:
        """Write all of ``data`` and return True, or write nothing and return False. Does not block or raise."""
        if self._fd < 0 or len(data) > ATOMIC:
            return False
        try:
            # pipe(7): a nonblocking write of at most PIPE_BUF bytes is all or nothing.
            return os.write(self._fd, data) == len(data)
        except OSError:
            return False

    async def write_some(self, data: memoryview) -> int:
        """Write the first bytes of ``data``, waiting for room; return the number of bytes.

        Args:
            data: Not empty.

        Raises:
            OSError: As os.write.
            ConnectionClosed: The writer was closed.
        """
        while True:
            if self._fd < 0:
                raise ConnectionClosed("the descriptor is closed")
            try:
                await trio.lowlevel.wait_writable(self._fd)
                return os.write(self._fd, data)
            except BlockingIOError:
                continue  # less room than the kernel requires for this write
            except trio.ClosedResourceError as error:
                raise ConnectionClosed("the descriptor was closed") from error

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            trio.lowlevel.notify_closing(fd)
            os.close(fd)
