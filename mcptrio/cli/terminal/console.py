"""The output of a command: results on standard output, everything else on standard error.

On a terminal, control characters and invisible characters in a server's text are escaped; in a pipe the text is
unchanged. The last line of the terminal may be a progress bar or a prompt; other output appears above it. Writing
blocks while the reader of a pipe does not read, as in any filter.

Source: ECMA-48 (erasing, colours); https://no-color.org.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any, Protocol, TextIO

from mcptrio.cli.terminal.interrupts import Interrupts
from mcptrio.cli.terminal.json_output import json_text
from mcptrio.cli.terminal.layout import Style, TerminalLayout, terminal_width
from mcptrio.ground.quoting import printable

__all__ = ["Bottom", "Console", "EmptyBottom", "readable", "refers_to_log"]

_ERASE = "\r\x1b[K"
# Warnings and ids of failures that the log has shown, so that a response does not repeat them.
_MAX_FAILURES = 100
# mcptrio servers send this text to the client in place of an exception, which only their log contains.
_REFERENCE = re.compile(r"see id (\w+) in the server's log")


class Bottom(Protocol):
    """The last line of the terminal."""

    def draw(self, width: int) -> str:
        """Return one row of at most ``width`` columns without a line end; the cursor stays at its end."""
        ...


class EmptyBottom:
    """An empty last line, shown while a question uses the terminal."""

    def draw(self, width: int) -> str:
        return ""


class Console:
    """Writes a command's output without disturbing the last line of the terminal."""

    def __init__(self, out: TextIOWrapper, err: TextIO) -> None:
        self._out = out
        self._err = err
        self.interrupts = Interrupts()
        """Handles Ctrl-C for the commands at this console."""
        self.is_out_terminal = out.isatty()
        self.is_err_terminal = err.isatty()
        self._err_layout = TerminalLayout.of(err)
        # TERM=dumb, as in the shell of Emacs, shows escape sequences as text.
        self.has_bottom = self.is_err_terminal and os.environ.get("TERM", "dumb") != "dumb"
        """True if the terminal can erase and redraw its last line."""
        self._bottoms: list[Bottom] = []
        self.failures: deque[str] = deque(maxlen=_MAX_FAILURES)
        """Ids of the latest failures shown in the log."""
        self.warnings: deque[str] = deque(maxlen=_MAX_FAILURES)
        """The latest warnings shown in the log."""

    def has_shown(self, answer: str) -> bool:
        """Return whether an answer only refers to a failure that was shown."""
        return any(failure_id in self.failures for failure_id in _REFERENCE.findall(answer))

    @property
    def layout(self) -> TerminalLayout:
        """The layout of standard output, with the current width of the terminal."""
        return TerminalLayout.of(self._out)

    @property
    def width(self) -> int:
        """Columns of the terminal, or 80."""
        return terminal_width(self._err, self._out)

    # Writing

    def print(self, text: str = "", *styles: Style) -> None:
        """Print a result, with a line end if it has none. On a terminal, invisible characters are escaped."""
        # A program that reads a pipe must receive the server's text unchanged.
        if self.is_out_terminal:
            text = readable(text)
        self._write(self._out, self.layout.paint(text, *styles))

    def print_painted(self, text: str) -> None:
        """Print a result that is already readable and may contain styles."""
        self._write(self._out, text)

    def print_json(self, value: Mapping[str, Any]) -> None:
        self._write(self._out, json_text(value, is_terminal=self.is_out_terminal))

    def write_bytes(self, data: bytes) -> None:
        # Text that is still buffered precedes these bytes.
        self._out.flush()
        self._out.buffer.write(data)
        self._out.buffer.flush()

    def note(self, text: str, *styles: Style) -> None:
        """Print a text to standard error, with invisible characters escaped."""
        self._write(self._err, self._err_layout.paint(readable(text), *styles))

    def note_painted(self, text: str) -> None:
        """Print a text to standard error that is already readable and may contain styles."""
        self._write(self._err, text)

    def print_error(self, text: str) -> None:
        """Print an error: on one line, or wrapped on a terminal."""
        # Not _err_layout, whose width is that of the start: the user may have resized the terminal.
        self._write(self._err, TerminalLayout.of(self._err).wrap(printable(text), "red", "bold", label="mcptrio: "))

    def paint(self, text: str, *styles: Style) -> str:
        return self._err_layout.paint(text, *styles)

    # The last line

    @contextmanager
    def bottom(self, bottom: Bottom) -> Iterator[None]:
        """Show ``bottom`` in the last line during the block, and then what the line showed before."""
        self._bottoms.append(bottom)
        try:
            self.refresh()
            yield
        finally:
            # Not pop(): blocks in different tasks may end in any order.
            self._bottoms.remove(bottom)
            self.refresh()

    def refresh(self, end: str = "") -> None:
        if self.has_bottom:
            self._err.write(_ERASE + self._draw_bottom() + end)
            self._err.flush()

    def keep_bottom(self) -> None:
        """Keep the last line on the screen, and continue on the next row."""
        self.refresh("\n")

    def write_control(self, sequence: str) -> None:
        """Write a control sequence to the terminal, without a line end."""
        if self.is_err_terminal:
            self._err.write(sequence)
            self._err.flush()

    # Private

    def _write(self, stream: TextIO, text: str) -> None:
        if not text.endswith("\n"):
            text += "\n"
        # Standard output may be on the same terminal: erase the row before the text is written into it.
        if self.has_bottom and self._bottoms:
            self._err.write(_ERASE)
            self._err.flush()
        stream.write(text)
        stream.flush()
        if self.has_bottom and self._bottoms:
            self._err.write(self._draw_bottom())
            self._err.flush()

    def _draw_bottom(self) -> str:
        # The last column stays free: a terminal may begin a new row there.
        return self._bottoms[-1].draw(self.width - 1) if self._bottoms else ""


def refers_to_log(answer: str) -> bool:
    """Return whether an answer leaves the cause of a failure to the server's log."""
    return _REFERENCE.search(answer) is not None


def readable(text: str) -> str:
    """Return a text of several lines with invisible characters escaped and tabs replaced by spaces."""
    # First replace tabs and the line ends of Windows, which printable would escape.
    return "\n".join([printable(line.expandtabs()) for line in text.replace("\r\n", "\n").split("\n")])
