"""Reads and writes bytes on any file descriptor without blocking the event loop or the exit of the process.

The stdio transport uses it for inherited descriptors, which may lead to a pipe, socket, terminal or file. A descriptor
that can be polled is polled; any other gets a thread. A cancelled read or write has either completed, and the next call
reports it, or has done nothing.

Source: select(2), pipe(7); the select module, "PIPE_BUF"; Trio 0.35, trio.lowlevel.FdStream (its warning).
"""

from __future__ import annotations

import os
import select
import stat
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, Protocol, TypeVar

import outcome
import trio

from mcptrio.errors import ConnectionClosed
from mcptrio.ground.traffic import TRAFFIC

# This module never sets O_NONBLOCK. The flag belongs to the open file description, which the parent, the shell or this
# process's own standard error may share.

__all__ = [
    "ATOMIC",
    "ByteReader",
    "ByteWriter",
    "PollableDescriptor",
    "ThreadReader",
    "ThreadWriter",
    "WaitingReader",
    "WaitingWriter",
    "open_reader",
    "open_writer",
]

READ_BYTES = 64 * 1024
"""Bytes of one read: the capacity of a pipe on Linux."""

ATOMIC = getattr(select, "PIPE_BUF", 512)
"""Bytes that a pipe or socket accepts without blocking after a poll has reported it as writable. A pipe accepts them
completely or not at all."""

_A = TypeVar("_A")
_B = TypeVar("_B")


class ByteReader(Protocol):
    """Reads bytes from a descriptor."""

    async def read(self) -> bytes:
        """Return some bytes; an empty value at the end of the file.

        Raises:
            OSError: os.read has failed.
            ConnectionClosed: The reader was closed.
        """
        ...

    def close(self) -> None: ...


class ByteWriter(Protocol):
    """Writes bytes to a descriptor."""

    def write_now(self, data: memoryview) -> int:
        """Write as much as fits without blocking, possibly nothing; return the number of bytes.

        Raises:
            OSError: os.write has failed.
            ConnectionClosed: The writer was closed.
        """
        ...

    def write_whole(self, data: bytes) -> bool:
        """Write all of ``data`` and return True, or write nothing and return False. Does not block or raise."""
        ...

    async def write_some(self, data: memoryview) -> int:
        """Write the first bytes of ``data``; return the number of bytes.

        If this is cancelled, the write may still complete, so the next call must pass the same data.

        Args:
            data: At least one byte.

        Raises:
            OSError: os.write has failed.
            ConnectionClosed: The writer was closed.
        """
        ...

    def close(self) -> None: ...


def open_reader(fd: int) -> ByteReader:
    """Return a reader that owns ``fd``, of the class that fits its file type."""
    return WaitingReader(fd) if _is_pollable(fd) else ThreadReader(fd)


def open_writer(fd: int, *, shared: bool = False) -> ByteWriter:
    """Return a writer that owns ``fd``, of the class that fits its file type.

    Args:
        shared: Other processes may write to the same pipe, so a poll does not guarantee room.
    """
    # A poll reports a terminal as writable even if it has room for a single byte only.
    return ThreadWriter(fd) if shared or not _is_pollable(fd) or os.isatty(fd) else WaitingWriter(fd)


class PollableDescriptor:
    """A descriptor that can be polled. Owned until :meth:`close`."""

    what = "descriptor"
    """The name of the descriptor in errors."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            trio.lowlevel.notify_closing(fd)
            os.close(fd)

    def _require_open(self) -> None:
        if self._fd < 0:
            raise ConnectionClosed(f"the {self.what} is closed")


class WaitingReader(PollableDescriptor):
    """Reads a pipe, socket or terminal when it is readable."""

    async def read(self) -> bytes:
        while True:
            self._require_open()
            try:
                await trio.lowlevel.wait_readable(self._fd)
                data = os.read(self._fd, READ_BYTES)
                TRAFFIC.received += len(data)
                return data
            except BlockingIOError:
                # Another process has set O_NONBLOCK and read the bytes first, or the readiness was spurious, as
                # after a wrong checksum; select(2), "BUGS".
                continue
            except trio.ClosedResourceError as error:
                raise ConnectionClosed(f"the {self.what} was closed") from error


class WaitingWriter(PollableDescriptor):
    """Writes to a pipe or socket when it has room, in pieces of at most ``ATOMIC`` bytes."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._is_pipe = stat.S_ISFIFO(os.fstat(fd).st_mode)
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def write_now(self, data: memoryview) -> int:
        written = 0
        self._require_open()
        try:
            while written < len(data) and self._poll.poll(0):
                written += os.write(self._fd, data[written : written + ATOMIC])
        except BlockingIOError:
            pass  # another process has filled the pipe first
        TRAFFIC.sent += written
        return written

    def write_whole(self, data: bytes) -> bool:
        if self._fd < 0 or len(data) > ATOMIC or not self._poll.poll(0):
            return False
        try:
            # A socket on which another process has set O_NONBLOCK may accept a part.
            if not (self._is_pipe or os.get_blocking(self._fd)):
                return False
            written = os.write(self._fd, data)
            TRAFFIC.sent += written
            return written == len(data)
        except OSError:
            return False

    async def write_some(self, data: memoryview) -> int:
        while True:
            self._require_open()
            try:
                # Polled first, because poll() takes 1 µs and a wait 15 µs, and there is nearly always room. After
                # POLLERR, the write raises the error.
                if not self._poll.poll(0):
                    await trio.lowlevel.wait_writable(self._fd)
                written = os.write(self._fd, data[:ATOMIC])
                TRAFFIC.sent += written
                return written
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._fd)
            except trio.ClosedResourceError as error:
                raise ConnectionClosed(f"the {self.what} was closed") from error


class _Thread(Generic[_A, _B]):
    """A daemon thread that makes one blocking call at a time and owns the descriptor.

    If the task that waits for a call is cancelled, the call continues, and the next caller gets its result.
    """

    def __init__(self, function: Callable[[_A], _B], fd: int, name: str) -> None:
        self._jobs: SimpleQueue[_A | None] = SimpleQueue()
        self._function = function
        self._fd = fd
        self._token = trio.lowlevel.current_trio_token()
        self._waiting = trio.lowlevel.ParkingLot()
        self._calling = False
        self._result: outcome.Value[_B] | outcome.Error | None = None
        self._closed = False
        threading.Thread(target=self._run, name=f"mcptrio {name} {fd}", daemon=True).start()

    async def call(self, argument: _A) -> _B:
        await trio.lowlevel.checkpoint_if_cancelled()
        # If an earlier call was cancelled, this one returns the result of that call, and ignores the argument.
        if not self._calling and not self._closed:
            self._calling = True
            self._jobs.put(argument)
        while self._result is None:
            if self._closed:
                raise ConnectionClosed("the descriptor is closed")
            await self._waiting.park()
        result, self._result, self._calling = self._result, None, False
        return result.unwrap()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
            self._waiting.unpark_all()

    def _run(self) -> None:
        try:
            while (argument := self._jobs.get()) is not None:
                self._token.run_sync_soon(self._finish, outcome.capture(self._function, argument))
        except trio.RunFinishedError:
            pass  # trio.run has ended, so no task waits for the result
        finally:
            os.close(self._fd)

    def _finish(self, result: outcome.Value[_B] | outcome.Error) -> None:
        self._result = result
        self._waiting.unpark_all()


class ThreadReader(_Thread[int, bytes]):
    """Reads in a daemon thread, at most one piece ahead.

    A thread that blocks in os.read cannot be stopped. It keeps the descriptor open until the next input or the end of
    the process. Because it is a daemon thread, it does not delay the end of the process.
    """

    def __init__(self, fd: int) -> None:
        super().__init__(lambda size: _retry(fd, os.read, size, select.POLLIN), fd, "read")

    async def read(self) -> bytes:
        return await self.call(READ_BYTES)


class ThreadWriter(_Thread[bytes, int]):
    """Writes in a daemon thread."""

    def __init__(self, fd: int) -> None:
        super().__init__(lambda data: _retry(fd, os.write, data, select.POLLOUT), fd, "write")

    def write_now(self, data: memoryview) -> int:
        """Return 0: only the thread knows whether there is room."""
        return 0

    def write_whole(self, data: bytes) -> bool:
        """Return False: only the thread knows whether there is room."""
        return False

    async def write_some(self, data: memoryview) -> int:
        return await self.call(bytes(data[:READ_BYTES]))


def _retry(fd: int, call: Callable[[int, _A], _B], argument: _A, event: int) -> _B:
    while True:
        try:
            # The call normally blocks. It raises BlockingIOError if another process has set O_NONBLOCK on the file.
            return call(fd, argument)
        except BlockingIOError:
            poll = select.poll()
            poll.register(fd, event)
            poll.poll()


def _is_pollable(fd: int) -> bool:
    # A poll reports files and /dev/null as ready at all times, and Windows can poll only sockets.
    if sys.platform == "win32":
        return False
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)
