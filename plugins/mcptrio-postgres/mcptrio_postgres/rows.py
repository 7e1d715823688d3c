"""Pages of rows.

The server keeps the position in a cursor and sends a few rows at a time, with long values already cut, so memory is
limited to some rows here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import orjson
from attrs import define, field, frozen

from mcptrio import ToolError

from .connection import ParsedStatement, PostgresConnection, ServerRefused
from .values import BYTEA, Cell, Value, bound_values, cell

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

__all__ = ["PageBounds", "PostgresRows", "ResultPage", "cursor_for", "position_of", "read_page"]

_CURSOR: Final = re.compile(r"(\d{1,9})-([0-9a-f]{16})")
_MIN_CELL_CHARS: Final = 32
"""Characters shown of a value, even in rows with very many columns."""
_FETCHED_ROWS: Final = 50
_BYTEA_BYTES: Final = 32
"""Bytes shown of a binary value. More of it is of no use to a model; ``encode()`` returns it as text."""


@frozen(kw_only=True)
class PostgresRows:
    """Rows of a query."""

    database: Annotated[str, "Name of the database."]
    columns: Annotated[tuple[str, ...], "Names of the columns."]
    items: Annotated[
        tuple[tuple[Cell, ...], ...],
        "Rows with values in the order of columns: JSON, or the text that PostgreSQL prints.",
    ]
    truncated: Annotated[bool, "There are more rows."]
    next_cursor: Annotated[str | None, "Cursor for the next rows."] = None
    notes: Annotated[tuple[str, ...], "Notes on the result."] = ()


@frozen(kw_only=True)
class PageBounds:
    """The limits of one page."""

    rows: int
    size: int
    """Bytes as JSON."""
    cell: int
    """Characters of one value."""
    query: int
    """Bytes of all parameters."""

    def cell_of(self, columns: int) -> int:
        """Return the characters shown of a value in a row with so many columns."""
        return min(self.cell, max(_MIN_CELL_CHARS, self.size // max(1, columns)))


@define(eq=False)
class ResultPage:
    """A page that is being filled."""

    columns: tuple[str, ...]
    bounds: PageBounds
    items: list[tuple[Cell, ...]] = field(factory=list)
    has_more: bool = False
    is_cut: bool = False
    _size: int = field(init=False, default=0)

    def add(self, result: PGresult) -> None:
        """Add the rows of a result, as far as they fit."""
        longest = self.bounds.cell_of(len(self.columns))
        types = [result.ftype(at) for at in range(result.nfields)]
        for number in range(result.ntuples):
            if self.has_more:
                return
            row = [cell(result.get_value(number, at), type) for at, type in enumerate(types)]
            is_cut = False
            for at, value in enumerate(row):
                limit = 2 + 2 * _BYTEA_BYTES if types[at] == BYTEA else longest
                if isinstance(value, str) and len(value) > limit:
                    row[at] = value[:limit] + "…"
                    is_cut = True
            size = len(orjson.dumps(row)) + 1
            # The first row is always included, or the next page would start at the same place.
            if len(self.items) == self.bounds.rows or (self.items and self._size + size > self.bounds.size):
                self.has_more = True
                return
            self.items.append(tuple(row))
            self._size += size
            self.is_cut = self.is_cut or is_cut

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.is_cut:
            return ()
        limit = self.bounds.cell_of(len(self.columns))
        return (
            f"values longer than {limit} characters are cut; substr(column::text, start, length) returns the rest, "
            "encode(column, 'base64') a binary value",
        )


async def read_page(
    connection: PostgresConnection, sql: str, params: Sequence[Value], bounds: PageBounds, *, skip: int
) -> ResultPage:
    """Run a query in the transaction of the connection, and return its next page of rows.

    Args:
        sql: One statement without a semicolon.
        skip: Rows to skip first.
    """
    statement = await connection.prepare(sql)
    if not statement.columns:
        raise ToolError("the statement returns no columns")
    values = bound_values(params, statement.parameter_types, limit=bounds.query)
    page = ResultPage(columns=statement.columns, bounds=bounds)
    query = _with_cut_values(sql, statement, bounds.cell_of(len(statement.columns)))
    try:
        # Only SELECT, VALUES, TABLE and WITH are grammatical here, and WITH only if it changes nothing.
        await connection.ask(f"DECLARE page NO SCROLL CURSOR FOR {query}", values, statement.parameter_types)
        if skip:
            await connection.ask(f"MOVE FORWARD {skip} FROM page")
        while not page.has_more:
            # One more than requested shows whether there are more.
            wanted = min(_FETCHED_ROWS, bounds.rows + 1 - len(page.items))
            result = await connection.ask(f"FETCH FORWARD {wanted} FROM page")
            page.add(result)
            if result.ntuples < wanted:
                break
    except ServerRefused as error:
        # The position is one in the statement with the cut values.
        error.position = 0
        raise
    return page


def cursor_for(position: int, database: str, query: str, params: Sequence[Value]) -> str:
    """Return the cursor for a position in the rows of a query."""
    # The digest detects a cursor that is used with another query.
    return f"{position}-{_digest(database, query, params)}"


def position_of(cursor: str, database: str, query: str, params: Sequence[Value]) -> int:
    """Return the number of rows before a cursor.

    Raises:
        ToolError: The cursor is invalid or belongs to another query.
    """
    if not cursor:
        return 0
    found = _CURSOR.fullmatch(cursor)
    if found is None or found[2] != _digest(database, query, params):
        raise ToolError("expected the next_cursor of the same query with the same params and database at `cursor`")
    return int(found[1])


def _with_cut_values(sql: str, statement: ParsedStatement, limit: int) -> str:
    """Return a query with the same rows, whose values of variable length the server cuts."""
    names = [f"c{at}" for at in range(len(statement.columns))]
    shown = []
    for name, type, size in zip(names, statement.types, statement.sizes, strict=True):
        if type == BYTEA:
            # Only the beginning becomes hexadecimal text.
            shown.append(f"substr({name}, 1, {_BYTEA_BYTES + 1})")
        elif size < 0:
            # One character more shows that a value is longer.
            shown.append(f"left({name}::text, {limit + 1})")
        else:
            shown.append(name)
    # A comment at the end of the query must not contain the parenthesis.
    return f"SELECT {', '.join(shown)} FROM ({sql}\n) AS q({', '.join(names)})"


def _digest(database: str, query: str, params: Sequence[Value]) -> str:
    # Not orjson, which rejects large integers and lone surrogates.
    text = json.dumps([database, query, params], sort_keys=True)
    return hashlib.blake2s(text.encode(), digest_size=8).hexdigest()
