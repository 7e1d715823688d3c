"""Reads standard input that is not a terminal: all of it, or line by line.

``mcptrio call --args -`` and the shell use it. Reads can be cancelled, and need no thread: a thread would hold the lock
of Python's buffered reader while the interpreter exits.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from mcptrio.errors import ConfigError
from mcptrio.transports.fd_streams import ByteReader, open_reader

__all__ = ["InputLines", "open_input", "read_input"]

MAX_INPUT_BYTES = 64 * 1024 * 1024
"""Bytes of the whole input."""
MAX_LINE_BYTES = 1024 * 1024
"""Bytes of one line."""


class InputLines:
    def __init__(self, reader: ByteReader) -> None:
        self._reader = reader
        self._buffer = b""
        self._has_ended = False

    async def read(self) -> str | None:
        """Return the next line without its end; ``None`` at the end of the input."""
        while b"\n" not in self._buffer and not self._has_ended:
            chunk = await self._reader.read()
            self._has_ended = not chunk
            self._buffer += chunk
            # Only an unfinished line is measured, because one chunk may contain many short ones.
            if len(self._buffer) > MAX_LINE_BYTES and b"\n" not in self._buffer:
                raise ConfigError(f"standard input: expected lines of at most {MAX_LINE_BYTES} bytes, got a longer one")
        if not self._buffer:
            return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        # A file from Windows ends its lines with CR LF.
        return line.decode("utf-8", "replace").removesuffix("\r")


@contextmanager
def open_input() -> Iterator[ByteReader]:
    """Open standard input during the block."""
    if sys.stdin is None:
        raise ConfigError("standard input is closed")
    # A duplicate, because closing the reader must not close sys.stdin.
    reader = open_reader(os.dup(sys.stdin.fileno()))
    try:
        yield reader
    finally:
        reader.close()


async def read_input() -> str:
    data = bytearray()
    with open_input() as reader:
        while chunk := await reader.read():
            data += chunk
            if len(data) > MAX_INPUT_BYTES:
                raise ConfigError(f"standard input: expected at most {MAX_INPUT_BYTES} bytes, got more")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"standard input: expected UTF-8, got {error.reason} at byte {error.start}") from error
