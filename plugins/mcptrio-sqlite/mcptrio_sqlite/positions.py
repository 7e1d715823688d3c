"""Locates an error in the SQL.

:mod:`.errors` calls it when SQLite rejects a statement. Python does not expose ``sqlite3_error_offset``, so this module
searches the SQL for the token that the message names. An uncertain position is not reported.

Source: sqlite.org/lang.html for the tokens; sqlite.org/c3ref/errcode.html.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Final

from attrs import frozen

__all__ = ["Position", "locate"]

_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))
    | (?P<string>'(?:[^']|'')*(?:'|\Z))
    | (?P<name>"(?:[^"]|"")*(?:"|\Z)|`(?:[^`]|``)*(?:`|\Z)|\[[^\]]*(?:\]|\Z)|[^\W\d][\w$]*)
    | (?P<number>\d[\w.]*|\.\d\w*)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_NEAR: Final = re.compile(r'near "(?P<token>.*)": syntax error', re.DOTALL)
_UNRECOGNIZED: Final = re.compile(r'unrecognized token: "(?P<token>.*)"', re.DOTALL)
_NAMED: Final = re.compile(
    r'(?:no such (?:column|table|function|index|view|trigger|collation sequence|module)|ambiguous column name): "?'
    r"(?P<name>[^\s\"]+)"
)
_MAX_POSITIONS: Final = 20
"""Maximum number of occurrences of one token that are tried."""
_EXCERPT_CHARS: Final = 40


@frozen
class Position:
    """A position in a text; line and column count from 1."""

    line: int
    column: int
    excerpt: str
    """The text at the position."""

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.excerpt}" if self.excerpt else "the end"


def locate(sql: str, message: str) -> Position | None:
    """Return the position that an error message refers to, or ``None`` if it is uncertain."""
    if message == "incomplete input":
        return _position(sql, len(sql.rstrip()))
    if match := _NEAR.fullmatch(message):
        return _position(sql, _syntax_error_offset(sql, match["token"]))
    if match := _UNRECOGNIZED.fullmatch(message):
        offsets = [start for start in _token_offsets(sql, match["token"]) if start >= 0]
        return _position(sql, offsets[0] if offsets else None)
    if match := _NAMED.match(message):
        # The message may qualify a name that is not qualified in the SQL.
        offsets = list(_name_offsets(sql, match["name"].rpartition(".")[2]))
        # Several occurrences of a name make the position uncertain.
        return _position(sql, offsets[0] if len(offsets) == 1 else None)
    return None


def _syntax_error_offset(sql: str, token: str) -> int | None:
    """Return the offset of the token at which the parser failed."""
    offsets = list(_token_offsets(sql, token))
    if len(offsets) == 1:
        return offsets[0]
    # If the token occurs several times, the error is at the first occurrence at which the SQL up to it fails likewise.
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.set_authorizer(lambda *_: sqlite3.SQLITE_DENY)  # parsing only
        for offset in offsets[:_MAX_POSITIONS]:
            try:
                empty.execute("EXPLAIN " + sql[: offset + len(token)])
            except sqlite3.Error as error:
                if (again := _NEAR.fullmatch(str(error))) and again["token"] == token:
                    return offset
            except (sqlite3.Warning, ValueError):
                return None
    return None


def _token_offsets(sql: str, text: str) -> Iterator[int]:
    for match in _TOKEN.finditer(sql):
        if not match["space"] and (match[0] == text or (match["other"] and sql.startswith(text, match.start()))):
            yield match.start()


def _name_offsets(sql: str, name: str) -> Iterator[int]:
    for match in _TOKEN.finditer(sql):
        if (match["name"] or "").strip('"`[]').lower() == name.lower():
            yield match.start()


def _position(sql: str, start: int | None) -> Position | None:
    if start is None:
        return None
    before = sql[:start]
    line_start = before.rfind("\n") + 1
    excerpt = sql[start : start + _EXCERPT_CHARS].partition("\n")[0].rstrip()
    return Position(before.count("\n") + 1, start - line_start + 1, excerpt)
