"""Edits of a text: replaced characters, and the style of the text.

The editors of this package make them, one editor per format. All other characters stay unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

from attrs import frozen

__all__ = ["Keys", "Splice", "Uneditable", "Unreadable", "indent_of", "newline_of", "spliced"]

Keys: TypeAlias = tuple[str, ...]
"""The place of an entry: ``("mcpServers", "mcptrio")``."""


class Unreadable(ValueError):
    """The text is invalid; the message has the expected text and the place."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class Uneditable(ValueError):
    """The text is right, but cannot be edited without touching more than the entry; why."""


@frozen
class Splice:
    """Characters from ``start`` up to ``end`` that become ``text``."""

    start: int
    end: int
    text: str


def spliced(text: str, splices: Iterable[Splice]) -> str:
    """Return the text with the splices; of two at the same place, the earlier one comes first."""
    pieces: list[str] = []
    end = 0
    for splice in sorted(splices, key=lambda each: each.start):
        pieces += [text[end : splice.start], splice.text]
        end = splice.end
    return "".join([*pieces, text[end:]])


def newline_of(text: str) -> str:
    """How the lines of a text end: as the first one does."""
    at = text.find("\n")
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def indent_of(text: str) -> str:
    """The step of a text's indentation: that of the first line that has one, else two spaces."""
    found = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return found[1] if found else "  "
