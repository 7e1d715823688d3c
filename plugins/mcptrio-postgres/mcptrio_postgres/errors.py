"""Translates errors of PostgreSQL for the model.

A message contains PostgreSQL's text, the location in the SQL, and what to do.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Final

from mcptrio import ToolError

from .connection import ServerRefused

__all__ = ["UNDEFINED_TABLE", "explain_refusal", "not_found"]

UNDEFINED_TABLE: Final = "42P01"
_READ_ONLY: Final = "25006"
_NO_TRANSACTION: Final = ("25001", "25P01")
_NAMES: Final = 15
_MAX_CHARS: Final = 500
_EXCERPT: Final = 40
_RELATION: Final = re.compile(r'relation "(?P<name>.+)" does not exist')


def explain_refusal(error: ServerRefused, sql: str, tables: Sequence[str] = ()) -> ToolError:
    """Return an error that a model can act on.

    Args:
        sql: The statement as the model wrote it.
        tables: Existing tables, for a suggestion if a name is unknown.
    """
    words = _cut(str(error))
    if error.position and sql:
        words += f" at {_position(sql, error.position - 1)}"
    if error.detail:
        words += f"; {_cut(error.detail)}"
    if error.hint:
        words += f"; hint: {_cut(error.hint)}"
    if error.code == UNDEFINED_TABLE and (found := _RELATION.match(str(error))):
        words += _suggestion(found["name"], tables)
    if error.code == _READ_ONLY:
        words += "; the transaction is read-only, and the setting writable lists the databases that accept changes"
    if error.code in _NO_TRANSACTION:
        words += "; each call is its own transaction"
    return ToolError(words)


def not_found(names: Sequence[str], tables: Sequence[str]) -> ToolError:
    """Return the error for tables that do not exist."""
    return ToolError("; ".join(f"no such table: `{name[:200]}`{_suggestion(name, tables)}" for name in names[:5]))


def _suggestion(name: str, tables: Sequence[str]) -> str:
    # The table may exist in a schema that the name leaves out.
    last = name.rpartition(".")[2]
    same = [table for table in tables if table.rpartition(".")[2] == last]
    if near := same[:3] or difflib.get_close_matches(name, tables, 1):
        return f"; did you mean {' or '.join(f'`{each}`' for each in near)}?"
    short = {table.rpartition(".")[2]: table for table in tables}
    if found := difflib.get_close_matches(last, short, 1):
        return f"; did you mean `{short[found[0]]}`?"
    more = f" and {len(tables) - _NAMES} more" if len(tables) > _NAMES else ""
    return f"; there are {', '.join(tables[:_NAMES])}{more}" if tables else ""


def _position(sql: str, start: int) -> str:
    before = sql[:start]
    excerpt = sql[start : start + _EXCERPT].partition("\n")[0].rstrip()
    place = f"line {before.count(chr(10)) + 1}, column {start - before.rfind(chr(10))}"
    return f"{place}: {excerpt}" if excerpt else "the end"


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_CHARS else text[:_MAX_CHARS] + "…"
