"""Where a command writes: results to standard output, everything else to standard error.

The one rule: what a server said is shown on a terminal with everything that does not show written out, and goes into a
pipe as it came. The last line of the terminal may belong to a bar or a prompt; whatever is written stands above it.

Writing waits for whoever reads, as any filter does; a command whose output nobody takes stands still.

Source: ECMA-48 (erasing, colours); https://no-color.org.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any, Literal, Protocol, TextIO, TypeAlias

from mcptrio.client.printable import printable
from mcptrio.commands.json_output import json_text

__all__ = ["Bottom", "Console", "Nothing", "Style", "readable"]

Style: TypeAlias = Literal["bold", "dim", "red", "green", "yellow", "blue", "magenta", "cyan", "reverse"]

_CODES: dict[Style, int] = {
    "bold": 1,
    "dim": 2,
    "reverse": 7,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "magenta": 35,
    "cyan": 36,
}
_ERASE = "\r\x1b[K"
_WIDTH = 80
_NARROWEST = 20
_FAILURES = 100
"""Failures that are remembered, so that no answer repeats them."""


class Bottom(Protocol):
    """What stands in the last line of the terminal."""

    def draw(self, width: int) -> str:
        """One row of at most ``width`` columns, without line end; the cursor stays where it is to stand."""
        ...


class Nothing:
    """An empty last line: what stood there is not shown for a while."""

    def draw(self, width: int) -> str:
        return ""


class Console:
    """
    Args:
        out: standard output.
        err: standard error.
    """

    def __init__(self, out: TextIOWrapper, err: TextIO) -> None:
        self._out = out
        self._err = err
        self.is_out_terminal = out.isatty()
        self.is_err_terminal = err.isatty()
        plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "dumb") == "dumb"
        self._is_coloured = {id(out): self.is_out_terminal and not plain, id(err): self.is_err_terminal and not plain}
        self._can_erase = self.is_err_terminal and os.environ.get("TERM", "dumb") != "dumb"
        self._bottoms: list[Bottom] = []
        self.failures: deque[str] = deque(maxlen=_FAILURES)
        """Ids of the last failures that the log has shown."""

    def has_shown(self, answer: str) -> bool:
        """Return whether an answer only refers to a failure that was shown."""
        return any(f"see id {failure_id} in the server's log" in answer for failure_id in self.failures)

    @property
    def has_bottom(self) -> bool:
        """Whether a last line can be kept: a terminal that understands."""
        return self._can_erase

    @property
    def is_coloured(self) -> bool:
        """Whether standard output may be coloured."""
        return self._is_coloured[id(self._out)]

    @property
    def width(self) -> int:
        """Columns of the terminal, or 80."""
        for stream in (self._err, self._out):
            try:
                return max(os.get_terminal_size(stream.fileno()).columns or _WIDTH, _NARROWEST)
            except (OSError, ValueError):
                continue
        return _WIDTH

    # Writing

    def print(self, text: str = "", *styles: Style) -> None:
        """A result, with a line end where it has none. Made readable on a terminal."""
        if self.is_out_terminal:
            text = readable(text)
        self._write(self._out, self._painted(self._out, text, styles))

    def print_painted(self, text: str) -> None:
        """The same of a text that is readable already and may be painted."""
        self._write(self._out, text)

    def print_json(self, value: Mapping[str, Any]) -> None:
        """A result as JSON: on several lines for a person, on one for a program."""
        self._write(self._out, json_text(value, is_terminal=self.is_out_terminal))

    def write_bytes(self, data: bytes) -> None:
        """A result that is bytes, as it is."""
        self._out.flush()
        self._out.buffer.write(data)
        self._out.buffer.flush()

    def note(self, text: str, *styles: Style) -> None:
        """Anything else: on standard error, readable."""
        self._write(self._err, self._painted(self._err, readable(text), styles))

    def note_painted(self, text: str) -> None:
        """The same of a text that is readable already and may be painted."""
        self._write(self._err, text)

    def complain(self, text: str) -> None:
        """What is wrong, on one line."""
        self._write(self._err, f"{self._painted(self._err, 'mcptrio:', ('red', 'bold'))} {printable(text)}")

    def paint(self, text: str, *styles: Style) -> str:
        """The text in a style, for standard error."""
        return self._painted(self._err, text, styles)

    def paint_out(self, text: str, *styles: Style) -> str:
        """The text in a style, for standard output."""
        return self._painted(self._out, text, styles)

    # The last line

    @contextmanager
    def bottom(self, bottom: Bottom) -> Iterator[None]:
        """While inside, the last line shows this; afterwards what it showed before."""
        self._bottoms.append(bottom)
        try:
            self.refresh()
            yield
        finally:
            self._bottoms.remove(bottom)
            self.refresh()

    def refresh(self) -> None:
        """Draw the last line anew."""
        if self._can_erase:
            self._err.write(_ERASE + self._drawn())
            self._err.flush()

    def keep_bottom(self) -> None:
        """Let the last line stand, and go to the next."""
        if self._can_erase:
            self._err.write(_ERASE + self._drawn() + "\n")
            self._err.flush()

    def steer(self, sequence: str) -> None:
        """Write to the terminal as it is, without a line end."""
        if self.is_err_terminal:
            self._err.write(sequence)
            self._err.flush()

    # Private

    def _write(self, stream: TextIO, text: str) -> None:
        if not text.endswith("\n"):
            text += "\n"
        if self._can_erase and self._bottoms:
            self._err.write(_ERASE)
            self._err.flush()
        stream.write(text)
        stream.flush()
        if self._can_erase and self._bottoms:
            self._err.write(self._drawn())
            self._err.flush()

    def _drawn(self) -> str:
        # The last column stays free: a terminal may begin a new row there.
        return self._bottoms[-1].draw(self.width - 1) if self._bottoms else ""

    def _painted(self, stream: TextIO, text: str, styles: tuple[Style, ...]) -> str:
        if not styles or not text or not self._is_coloured[id(stream)]:
            return text
        end = "\n" if text.endswith("\n") else ""
        return f"\x1b[{';'.join(str(_CODES[style]) for style in styles)}m{text.removesuffix(end)}\x1b[0m{end}"


def readable(text: str) -> str:
    """A text of several lines with everything written out that does not show; tabs become spaces."""
    return "\n".join([printable(line.expandtabs()) for line in text.replace("\r\n", "\n").split("\n")])
