"""Copies the standard error of workers to that of the parent, and puts the number of the worker before each line.

One task reads from each worker, and one task writes for all.
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

# Longest line; a longer one is split.
_MAX_LINE_BYTES: Final = 64 * 1024
# Bytes of queued lines. Further lines are dropped and counted, because a worker must not wait for the reader of the
# parent's standard error.
_MAX_QUEUED_BYTES: Final = 4 * 1024 * 1024
# Seconds for writing the last lines.
_CLOSE_TIMEOUT: Final = 1.0
_NOTHING: Final = memoryview(b"")
# Last lines of a worker, which explain its end.
_MAX_LAST_LINES: Final = 20


class SharedStderr:
    """The parent's standard error, shared by all workers."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._dropped = 0
        # The bytes of the current write that are left. The last write after a cancellation continues here.
        self._rest = memoryview(b"")
        self._waiting = trio.Event()

    def write(self, line: bytes) -> None:
        """Queue a line without its line end, or drop it if the queue is full."""
        if self._size + len(line) > _MAX_QUEUED_BYTES:
            self._dropped += 1
            return
        self._lines.append(line + b"\n")
        self._size += len(line) + 1
        self._waiting.set()

    async def run(self) -> None:
        """Write until cancelled, then write the queued lines for at most a second."""
        writer = _open_stderr()
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
                    piece += b"dropped %d lines of workers, because standard error was not read\n" % self._dropped
                    self._dropped = 0
                self._rest = memoryview(piece)
            try:
                self._rest = self._rest[await writer.write_some(self._rest) :] if writer is not None else _NOTHING
            except (OSError, ConnectionClosed):
                # Standard error is closed, so the lines cannot be written anywhere.
                self._rest = _NOTHING
            self._size = len(self._rest) + sum(map(len, self._lines))


class WorkerStderr:
    """The standard error of one worker.

    Args:
        fd: The read end of its pipe; the instance owns it.
        output: The parent's standard error.
        number: The number of the worker.
        as_json: True if the log has one JSON object per line; the number is added as a member to keep the line valid
            JSON.
    """

    def __init__(self, fd: int, output: SharedStderr, *, number: int, as_json: bool) -> None:
        self._reader = open_reader(fd)
        self._output = output
        self._prefix = f"[worker {number}] ".encode()
        self._json_prefix = f'{{"worker": {number}, '.encode() if as_json else None
        self._line = b""
        # Shielded, because a worker that cannot write its last lines would not end.
        self._scope = trio.CancelScope(shield=True)
        # The last lines that were not blank.
        self.last_lines: deque[bytes] = deque(maxlen=_MAX_LAST_LINES)
        self.ended = trio.Event()

    async def copy(self) -> None:
        """Read until the end of the pipe, or until :meth:`close`."""
        try:
            with self._scope:
                while chunk := await self._reader.read():
                    self._split_lines(chunk)
        except (OSError, ConnectionClosed):
            # A broken pipe is treated as its end.
            pass
        finally:
            if self._line:
                self._write_line(self._line)
            self._reader.close()
            self.ended.set()

    def close(self) -> None:
        """Stop reading."""
        self._scope.cancel()

    def _split_lines(self, chunk: bytes) -> None:
        *lines, self._line = (self._line + chunk).split(b"\n")
        for line in lines:
            self._write_line(line)
        while len(self._line) > _MAX_LINE_BYTES:
            self._write_line(self._line[:_MAX_LINE_BYTES])
            self._line = self._line[_MAX_LINE_BYTES:]

    def _write_line(self, line: bytes) -> None:
        if not line or line.isspace():
            return
        self.last_lines.append(line[:_MAX_LINE_BYTES])
        if self._json_prefix is not None and line.startswith(b'{"'):
            self._output.write(self._json_prefix + line[1:])
        else:
            self._output.write(self._prefix + line)


def _open_stderr() -> ByteWriter | None:
    if sys.__stderr__ is None:
        # Python found no standard error at its start, so descriptor 2 may belong to something else.
        return None
    with suppress(OSError, RuntimeError), ExitStack() as undo:
        fd = os.dup(2)
        undo.callback(os.close, fd)
        # In a thread: the descriptor may be a full pipe or a stopped terminal, which must not block the event loop.
        writer = open_writer(fd, shared=True)
        undo.pop_all()
        return writer
    return None
