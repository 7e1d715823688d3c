"""What a child process writes to its standard error: the last lines kept, all of them handed on.

Read by one task for each child, which :func:`mcptrio.transports.child.open_child` starts. It reads on while the child
is being ended: a child that cannot get rid of its last words would not end.
The one rule: the child does not wait for who listens, and what is kept is bounded: of a line the first bytes, of the
lines the last, and of what our own standard error does not take, nothing.

Source: MCP 2026-07-28, basic/transports/stdio: free text, of any level, no sign of failure.
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
"""Last lines kept of each child."""
LINE_BYTES = 2000
"""Bytes kept of a line; the rest is dropped."""

Stderr: TypeAlias = Literal["forward", "drop"] | logging.Logger | Callable[[str], object]
"""Where lines go: to our own standard error, nowhere, into a log at level INFO, or to a function.

The function is called with each line, in Trio's thread; it must neither wait nor raise.
"""

_TURN = 100
"""Lines told before other tasks get their turn."""
_WRITE_TIMEOUT = 1.0
"""Seconds our own standard error may take for a piece; after that others are dropped until it has taken that one."""
_GLANCE = 0.01
"""Seconds for a look whether it has."""

_INVISIBLE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What steers a terminal: colours, the cursor, bells, the direction of writing. No server is to draw on ours."""


class ChildStderr:
    """Owns the reading end of the pipe, until :meth:`listen` returns.

    Args:
        name: of the server, for the log.
    """

    def __init__(self, fd: int, to: Stderr, *, name: str) -> None:
        self._name = name
        self._reader: ByteReader = open_reader(fd)
        self._to = to
        self._own = _OwnStderr() if to == "forward" else None
        self._last: deque[bytes] = deque(maxlen=LINES)
        self._line = b""
        """The beginning of a line whose end has not arrived."""
        # Not cancelled with what is around it, but by close, which whoever ends the child calls.
        self._scope = trio.CancelScope(shield=True)
        self.ended = trio.Event()
        """Set when nothing more will be read."""

    @property
    def last_words(self) -> tuple[str, ...]:
        """The last lines, at most :data:`LINES`; blank ones do not count."""
        return tuple([_readable(line) for line in [*self._last, self._line] if line and not line.isspace()][-LINES:])

    async def listen(self) -> None:
        """Read until the end, or until :meth:`close`."""
        try:
            with self._scope:
                while chunk := await self._reader.read():
                    await self._take(chunk)
                await self._take(b"\n")
        except (OSError, ConnectionClosed):
            pass  # as good as its end
        finally:
            self._reader.close()
            if self._own is not None:
                self._own.close()
            self.ended.set()

    def close(self) -> None:
        """Listen no longer."""
        self._scope.cancel()

    async def _take(self, chunk: bytes) -> None:
        lines = (self._line + chunk).split(b"\n")
        self._line = lines.pop()[:LINE_BYTES]
        lines = [line[:LINE_BYTES] for line in lines if line and not line.isspace()]
        self._last.extend(lines[-LINES:])
        if self._own is not None:
            await self._own.write("".join([_readable(line) + "\n" for line in lines]).encode())
        elif self._to != "drop":
            for first in range(0, len(lines), _TURN):
                for line in lines[first : first + _TURN]:
                    self._tell(_readable(line))
                await trio.lowlevel.checkpoint()

    def _tell(self, line: str) -> None:
        if isinstance(self._to, logging.Logger):
            self._to.info("%s: %s", self._name, line)
        elif callable(self._to):
            self._to(line)


class _OwnStderr:
    """Our standard error, in a thread: what it leads to may be full or stopped, and belongs to others as well."""

    def __init__(self) -> None:
        self._writer: ByteWriter | None = None
        self._rest = memoryview(b"")
        """What it has not taken yet, of the piece it is given at the moment."""
        if sys.__stderr__ is None:
            return  # its number leads to something else, perhaps Trio's own
        with suppress(OSError), ExitStack() as undo:
            fd = os.dup(2)
            undo.callback(os.close, fd)
            with suppress(RuntimeError):  # no more threads
                self._writer = open_writer(fd, shared=True)
                undo.pop_all()

    async def write(self, piece: bytes) -> None:
        if self._writer is None:
            return
        patience = _GLANCE
        if not self._rest:
            self._rest = memoryview(piece)
            patience = _WRITE_TIMEOUT
        try:
            with trio.move_on_after(patience):
                while self._rest:
                    self._rest = self._rest[await self._writer.write_some(self._rest) :]
        except OSError:
            self.close()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _readable(line: bytes) -> str:
    return _INVISIBLE.sub("", line.decode("utf-8", "replace"))
