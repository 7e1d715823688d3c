"""Reads the standard error of a child process, keeps the last lines and forwards all lines.

:func:`mcptrio.transports.child.open_child` starts one reading task for each child. The child never waits for the
receiver of the lines. Memory is bounded: long lines are cut, a fixed number of lines is kept, and output that this
process's standard error does not accept is dropped.

Source: MCP 2026-07-28, basic/transports/stdio: standard error may contain any text, and is no sign of failure.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Literal, TypeAlias

import trio

from mcptrio.errors import ConnectionClosed
from mcptrio.transports.fd_streams import ByteReader, ByteWriter, open_reader, open_writer

__all__ = ["LINES", "LINE_BYTES", "ChildStderr", "Stderr"]

LINES = 64
"""Number of last lines that are kept for each child."""
LINE_BYTES = 2000
"""Bytes that are kept of a line; the rest is dropped."""

Stderr: TypeAlias = Literal["forward", "drop"] | logging.Logger | Callable[[str], object]
"""The destination of lines: this process's standard error, none, a logger at level INFO, or a function.

The function is called with each line in the Trio thread. It must not block or raise."""

_LINES_PER_TURN = 100
"""Lines that are forwarded before other tasks may run."""
_WRITE_TIMEOUT = 1.0
"""Seconds for standard error to accept a piece. After that, further pieces are dropped until it has accepted this
one."""
_RECHECK_TIMEOUT = 0.01
"""Seconds for standard error to accept the rest of a piece, while further pieces are dropped."""

# Control sequences (colours, cursor, bell, text direction). They are removed, because a server must not control the
# user's terminal.
_INVISIBLE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class ChildStderr:
    """The standard error of one child process.

    Args:
        fd: The reading end of the pipe, owned until :meth:`listen` returns.
        to: The destination of the lines.
        name: Name of the server, for the log.
    """

    def __init__(self, fd: int, to: Stderr, *, name: str) -> None:
        self._name = name
        self._reader: ByteReader = open_reader(fd)
        self._to = to
        self._own = _OwnStderr() if to == "forward" else None
        self._last: deque[bytes] = deque(maxlen=LINES)
        self._line = b""
        """The beginning of an incomplete line."""
        # Shielded until close() is called, because a child that cannot write its last lines would not exit.
        self._scope = trio.CancelScope(shield=True)
        self.ended = trio.Event()
        """Set when reading has ended."""

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The last lines that are not blank, at most :data:`LINES`."""
        return tuple(
            [_readable_line(line) for line in [*self._last, self._line] if line and not line.isspace()][-LINES:]
        )

    async def listen(self) -> None:
        """Read until the end of the pipe, or until :meth:`close`."""
        try:
            with self._scope:
                while chunk := await self._reader.read():
                    await self._take(chunk)
                await self._take(b"\n")
        except (OSError, ConnectionClosed):
            pass  # treated as the end of the pipe
        finally:
            self._reader.close()
            if self._own is not None:
                self._own.close()
            self.ended.set()

    def close(self) -> None:
        """Stop reading."""
        self._scope.cancel()

    async def _take(self, chunk: bytes) -> None:
        lines = (self._line + chunk).split(b"\n")
        self._line = lines.pop()[:LINE_BYTES]
        lines = [line[:LINE_BYTES] for line in lines if line and not line.isspace()]
        self._last.extend(lines[-LINES:])
        if self._own is not None:
            await self._own.write("".join([_readable_line(line) + "\n" for line in lines]).encode())
        elif self._to != "drop":
            for first in range(0, len(lines), _LINES_PER_TURN):
                for line in lines[first : first + _LINES_PER_TURN]:
                    self._notify(_readable_line(line))
                await trio.lowlevel.checkpoint()

    def _notify(self, line: str) -> None:
        if isinstance(self._to, logging.Logger):
            self._to.info("%s: %s", self._name, line)
        elif callable(self._to):
            self._to(line)


class _OwnStderr:
    """The standard error of this process."""

    def __init__(self) -> None:
        self._writer: ByteWriter | None = None
        self._rest = memoryview(b"")
        """The part of the current piece that is not written yet."""
        if sys.__stderr__ is None:
            return  # descriptor 2 was closed at the start, so its number may belong to another file
        with suppress(OSError), ExitStack() as undo:
            fd = os.dup(2)
            undo.callback(os.close, fd)
            with suppress(RuntimeError):  # the thread cannot be started
                # A thread writes, because standard error may be full or stopped, and other processes share it.
                self._writer = open_writer(fd, shared=True)
                undo.pop_all()

    async def write(self, piece: bytes) -> None:
        if self._writer is None:
            return
        timeout = _RECHECK_TIMEOUT
        if not self._rest:
            self._rest = memoryview(piece)
            timeout = _WRITE_TIMEOUT
        try:
            with trio.move_on_after(timeout):
                while self._rest:
                    self._rest = self._rest[await self._writer.write_some(self._rest) :]
        except OSError:
            self.close()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _readable_line(line: bytes) -> str:
    return _INVISIBLE.sub("", line.decode("utf-8", "replace"))
