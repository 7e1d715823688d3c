"""The layout of a command's output: wrapped lines, tables that fit, and colours.

Used by every command that prints for a person. In a pipe nothing is wrapped, left out or coloured.

Source: ECMA-48 (colours); https://no-color.org.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Literal, TextIO, TypeAlias

from attrs import frozen

from mcptrio.cli.terminal.text_width import columns

__all__ = ["Style", "TerminalLayout", "count_text", "terminal_width"]

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
_WIDTH = 80
_MIN_WIDTH = 20
_GAP = "  "
_LIST_MARK = re.compile(r" *(?:(?:[-*]|\d+[.)]) +)?")
"""The indentation of a line, with the mark of a list entry."""


@frozen
class TerminalLayout:
    """The width and the colours of one stream.

    Args:
        width: Columns of the terminal; ``None`` in a pipe or file, where lines stay whole.
        is_coloured: True for a terminal with colours, without ``NO_COLOR``.
    """

    width: int | None
    is_coloured: bool

    @classmethod
    def of(cls, stream: TextIO | None) -> TerminalLayout:
        if stream is None or not stream.isatty():
            return cls(None, False)
        # Without TERM, nothing is known about the terminal.
        is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "dumb") == "dumb"
        return cls(terminal_width(stream), not is_plain)

    @classmethod
    def of_stdout(cls) -> TerminalLayout:
        return cls.of(sys.stdout)

    def paint(self, text: str, *styles: Style) -> str:
        """Return the text in a style, or unchanged on a stream without colours."""
        if not styles or not text or not self.is_coloured:
            return text
        # The style ends before the line end, because Console adds a line end to a text that has none at its end.
        end = "\n" if text.endswith("\n") else ""
        return f"\x1b[{';'.join(str(_CODES[style]) for style in styles)}m{text.removesuffix(end)}\x1b[0m{end}"

    def wrap(self, text: str, *styles: Style, indent: str = "", label: str = "") -> str:
        """Return readable text as lines that fit. A longer word has its own line, and the terminal folds it.

        Args:
            styles: The styles of the label.
            indent: The text before every line.
            label: Begins the first line; the others are indented as far as its text.
        """
        if self.width is None:
            return "\n".join(f"{indent}{label * (index == 0)}{line}" for index, line in enumerate(text.split("\n")))
        painted = self.paint(label, *styles)
        # Lines under a long label are indented by only two columns, so that they keep most of the width.
        label_columns = columns(label) if columns(indent + label) <= self.width // 3 else 2
        lines: list[str] = []
        for line in text.split("\n"):
            is_first = not lines
            used = columns(indent) + (columns(label) if is_first else label_columns)
            rows = _rows(line, used, columns(indent) + label_columns, self.width)
            for row in rows:
                lines.append(f"{indent}{painted if not lines else ' ' * label_columns}{row}".rstrip())
        return "\n".join(lines)

    def table(
        self,
        head: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        optional: Sequence[str] = (),
        styles: Mapping[str, Style] | None = None,
    ) -> str:
        """Return a table. Its last column wraps if the terminal is too narrow.

        Args:
            head: Names of the columns; empty for none.
            rows: Printable cells, as many in each as in the head; at least one row if there is no head.
            optional: Columns to leave out on a narrow terminal, the first one first.
            styles: Styles of cells, by their text up to a comma.
        """
        all_rows = [head, *rows] if head else rows
        visible = list(range(len(all_rows[0])))
        widths = [max(columns(row[index]) for row in all_rows) for index in visible]
        for name in optional:
            if self.width is None or sum(widths[index] + len(_GAP) for index in visible) - len(_GAP) <= self.width:
                break
            visible.remove(head.index(name))
        bold: dict[str, Style] = dict.fromkeys(head, "bold")
        lines = [
            # Compared by identity, because a row may have the same cells as the head.
            self._row(
                [row[index] for index in visible],
                [widths[index] for index in visible],
                bold if row is head else styles or {},
            )
            for row in all_rows
        ]
        left_out = [name for name in head if head.index(name) not in visible]
        if left_out:
            lines.append(self.paint(self.wrap(f"columns left out: {', '.join(left_out)}"), "dim"))
        return "\n".join(lines)

    def _row(self, cells: Sequence[str], widths: Sequence[int], styles: Mapping[str, Style]) -> str:
        before = ""
        for cell, width in zip(cells[:-1], widths[:-1], strict=True):
            before += self._cell(cell, styles) + " " * (width - columns(cell)) + _GAP
        start = sum(widths[:-1]) + len(_GAP) * (len(cells) - 1)
        # In a pipe, a row stays one line for programs such as grep and cut.
        last = [cells[-1]] if self.width is None else _rows(cells[-1], start, start, self.width)
        return "\n".join(
            (before if index == 0 else " " * start) + self._cell(each, styles) for index, each in enumerate(last)
        ).rstrip()

    def _cell(self, cell: str, styles: Mapping[str, Style]) -> str:
        style = styles.get(cell.partition(",")[0])
        return self.paint(cell, style) if style is not None else cell


def terminal_width(*streams: TextIO) -> int:
    """Return the columns of the first stream that is a terminal, or 80."""
    for stream in streams:
        try:
            # A new pseudo-terminal reports 0 columns until its size is set.
            return max(os.get_terminal_size(stream.fileno()).columns or _WIDTH, _MIN_WIDTH)
        # ValueError: the stream is closed.
        except (OSError, ValueError):
            continue
    return _WIDTH


def count_text(count: int, things: str) -> str:
    """Return a number with its noun: ``1 tool``, ``2 tools``.

    Args:
        things: The plural, which ends in s.
    """
    return f"{count:,} {things.removesuffix('s') if count == 1 else things}"


def _rows(line: str, first: int, rest: int, width: int) -> list[str]:
    """Break one line at spaces. A continued list entry is indented as far as its text.

    Args:
        first: Columns before the first row.
        rest: Columns before the others.
    """
    if first + columns(line) <= width:
        return [line]
    mark = match[0] if (match := _LIST_MARK.match(line)) is not None else ""
    # Hanging under a wide mark would leave too few columns for the text.
    hanging_indent = " " * len(mark) if len(mark) < width // 3 else ""
    rows = [mark]
    has_word = False
    for word in line[len(mark) :].split(" "):
        used = first if len(rows) == 1 else rest
        longer = f"{rows[-1]} {word}" if has_word else rows[-1] + word
        if has_word and used + columns(longer) > width:
            rows.append(hanging_indent + word)
        else:
            rows[-1] = longer
        has_word = True
    return [row.rstrip() for row in rows]
