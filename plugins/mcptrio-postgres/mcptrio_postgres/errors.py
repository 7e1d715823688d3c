"""Translates errors of PostgreSQL for the model.

``PostgresQueries`` calls :func:`explain_error`. A message contains PostgreSQL's text, the position in the SQL, and a
hint.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Final

from mcptrio import ToolError

from .connection import StatementFailed

__all__ = ["UNDEFINED_TABLE", "explain_error", "not_found"]

UNDEFINED_TABLE: Final = "42P01"
_READ_ONLY: Final = "25006"
_NO_TRANSACTION: Final = ("25001", "25P01")
_MAX_LISTED_NAMES: Final = 15
_MAX_CHARS: Final = 500
_EXCERPT_CHARS: Final = 40
_RELATION: Final = re.compile(r'relation "(?P<name>.+)" does not exist')


def explain_error(error: StatementFailed, sql: str, tables: Sequence[str] = ()) -> ToolError:
    """Return an error that a model can act on.

    Args:
        sql: The statement as the model wrote it.
        tables: Existing tables, for a suggestion if a name is unknown.
    """
    message = _cut(str(error))
    if error.position and sql:
        message += f" at {_position(sql, error.position - 1)}"
    if error.detail:
        message += f"; {_cut(error.detail)}"
    if error.hint:
        message += f"; hint: {_cut(error.hint)}"
    if error.code == UNDEFINED_TABLE and (match := _RELATION.match(str(error))):
        message += _suggestion(match["name"], tables)
    if error.code == _READ_ONLY:
        message += "; the transaction is read-only, and the setting writable lists the databases that accept changes"
    if error.code in _NO_TRANSACTION:
        message += "; each call is its own transaction"
    return ToolError(message)


def not_found(names: Sequence[str], tables: Sequence[str]) -> ToolError:
    """Return the error for tables that do not exist."""
    return ToolError("; ".join(f"no such table: `{name[:200]}`{_suggestion(name, tables)}" for name in names[:5]))


def _suggestion(name: str, tables: Sequence[str]) -> str:
    # The table may exist in another schema than the one that the model wrote.
    last = name.rpartition(".")[2]
    same = [table for table in tables if table.rpartition(".")[2] == last]
    if near := same[:3] or difflib.get_close_matches(name, tables, 1):
        return f"; did you mean {' or '.join(f'`{each}`' for each in near)}?"
    short = {table.rpartition(".")[2]: table for table in tables}
    if matches := difflib.get_close_matches(last, short, 1):
        return f"; did you mean `{short[matches[0]]}`?"
    more = f" and {len(tables) - _MAX_LISTED_NAMES} more" if len(tables) > _MAX_LISTED_NAMES else ""
    return f"; there are {', '.join(tables[:_MAX_LISTED_NAMES])}{more}" if tables else ""


def _position(sql: str, start: int) -> str:
    before = sql[:start]
    excerpt = sql[start : start + _EXCERPT_CHARS].partition("\n")[0].rstrip()
    place = f"line {before.count(chr(10)) + 1}, column {start - before.rfind(chr(10))}"
    return f"{place}: {excerpt}" if excerpt else "the end"


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_CHARS else text[:_MAX_CHARS] + "…"
