"""A file of lines with a maximum size, which only its owner can read.

Audit logs and recordings use this. A line is completely written when the call returns.

Source: open(2), O_APPEND and O_NOFOLLOW.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

__all__ = ["LinesFile"]


class LinesFile:
    """Appends lines to a file, and rotates it when it is full.

    A write blocks for some ten microseconds on a local disk; a hanging disk blocks the caller. The file is not synced,
    so the last lines may be lost when the machine stops.

    Args:
        path: Created with mode 0600; an existing file gets this mode.
        max_bytes: Bytes of one file. Before a file would become larger, it is renamed to ``<path>.1``, which replaces
            an older one, and a new file begins.
        first_line: Makes the first line of each file. With it, an existing file is rotated at the start.

    Raises:
        OSError: The file cannot be opened, or is a symbolic link.
    """

    def __init__(self, path: Path | str, *, max_bytes: int, first_line: Callable[[], bytes] | None = None) -> None:
        self._path = Path(path)
        self._max = max_bytes
        self._first_line = first_line
        self._descriptor: int | None = self._open()
        if first_line is not None:
            try:
                if os.fstat(self._descriptor).st_size:
                    self._rotate()
                self._append(self._header())
            except OSError:
                self.close()
                raise

    def write(self, line: bytes) -> None:
        """Append a line, with a line feed.

        Raises:
            OSError: The line could not be written completely.
            ValueError: The file is closed.
        """
        if self._descriptor is None:
            raise ValueError("the file is closed")
        line += b"\n"
        # Not counted here, because another process may append to the same file.
        size = os.fstat(self._descriptor).st_size
        if size + len(line) > self._max:
            self._rotate()
            size = 0
        self._append(line if size else self._header() + line)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _header(self) -> bytes:
        return b"" if self._first_line is None else self._first_line() + b"\n"

    def _append(self, data: bytes) -> None:
        assert self._descriptor is not None
        written = 0
        # A signal or a full disk can cut a write short.
        while written < len(data):
            written += os.write(self._descriptor, data[written:])

    def _open(self) -> int:
        # Windows has neither these flags nor modes.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        descriptor = os.open(self._path, flags, 0o600)
        # Another program may have created the file with a wider mode.
        if hasattr(os, "fchmod") and os.fstat(descriptor).st_mode & 0o777 != 0o600:
            os.fchmod(descriptor, 0o600)
        return descriptor

    def _rotate(self) -> None:
        self.close()
        try:
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        # If renaming failed, lines are appended to the file that is too large; otherwise they would be lost.
        finally:
            self._descriptor = self._open()
