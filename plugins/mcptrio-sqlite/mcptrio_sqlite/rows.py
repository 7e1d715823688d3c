"""Pages of rows.

Jobs make them in a child process. Rows are read one by one, and only the rows of the page are kept, so memory is
limited to one page and one row.
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

from .call_monitor import CallMonitor
from .values import Cell, Parameters, to_cell

__all__ = ["PageLimits", "RowPage", "Rows", "cursor_for", "position_of", "read_page"]

_CURSOR: Final = re.compile(r"(\d{1,15})-([0-9a-f]{16})")
_MIN_CELL_BYTES: Final = 32
"""Bytes of a value that are shown even in rows with very many columns."""


@frozen(kw_only=True)
class Rows:
    """Rows of a query."""

    database: Annotated[str, "Name of the database."]
    columns: Annotated[tuple[str, ...], "Names of the columns."]
    items: Annotated[
        tuple[tuple[Cell, ...], ...],
        "Rows with values in the order of columns. Blobs, integers beyond 2^53, infinities and long texts are objects.",
    ]
    truncated: Annotated[bool, "There are more rows."]
    next_cursor: Annotated[str | None, "Cursor for the next rows."] = None
    notes: Annotated[tuple[str, ...], "Notes on the result."] = ()


@frozen(kw_only=True)
class PageLimits:
    """The limits of one page."""

    max_rows: int
    max_bytes: int
    """Size of the rows as JSON."""
    max_cell_bytes: int
    """Size of one value."""


@frozen(kw_only=True)
class RowPage:
    """A page of rows; ``has_more`` if further rows follow."""

    columns: tuple[str, ...]
    items: tuple[tuple[Cell, ...], ...]
    has_more: bool
    notes: tuple[str, ...] = field(default=())


def read_page(
    cursor: sqlite3.Cursor, monitor: CallMonitor, bounds: PageLimits, *, skip: int = 0, drain: bool = False
) -> RowPage:
    """Read the next page of rows.

    Args:
        skip: Rows to skip first.
        drain: Read all further rows without keeping them, so that a statement that writes is completed.
    """
    columns = tuple(name for name, *_ in cursor.description or ())
    cell = min(bounds.max_cell_bytes, max(_MIN_CELL_BYTES, bounds.max_bytes // max(1, len(columns))))
    items: list[tuple[Cell, ...]] = []
    size = position = 0
    has_more = is_cut = False
    for row in cursor:
        monitor.count_row()
        position += 1
        # SQLite keeps nothing between calls: a later page runs the query again and skips the earlier rows.
        if position <= skip or has_more:
            continue
        shown_row = tuple(to_cell(value, cell) for value in row)
        # One byte for the comma.
        row_size = len(orjson.dumps(shown_row)) + 1
        # The first row is always included; otherwise the next page would start at the same row.
        if len(items) == bounds.max_rows or (items and size + row_size > bounds.max_bytes):
            has_more = True
            if not drain:
                break
            continue
        items.append(shown_row)
        size += row_size
        is_cut = is_cut or any(isinstance(value, dict) and "truncated" in value for value in shown_row)
    notes = []
    if is_cut:
        notes.append(f"values longer than {cell} bytes are cut; substr(column, start, length) returns the rest")
    if len(set(columns)) < len(columns):
        notes.append("some columns have the same name; use AS to distinguish them")
    return RowPage(columns=columns, items=tuple(items), has_more=has_more, notes=tuple(notes))


def cursor_for(position: int, database: str, query: str, parameters: Parameters | None) -> str:
    """Return the cursor for a position in the rows of a query."""
    # The digest detects a cursor that is used with another query.
    return f"{position}-{_digest(database, query, parameters)}"


def position_of(cursor: str, database: str, query: str, parameters: Parameters | None) -> int:
    """Return the number of rows before a cursor.

    Raises:
        ToolError: The cursor is invalid or belongs to another query.
    """
    if not cursor:
        return 0
    match = _CURSOR.fullmatch(cursor)
    if match is None or match[2] != _digest(database, query, parameters):
        raise ToolError("expected the next_cursor of the same query with the same params and database at `cursor`")
    return int(match[1])


def _digest(database: str, query: str, parameters: Parameters | None) -> str:
    # orjson would reject large integers and lone surrogates.
    text = json.dumps([database, query, parameters], sort_keys=True)
    return hashlib.blake2s(text.encode(), digest_size=8).hexdigest()
