"""The history of the shell, in the user's state folder.

If the file cannot be read or written, the shell works without it. Only its owner can read it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from mcptrio.cli.terminal.state_folder import state_folder

__all__ = ["History", "history_path"]

_MAX_LINES = 1_000
"""Lines that are kept. The file is shortened when it has twice as many."""
_MAX_FILE_BYTES = 8 * 1024 * 1024


def history_path() -> Path:
    """Return the path of ``mcptrio/history`` in the user's state folder."""
    return state_folder() / "history"


class History:
    """The entered lines, and their file.

    Args:
        path: The file; ``None`` stores nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.lines: list[str] = []
        """Oldest first."""
        if path is not None:
            with suppress(OSError):
                self._load(path)

    def add(self, line: str) -> None:
        """Store a line, unless it repeats the last one or begins with a space. Unprintable lines are not written."""
        if not line.strip() or line.startswith(" ") or self.lines[-1:] == [line]:
            return
        self.lines.append(line)
        # splitlines() would read a line with a control character or U+2028 as two entries.
        if self._path is not None and line.isprintable():
            with suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                # Several shells may share the file. An append of one line does not overwrite the lines of the others.
                _write(self._path, [line], os.O_APPEND)

    def _load(self, path: Path) -> None:
        with path.open("rb") as file:
            lines = file.read(_MAX_FILE_BYTES).decode("utf-8", "replace").splitlines()
        self.lines = lines[-_MAX_LINES:]
        if len(lines) > 2 * _MAX_LINES:
            # The file is replaced in one step, so that another shell never reads half of it. Each process has its own
            # new file.
            new = path.with_name(f"{path.name}.{os.getpid()}")
            _write(new, self.lines, os.O_TRUNC)
            new.replace(path)


def _write(path: Path, lines: list[str], flag: int) -> None:
    # Arguments of calls can be confidential, so only the owner can read the file.
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | flag, 0o600)
    with os.fdopen(fd, "ab" if flag == os.O_APPEND else "wb") as file:
        file.write("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
