"""The whole terminal as a page that is drawn again and again, without flicker.

``mcptrio top`` uses it. Each drawing overwrites the previous one with a single write, without clearing it.

Source: ECMA-48 (EL, ED, CUP); xterm, "Alternate Screen Buffer".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from mcptrio.cli.terminal.console import Console

__all__ = ["Screen"]

_ROWS: Final = 24
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


class Screen:
    """The other screen of the terminal, without a cursor, during the block of :meth:`open`."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def open(self) -> Iterator[None]:
        """Switch to the other screen during the block, and then show the previous one again."""
        interrupts = self._console.interrupts
        previous_restore = interrupts.restore

        def restore() -> None:
            self._console.write_control(_LEAVE)
            if previous_restore is not None:
                previous_restore()

        interrupts.restore = restore
        self._console.write_control(_ENTER)
        try:
            yield
        finally:
            interrupts.restore = previous_restore
            self._console.write_control(_LEAVE)

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines, which fit into the width; the last row says how many do not fit into the height."""
        rows = _rows()
        if len(lines) > rows:
            lines = [*lines[: rows - 1], f"… {len(lines) - rows + 1} more lines"]
        # No line end after the last row, which would move the whole page.
        self._console.write_control("\x1b[H" + "\n".join(f"{line}\x1b[K" for line in lines) + "\x1b[J")


def _rows() -> int:
    try:
        # A new pseudo-terminal reports 0 rows until its size is set.
        return os.get_terminal_size(sys.stderr.fileno()).lines or _ROWS
    except (OSError, ValueError):
        return _ROWS
