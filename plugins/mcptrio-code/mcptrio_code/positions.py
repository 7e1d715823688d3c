"""Positions in a text: lines as LSP counts them, and columns in the units of the server.

Sessions and tools use them.

Source: LSP 3.17, "Text Documents" and "PositionEncodingKind".
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["ENCODINGS", "column_of", "split_lines", "units_before"]

ENCODINGS: Final = ("utf-8", "utf-16")
"""The encodings in which this client can count columns, in order of preference."""

# str.splitlines() also splits at form feeds and at U+2028, which do not end lines in LSP.
_LINE_END: Final = re.compile(r"\r\n|\n|\r")


def split_lines(text: str) -> list[str]:
    """Return the lines without their ends."""
    return _LINE_END.split(text)


def units_before(line: str, column: int, encoding: str) -> int:
    """Convert the index of a character to a column in the units of the server."""
    before = line[:column]
    return len(before.encode("utf-8", "replace")) if encoding == "utf-8" else len(before.encode("utf-16-le")) // 2


def column_of(line: str, units: int, encoding: str) -> int:
    """Convert a column in the units of the server to the index of a character. It is at most the end of the line."""
    if line.isascii():
        return max(0, min(units, len(line)))
    passed = 0
    for column, character in enumerate(line):
        if passed >= units:
            return column
        if encoding == "utf-8":
            passed += len(character.encode("utf-8", "replace"))
        else:
            passed += 2 if ord(character) > 0xFFFF else 1
    return len(line)
