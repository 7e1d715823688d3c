"""Rows of an answer: as many as fit, and where to go on.

Called in a child with a cursor that has been executed. The one rule: rows are taken one by one and none is kept
that is not answered, so memory is bounded by the answer and one row.

A page is found again by running the query anew and leaving out the rows before it; SQLite keeps nothing between calls.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from typing import Annotated, Final

import orjson
from attrs import field, frozen

from mcptrio import ToolError

from .values import Cell, Parameters, shown
from .watching import Watch

__all__ = ["PageLimits", "RowPage", "Rows", "cursor_for", "position_of", "read_page"]

_CURSOR: Final = re.compile(r"(\d{1,15})-([0-9a-f]{16})")
_MIN_CELL_BYTES: Final = 32
"""Bytes shown of a cell even where there are very many columns."""


@frozen(kw_only=True)
class Rows:
    """Rows of a query."""

    database: Annotated[str, "The database."]
    columns: Annotated[tuple[str, ...], "The names of the columns."]
    items: Annotated[
        tuple[tuple[Cell, ...], ...],
        "The rows; the values are in the order of columns. A blob, an integer beyond 2^53, an infinity and a long text "
        "are objects.",
    ]
    truncated: Annotated[bool, "There are more rows."]
    next_cursor: Annotated[str | None, "Ask again with this cursor for the rows that follow."] = None
    notes: Annotated[tuple[str, ...], "What else there is to know."] = ()


@frozen(kw_only=True)
class PageLimits:
    """What one page may hold."""

    rows: int
    size: int
    """Bytes as JSON."""
    cell: int
    """Bytes of one value."""


@frozen(kw_only=True)
class RowPage:
    """Rows that were read, and whether there are more."""

    columns: tuple[str, ...]
    items: tuple[tuple[Cell, ...], ...]
    has_more: bool
    notes: tuple[str, ...] = field(default=())


def read_page(
    cursor: sqlite3.Cursor, watch: Watch, bounds: PageLimits, *, skip: int = 0, drain: bool = False
) -> RowPage:
    """Take the next page of rows.

    Args:
        skip: rows to leave out first.
        drain: take the rest too, without keeping it; a statement that writes has to come to its end.
    """
    columns = tuple(name for name, *_ in cursor.description or ())
    cell = min(bounds.cell, max(_MIN_CELL_BYTES, bounds.size // max(1, len(columns))))
    items: list[tuple[Cell, ...]] = []
    size = position = 0
    has_more = is_cut = False
    for row in cursor:
        watch.row()
        position += 1
        if position <= skip or has_more:
            continue
        shown_row = tuple(shown(value, cell) for value in row)
        row_size = len(orjson.dumps(shown_row)) + 1
        if len(items) == bounds.rows or (items and size + row_size > bounds.size):
            has_more = True
            if not drain:
                break
            continue
        items.append(shown_row)
        size += row_size
        is_cut = is_cut or any(isinstance(value, dict) and "truncated" in value for value in shown_row)
    notes = []
    if is_cut:
        notes.append(f"values longer than {cell} bytes are cut; substr(column, start, length) gets the rest")
    if len(set(columns)) < len(columns):
        notes.append("some columns have the same name; AS tells them apart")
    return RowPage(columns=columns, items=tuple(items), has_more=has_more, notes=tuple(notes))


def cursor_for(position: int, database: str, query: str, parameters: Parameters | None) -> str:
    """Where to go on in a query."""
    return f"{position}-{_digest(database, query, parameters)}"


def position_of(cursor: str | None, database: str, query: str, parameters: Parameters | None) -> int:
    """How many rows come before a cursor.

    Raises:
        ToolError: it is no cursor, or one of another query.
    """
    if cursor is None:
        return 0
    found = _CURSOR.fullmatch(cursor)
    if found is None or found[2] != _digest(database, query, parameters):
        raise ToolError("expected the next_cursor of the same query with the same params and database @ cursor")
    return int(found[1])


def _digest(database: str, query: str, parameters: Parameters | None) -> str:
    text = json.dumps([database, query, parameters], sort_keys=True)  # which takes any integer, and half a surrogate
    return hashlib.blake2s(text.encode(), digest_size=8).hexdigest()
