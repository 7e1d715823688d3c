"""The writing end of a pipe that nobody else writes to.

Used for the standard input of a child process. Descriptors that come from somebody else are the business of
:mod:`mcptrio.transports.fd_streams`. This end was opened here, so it may be set to O_NONBLOCK, which the other end
does not notice; then it takes at once whatever there is room for: 60 kB are one write, and not 15 after a poll each.
The one rule: a cancelled write has either happened and is told by the next one, or has not happened.

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
    """A writer that owns ``fd``: a thread where pipes cannot be waited for."""
    if sys.platform == "win32":
        return ThreadWriter(fd)
    os.set_blocking(fd, False)
    return ExclusivePipeWriter(fd)


class ExclusivePipeWriter:
    """Writes in one go what there is room for. See :class:`mcptrio.transports.fd_streams.ByteWriter`.

    Args:
        fd: set to O_NONBLOCK; owned from now on.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write_now(self, data: memoryview) -> int:
        """Write what there is room for, and return how many bytes that were. Never waits.

        Raises:
            OSError: as os.write.
            ConnectionClosed: the writer was closed.
        """
        if self._fd < 0:
            raise ConnectionClosed("the descriptor is closed")
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0

    def write_whole(self, data: bytes) -> bool:
        """Write all of ``data`` or nothing, and return whether it was written. Never waits, never raises."""
        if self._fd < 0 or len(data) > ATOMIC:
            return False
        try:
            return os.write(self._fd, data) == len(data)
        except OSError:
            return False

    async def write_some(self, data: memoryview) -> int:
        """Write the first bytes of ``data``, which is not empty, and return how many. Waits until there is room.

        Raises:
            OSError: as os.write.
            ConnectionClosed: the writer was closed.
        """
        while True:
            if self._fd < 0:
                raise ConnectionClosed("the descriptor is closed")
            try:
                await trio.lowlevel.wait_writable(self._fd)
                return os.write(self._fd, data)
            except BlockingIOError:
                continue  # less room than the kernel asks for before it takes a short write
            except trio.ClosedResourceError as error:
                raise ConnectionClosed("the descriptor was closed") from error

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            trio.lowlevel.notify_closing(fd)
            os.close(fd)
