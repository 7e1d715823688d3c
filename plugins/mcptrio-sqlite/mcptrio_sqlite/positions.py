"""Where in the SQL an error lies.

Called when SQLite refuses a statement: Python does not hand on what ``sqlite3_error_offset`` knows, so the token of
which the message speaks is looked for. The one rule: no position is better than a wrong one.

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
"""Places at which one token is tried."""
_EXCERPT: Final = 40


@frozen
class Position:
    """A place in a text, counted from 1."""

    line: int
    column: int
    excerpt: str
    """What stands there."""

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.excerpt}" if self.excerpt else "at the end"


def locate(sql: str, message: str) -> Position | None:
    """The place that an error message of SQLite means; ``None`` where that is not certain."""
    if message == "incomplete input":
        return _position(sql, len(sql.rstrip()))
    if found := _NEAR.fullmatch(message):
        return _position(sql, _near(sql, found["token"]))
    if found := _UNRECOGNIZED.fullmatch(message):
        places = [start for start in _each(sql, found["token"]) if start >= 0]
        return _position(sql, places[0] if places else None)
    if found := _NAMED.match(message):
        places = list(_names(sql, found["name"].rpartition(".")[2]))
        return _position(sql, places[0] if len(places) == 1 else None)
    return None


def _near(sql: str, token: str) -> int | None:
    """The token that the parser stumbled over: the first up to which the text fails in this same way."""
    places = list(_each(sql, token))
    if len(places) == 1:
        return places[0]
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.set_authorizer(lambda *_: sqlite3.SQLITE_DENY)  # it is only parsed
        for place in places[:_MAX_POSITIONS]:
            try:
                empty.execute("EXPLAIN " + sql[: place + len(token)])
            except sqlite3.Error as error:
                if (again := _NEAR.fullmatch(str(error))) and again["token"] == token:
                    return place
            except (sqlite3.Warning, ValueError):
                return None
    return None


def _each(sql: str, text: str) -> Iterator[int]:
    for found in _TOKEN.finditer(sql):
        if not found["space"] and (found[0] == text or (found["other"] and sql.startswith(text, found.start()))):
            yield found.start()


def _names(sql: str, name: str) -> Iterator[int]:
    for found in _TOKEN.finditer(sql):
        if (found["name"] or "").strip('"`[]').lower() == name.lower():
            yield found.start()


def _position(sql: str, start: int | None) -> Position | None:
    if start is None:
        return None
    before = sql[:start]
    line_start = before.rfind("\n") + 1
    excerpt = sql[start : start + _EXCERPT].partition("\n")[0].rstrip()
    return Position(before.count("\n") + 1, start - line_start + 1, excerpt)
