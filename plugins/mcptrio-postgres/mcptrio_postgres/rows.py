"""Pages of rows.

PostgreSQL holds the position in a cursor. It sends a few rows at a time, with long values already cut, so only these
rows are in memory here.
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

from .connection import ParsedStatement, PostgresConnection, StatementFailed
from .values import BYTEA, Cell, Value, encode_parameters, to_cell

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

__all__ = ["PageBounds", "PostgresRows", "ResultPage", "cursor_for", "position_of", "read_page"]

_CURSOR: Final = re.compile(r"(\d{1,9})-([0-9a-f]{16})")
_MIN_CELL_CHARS: Final = 32
"""Minimum length to which values are cut, even in rows with very many columns."""
_FETCHED_ROWS: Final = 50
_BYTEA_BYTES: Final = 32
"""Maximum number of bytes of a binary value that are shown. A model that needs more can use ``encode()``."""


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

    max_rows: int
    max_bytes: int
    """Size of the rows as JSON."""
    max_cell_chars: int
    max_query_bytes: int
    """Size of all parameters together."""

    def max_chars_of(self, columns: int) -> int:
        """Return the maximum length of a shown value in a row with this number of columns."""
        return min(self.max_cell_chars, max(_MIN_CELL_CHARS, self.max_bytes // max(1, columns)))


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
        """Add the rows of a result until the page is full."""
        longest = self.bounds.max_chars_of(len(self.columns))
        types = [result.ftype(at) for at in range(result.nfields)]
        for number in range(result.ntuples):
            if self.has_more:
                return
            row = [to_cell(result.get_value(number, at), type) for at, type in enumerate(types)]
            is_cut = False
            for at, value in enumerate(row):
                limit = 2 + 2 * _BYTEA_BYTES if types[at] == BYTEA else longest
                if isinstance(value, str) and len(value) > limit:
                    row[at] = value[:limit] + "…"
                    is_cut = True
            size = len(orjson.dumps(row)) + 1
            # The first row is always included; otherwise the next page would start at the same row.
            if len(self.items) == self.bounds.max_rows or (self.items and self._size + size > self.bounds.max_bytes):
                self.has_more = True
                return
            self.items.append(tuple(row))
            self._size += size
            self.is_cut = self.is_cut or is_cut

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.is_cut:
            return ()
        limit = self.bounds.max_chars_of(len(self.columns))
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
    values = encode_parameters(params, statement.parameter_types, limit=bounds.max_query_bytes)
    page = ResultPage(columns=statement.columns, bounds=bounds)
    query = _with_cut_values(sql, statement, bounds.max_chars_of(len(statement.columns)))
    try:
        # In DECLARE CURSOR, the grammar allows only SELECT, VALUES, TABLE, and WITH without changes.
        await connection.execute(f"DECLARE page NO SCROLL CURSOR FOR {query}", values, statement.parameter_types)
        if skip:
            await connection.execute(f"MOVE FORWARD {skip} FROM page")
        while not page.has_more:
            # One row more than requested shows whether there are more.
            row_count = min(_FETCHED_ROWS, bounds.max_rows + 1 - len(page.items))
            result = await connection.execute(f"FETCH FORWARD {row_count} FROM page")
            page.add(result)
            if result.ntuples < row_count:
                break
    except StatementFailed as error:
        # The position refers to the statement with the cut values, which the model did not write.
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
    match = _CURSOR.fullmatch(cursor)
    if match is None or match[2] != _digest(database, query, params):
        raise ToolError("expected the next_cursor of the same query with the same params and database at `cursor`")
    return int(match[1])


def _with_cut_values(sql: str, statement: ParsedStatement, limit: int) -> str:
    """Return a query for the same rows in which PostgreSQL cuts values of variable length."""
    names = [f"c{at}" for at in range(len(statement.columns))]
    cells = []
    for name, type, size in zip(names, statement.types, statement.sizes, strict=True):
        if type == BYTEA:
            # Only the beginning becomes hexadecimal text.
            cells.append(f"substr({name}, 1, {_BYTEA_BYTES + 1})")
        elif size < 0:
            # One character more shows that a value is longer.
            cells.append(f"left({name}::text, {limit + 1})")
        else:
            cells.append(name)
    # The line end keeps a comment at the end of the query from including the parenthesis.
    return f"SELECT {', '.join(cells)} FROM ({sql}\n) AS q({', '.join(names)})"


def _digest(database: str, query: str, params: Sequence[Value]) -> str:
    # orjson would reject large integers and lone surrogates.
    text = json.dumps([database, query, params], sort_keys=True)
    return hashlib.blake2s(text.encode(), digest_size=8).hexdigest()
