"""A file of lines with a maximum size, which only its owner can read.

The audit records of clients and servers, and recordings, use this. A line is completely written when the call returns.

Source: open(2), O_APPEND and O_NOFOLLOW.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

__all__ = ["LinesFile"]


class LinesFile:
    """Appends lines.

    A write blocks for some ten microseconds on a local disk; a hanging disk blocks the caller. The file is not synced,
    so the last lines may be lost when the machine stops.

    Args:
        path: Created with mode 0600; an existing file gets this mode.
        max_bytes: A file that would become larger is renamed to ``<path>.1``, which replaces an older one, and a new
            file begins.
        first_line: Makes the first line of each file; an existing file is then renamed before the first one begins.

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
                    self._begin_anew()
                self._append(self._head())
            except OSError:
                self.close()
                raise

    def write(self, line: bytes) -> None:
        """Append a line; its end is added.

        Raises:
            OSError: The line could not be written completely.
            ValueError: The file is closed.
        """
        if self._descriptor is None:
            raise ValueError("the file is closed")
        line += b"\n"
        # Asked of the system each time: another process may append to the same file.
        size = os.fstat(self._descriptor).st_size
        if size + len(line) > self._max:
            self._begin_anew()
            size = 0
        self._append(line if size else self._head() + line)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _head(self) -> bytes:
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
        # The file may have been made with a wider mode by another program.
        if hasattr(os, "fchmod") and os.fstat(descriptor).st_mode & 0o777 != 0o600:
            os.fchmod(descriptor, 0o600)
        return descriptor

    def _begin_anew(self) -> None:
        self.close()
        try:
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        # Also if renaming failed: records continue in the file that is too large, rather than nowhere.
        finally:
            self._descriptor = self._open()
