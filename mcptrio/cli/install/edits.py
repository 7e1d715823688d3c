"""Edits of a text as a list of replaced ranges, and the line ends and indentation of the text.

The editor of each format in this package makes them. All other characters stay unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

from attrs import frozen

__all__ = ["Keys", "Splice", "Uneditable", "Unreadable", "apply_splices", "indent_of", "newline_of"]

Keys: TypeAlias = tuple[str, ...]
"""The keys that lead to an entry: ``("mcpServers", "mcptrio")``."""


class Unreadable(ValueError):
    """The text is invalid; the message has the expected text and the place."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class Uneditable(ValueError):
    """The text is valid, but an edit would change more than the entry; the message says why."""


@frozen
class Splice:
    """Characters from ``start`` up to ``end`` that become ``text``."""

    start: int
    end: int
    text: str


def apply_splices(text: str, splices: Iterable[Splice]) -> str:
    """Return the text with the splices applied. Two splices at the same offset keep their order."""
    pieces: list[str] = []
    end = 0
    # sorted() is stable.
    for splice in sorted(splices, key=lambda each: each.start):
        pieces += [text[end : splice.start], splice.text]
        end = splice.end
    return "".join([*pieces, text[end:]])


def newline_of(text: str) -> str:
    """Return the line end of a text, as in its first line."""
    index = text.find("\n")
    return "\r\n" if index > 0 and text[index - 1] == "\r" else "\n"


def indent_of(text: str) -> str:
    """Return the indentation step of a text: that of its first indented line, otherwise two spaces."""
    match = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return match[1] if match else "  "
