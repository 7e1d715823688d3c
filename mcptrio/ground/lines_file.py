"""A file of lines that grows up to a bound and is read by nobody but its owner.

Used for records of what was done, on the client's side and on the server's.
The one rule: a line is in the file, whole, when the call returns, or an error is raised.

Source: open(2), O_APPEND and O_NOFOLLOW.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["LinesFile"]


class LinesFile:
    """Appends lines. A context manager, which closes it.

    Written where it is called, which takes some ten microseconds on a local disk; a disk that hangs would hold up the
    caller. Not synced: what the system has not written when the machine stops is lost.

    Args:
        path: made with mode 0600, and given that mode where it has another.
        max_bytes: a file that would become larger is renamed to ``<path>.1``, in the place of an older one, and a new
            one begun.

    Raises:
        OSError: it cannot be opened, or is a symbolic link.
    """

    def __init__(self, path: Path | str, *, max_bytes: int) -> None:
        self._path = Path(path)
        self._max = max_bytes
        self._descriptor: int | None = self._open()

    def write(self, line: bytes) -> None:
        """Append a line; its end is added.

        Raises:
            OSError: it could not be written, or not all of it.
            ValueError: the file is closed.
        """
        if self._descriptor is None:
            raise ValueError("the file is closed")
        line += b"\n"
        if os.fstat(self._descriptor).st_size + len(line) > self._max:
            self._begin_anew()
        written = 0
        while written < len(line):
            written += os.write(self._descriptor, line[written:])

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> int:
        # Neither flag is there on Windows, nor are modes.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        descriptor = os.open(self._path, flags, 0o600)
        if hasattr(os, "fchmod") and os.fstat(descriptor).st_mode & 0o777 != 0o600:
            os.fchmod(descriptor, 0o600)
        return descriptor

    def _begin_anew(self) -> None:
        self.close()
        try:
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        finally:
            self._descriptor = self._open()
