"""The whole terminal as a page that is drawn again and again, without flicker.

``mcptrio top`` uses it. Each drawing is one write that overwrites the one before, and never clears it.

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
    """The other screen of the terminal, without a cursor, during the block of :meth:`shown`."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Switch to the other screen; the end of the block brings back what the terminal showed before."""
        interrupts = self._console.interrupts
        before = interrupts.restore

        def restore() -> None:
            self._console.steer(_LEAVE)
            if before is not None:
                before()

        interrupts.restore = restore
        self._console.steer(_ENTER)
        try:
            yield
        finally:
            interrupts.restore = before
            self._console.steer(_LEAVE)

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines, which fit into the width; the last row says how many do not fit into the height."""
        rows = _rows()
        if len(lines) > rows:
            lines = [*lines[: rows - 1], f"… {len(lines) - rows + 1} more lines"]
        # No line end after the last row, which would move the whole page.
        self._console.steer("\x1b[H" + "\n".join(f"{line}\x1b[K" for line in lines) + "\x1b[J")


def _rows() -> int:
    try:
        # A new pseudo-terminal reports 0 rows until its size is set.
        return os.get_terminal_size(sys.stderr.fileno()).lines or _ROWS
    except (OSError, ValueError):
        return _ROWS
