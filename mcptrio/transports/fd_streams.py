"""Bytes from and to a file descriptor, whatever it leads to, without ever holding up the event loop or the exit.

Used by the stdio transport, whose descriptors come from somebody else: a pipe, a socket pair, a terminal, a file. So
O_NONBLOCK is never set: it belongs to the open file description, and the parent, the shell or our own stderr may share
that. What can be polled is polled, and then written in pieces that cannot block; for the rest there is a thread.
The one rule: a cancelled read or write has either happened and is told by the next one, or has not happened.

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

__all__ = [
    "ATOMIC",
    "ByteReader",
    "ByteWriter",
    "ThreadReader",
    "ThreadWriter",
    "WaitingReader",
    "WaitingWriter",
    "open_reader",
    "open_writer",
]

READ_BYTES = 64 * 1024
"""What a pipe holds on Linux; more comes only from files."""

ATOMIC = getattr(select, "PIPE_BUF", 512)
"""What can be written to a pipe or socket that polls as writable without blocking; to a pipe, whole or not at all."""

_A = TypeVar("_A")
_B = TypeVar("_B")


class ByteReader(Protocol):
    async def read(self) -> bytes:
        """Some bytes; none at the end of the file.

        Raises:
            OSError: as os.read.
            ConnectionClosed: the reader was closed.
        """
        ...

    def close(self) -> None: ...


class ByteWriter(Protocol):
    def write_now(self, data: memoryview) -> int:
        """Write what there is room for, possibly nothing, and return how many bytes. Never waits.

        Raises:
            OSError: as os.write.
            ConnectionClosed: the writer was closed.
        """
        ...

    def write_whole(self, data: bytes) -> bool:
        """Write all of ``data`` or nothing, and return whether it was written. Never waits, never raises."""
        ...

    async def write_some(self, data: memoryview) -> int:
        """Write the first bytes of ``data``, which is not empty, and return how many.

        Cancelled, it may be in the middle of it: the next call has to be with the same data.

        Raises:
            OSError: as os.write.
            ConnectionClosed: the writer was closed.
        """
        ...

    def close(self) -> None: ...


def open_reader(fd: int) -> ByteReader:
    """A reader that owns ``fd``: the right one for what it leads to."""
    return WaitingReader(fd) if _is_pollable(fd) else ThreadReader(fd)


def open_writer(fd: int, *, shared: bool = False) -> ByteWriter:
    """A writer that owns ``fd``: the right one for what it leads to.

    Args:
        shared: whether others may write to the same pipe, so that a poll promises nothing.
    """
    # A terminal polls as writable with room for one byte only.
    return ThreadWriter(fd) if shared or not _is_pollable(fd) or os.isatty(fd) else WaitingWriter(fd)


class WaitingReader:
    """Reads a pipe, socket or terminal when there is something to read."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    async def read(self) -> bytes:
        while True:
            if self._fd < 0:
                raise ConnectionClosed("the descriptor is closed")
            try:
                await trio.lowlevel.wait_readable(self._fd)
                return os.read(self._fd, READ_BYTES)
            except BlockingIOError:
                continue  # somebody else has set O_NONBLOCK, and somebody else was faster
            except trio.ClosedResourceError as error:
                raise ConnectionClosed("the descriptor was closed") from error

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            trio.lowlevel.notify_closing(fd)
            os.close(fd)


class WaitingWriter:
    """Writes to a pipe or socket when it has room, in pieces that fit."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._is_pipe = stat.S_ISFIFO(os.fstat(fd).st_mode)
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def write_now(self, data: memoryview) -> int:
        """Write what there is room for, and return how many bytes that were. Never waits."""
        written = 0
        if self._fd < 0:
            raise ConnectionClosed("the descriptor is closed")
        try:
            while written < len(data) and self._poll.poll(0):
                written += os.write(self._fd, data[written : written + ATOMIC])
        except BlockingIOError:
            pass  # somebody else was faster
        return written

    def write_whole(self, data: bytes) -> bool:
        """Write all of ``data`` or nothing, and return whether it was written. Never waits, never raises."""
        if self._fd < 0 or len(data) > ATOMIC or not self._poll.poll(0):
            return False
        try:
            # A socket that somebody else has set to O_NONBLOCK takes a part.
            return (self._is_pipe or os.get_blocking(self._fd)) and os.write(self._fd, data) == len(data)
        except OSError:
            return False

    async def write_some(self, data: memoryview) -> int:
        while True:
            if self._fd < 0:
                raise ConnectionClosed("the descriptor is closed")
            try:
                # Asking costs 1 µs, being told 15 µs; there nearly always is room. POLLERR ends up in the write.
                if not self._poll.poll(0):
                    await trio.lowlevel.wait_writable(self._fd)
                return os.write(self._fd, data[:ATOMIC])
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._fd)
            except trio.ClosedResourceError as error:
                raise ConnectionClosed("the descriptor was closed") from error

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            trio.lowlevel.notify_closing(fd)
            os.close(fd)


class ThreadReader:
    """Reads in a daemon thread of its own, which never reads ahead by more than one piece.

    A thread that sits in os.read cannot be told to stop. It holds the descriptor, not the exit, and ends with the next
    input or the process.
    """

    def __init__(self, fd: int) -> None:
        self._thread: _Thread[int, bytes] = _Thread(lambda size: _retried(fd, os.read, size, select.POLLIN), fd, "read")

    async def read(self) -> bytes:
        return await self._thread.call(READ_BYTES)

    def close(self) -> None:
        self._thread.close()


class ThreadWriter:
    """Writes in a daemon thread of its own."""

    def __init__(self, fd: int) -> None:
        self._thread: _Thread[bytes, int] = _Thread(
            lambda data: _retried(fd, os.write, data, select.POLLOUT), fd, "write"
        )

    def write_now(self, data: memoryview) -> int:
        """Nothing: only the thread can tell."""
        return 0

    def write_whole(self, data: bytes) -> bool:
        """Never: only the thread can tell."""
        return False

    async def write_some(self, data: memoryview) -> int:
        return await self._thread.call(bytes(data[:READ_BYTES]))

    def close(self) -> None:
        self._thread.close()


class _Thread(Generic[_A, _B]):
    """A daemon thread that makes one blocking call at a time, and owns the descriptor the calls are about.

    A call survives the cancellation of who waits for it; the next to call gets its result.
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
                self._token.run_sync_soon(self._done, outcome.capture(self._function, argument))
        except trio.RunFinishedError:
            pass  # nobody is left to be told
        finally:
            os.close(self._fd)

    def _done(self, result: outcome.Value[_B] | outcome.Error) -> None:
        self._result = result
        self._waiting.unpark_all()


def _retried(fd: int, call: Callable[[int, _A], _B], argument: _A, event: int) -> _B:
    """A blocking call, also where somebody else has set O_NONBLOCK on the file."""
    while True:
        try:
            return call(fd, argument)
        except BlockingIOError:
            poll = select.poll()
            poll.register(fd, event)
            poll.poll()


def _is_pollable(fd: int) -> bool:
    """Pipes, sockets and terminals. Not files, not /dev/null, and nothing on Windows."""
    if sys.platform == "win32":
        return False
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)
