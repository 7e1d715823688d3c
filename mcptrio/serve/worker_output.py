"""What workers write to their standard errors, line by line on the parent's, with the name of who wrote it.

Read by one task for each worker, written by one for all.
The one rule: a worker does not wait for who reads our standard error. Past a bound lines are dropped, and counted.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from contextlib import ExitStack, suppress
from typing import Final

import trio

from mcptrio.errors import ConnectionClosed
from mcptrio.transports.fd_streams import ByteWriter, open_reader, open_writer

__all__ = ["SharedStderr", "WorkerStderr"]

_MAX_LINE_BYTES: Final = 64 * 1024
"""Of one line; a longer one comes in pieces."""
_MAX_QUEUED_BYTES: Final = 4 * 1024 * 1024
"""Of lines that our standard error has not taken yet; what comes then is dropped."""
_CLOSE_TIMEOUT: Final = 1.0
"""Seconds for the last lines."""
_NOTHING: Final = memoryview(b"")
_MAX_LAST_LINES: Final = 20
"""Lines of a worker that are kept, to say why it ended."""


class SharedStderr:
    """Our standard error, shared by all workers. Written in a thread: what it leads to may be full or stopped."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._dropped = 0
        self._rest = memoryview(b"")
        """What is being written. A cancelled write may have happened, and the next one tells."""
        self._waiting = trio.Event()

    def write(self, line: bytes) -> None:
        """Write a line, without its end, or drop it. Never waits."""
        if self._size + len(line) > _MAX_QUEUED_BYTES:
            self._dropped += 1
            return
        self._lines.append(line + b"\n")
        self._size += len(line) + 1
        self._waiting.set()

    async def run(self) -> None:
        """Write until cancelled, and then what is left, for a second at most."""
        writer = _open_own()
        try:
            while True:
                await self._waiting.wait()
                self._waiting = trio.Event()
                await self._write(writer)
        finally:
            with trio.move_on_after(_CLOSE_TIMEOUT, shield=True):
                await self._write(writer)
            if writer is not None:
                writer.close()

    async def _write(self, writer: ByteWriter | None) -> None:
        while self._rest or self._lines:
            if not self._rest:
                piece = b"".join(self._lines)
                self._lines.clear()
                if self._dropped:
                    piece += b"%d lines of workers were dropped: nobody read our standard error\n" % self._dropped
                    self._dropped = 0
                self._rest = memoryview(piece)
            try:
                self._rest = self._rest[await writer.write_some(self._rest) :] if writer is not None else _NOTHING
            except (OSError, ConnectionClosed):
                self._rest = _NOTHING  # there is nobody to be told
            self._size = len(self._rest) + sum(map(len, self._lines))


class WorkerStderr:
    """The standard error of one worker.

    Args:
        fd: the reading end of its pipe, owned from now on.
        as_json: whether its log is one object a line; the worker's number is put into it, so that it stays one.
    """

    def __init__(self, fd: int, output: SharedStderr, *, number: int, as_json: bool) -> None:
        self._reader = open_reader(fd)
        self._output = output
        self._begin = f"[worker {number}] ".encode()
        self._member = f'{{"worker": {number}, '.encode() if as_json else None
        self._line = b""
        # Not cancelled with what is around it: a worker that cannot get rid of its last words would not end.
        self._scope = trio.CancelScope(shield=True)
        self.last: deque[bytes] = deque(maxlen=_MAX_LAST_LINES)
        """The last lines that were not blank."""
        self.ended = trio.Event()

    async def listen(self) -> None:
        """Read until the end, or until :meth:`close`."""
        try:
            with self._scope:
                while chunk := await self._reader.read():
                    self._take(chunk)
        except (OSError, ConnectionClosed):
            pass  # as good as its end
        finally:
            if self._line:
                self._tell(self._line)
            self._reader.close()
            self.ended.set()

    def close(self) -> None:
        """Listen no longer."""
        self._scope.cancel()

    def _take(self, chunk: bytes) -> None:
        *lines, self._line = (self._line + chunk).split(b"\n")
        for line in lines:
            self._tell(line)
        while len(self._line) > _MAX_LINE_BYTES:
            self._tell(self._line[:_MAX_LINE_BYTES])
            self._line = self._line[_MAX_LINE_BYTES:]

    def _tell(self, line: bytes) -> None:
        if not line or line.isspace():
            return
        self.last.append(line[:_MAX_LINE_BYTES])
        if self._member is not None and line.startswith(b'{"'):
            self._output.write(self._member + line[1:])
        else:
            self._output.write(self._begin + line)


def _open_own() -> ByteWriter | None:
    if sys.__stderr__ is None:
        return None  # its number leads to something else
    with suppress(OSError, RuntimeError), ExitStack() as undo:
        fd = os.dup(2)
        undo.callback(os.close, fd)
        writer = open_writer(fd, shared=True)
        undo.pop_all()
        return writer
    return None
