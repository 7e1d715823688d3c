"""The tools that read.

A tool creates a job; ``Queries`` provides the process, the deadline and the connection.

Source: names and first arguments of read_query, list_tables and describe_table as in the archived reference SQLite
server (2025.4.25); the others are added.
"""

from __future__ import annotations

import os
from typing import Annotated

import orjson
from attrs import frozen
from msgspec import Meta

from mcptrio import Context, tool
from mcptrio.schema import encode_value, schema_of
from mcptrio.types import CallToolResult, TextContent

from .databases import DatabaseFile
from .jobs import DescribeTable, ExplainQuery, ListTables, ReadRows
from .plans import Plan
from .queries import Queries
from .rows import PageLimits, RowPage, Rows, cursor_for, position_of
from .schema import Table, TableEntry
from .values import Parameters

__all__ = [
    "ROWS",
    "DatabaseEntry",
    "DatabaseList",
    "DatabaseName",
    "Params",
    "Query",
    "SQLiteReading",
    "TableList",
    "to_result",
]

Query = Annotated[str, Meta(min_length=1, description="One SQL statement, in SQLite's dialect.")]
Params = Annotated[
    Parameters | None,
    "Values of the placeholders: a list for ?, an object for :name. Write a blob as {base64}, an integer beyond 2^53 "
    "as {integer}.",
]
DatabaseName = Annotated[str | None, "A name from {tool:list_databases}; optional if there is only one."]
Limit = Annotated[Annotated[int, Meta(ge=1, le=1_000_000)] | None, "Maximum number of items to return."]
Cursor = Annotated[str | None, "next_cursor of the previous result."]

ROWS = schema_of(Rows)
"""Output schema of the tools that return rows."""


@frozen(kw_only=True)
class DatabaseEntry:
    """A database in a list."""

    name: str
    file: Annotated[str, "Name of the file, without its folder."]
    bytes: Annotated[int | None, "File size; null if the file does not exist yet."]
    writable: bool


@frozen(kw_only=True)
class DatabaseList:
    """Databases in order of name."""

    items: tuple[DatabaseEntry, ...]
    truncated: Annotated[bool, "There are more items."]
    next_cursor: Annotated[str | None, "The cursor of the next page."] = None


@frozen(kw_only=True)
class TableList:
    """Tables and views in order of name."""

    database: str
    items: tuple[TableEntry, ...]
    truncated: Annotated[bool, "There are more items."]
    next_cursor: Annotated[str | None, "The cursor of the next page."] = None


@frozen(eq=False)
class SQLiteReading:
    """The reading tools."""

    queries: Queries

    @tool(
        title="Read Query",
        read_only=True,
        destructive=False,
        idempotent=True,
        open_world=False,
        output_schema=ROWS,
    )
    async def read_query(
        self,
        ctx: Context,
        query: Query,
        params: Params = None,
        database: DatabaseName = None,
        limit: Limit = None,
        cursor: Cursor = None,
    ) -> CallToolResult:
        """Run one read-only SQL statement (SELECT, WITH, VALUES, EXPLAIN or a read-only PRAGMA) and return its rows as
        arrays. Pass values in params. Long results have a next_cursor; use ORDER BY so that pages are consistent.
        """
        found = await self.queries.find(database)
        skip = position_of(cursor, found.name, query, params)
        job = ReadRows(query=query, params=params, bounds=self.bounds(limit), skip=skip)
        page: RowPage = await self.queries.run(ctx, found, job)
        more = cursor_for(skip + len(page.items), found.name, query, params) if page.has_more else None
        return to_result(
            Rows(
                database=found.name,
                columns=page.columns,
                items=page.items,
                truncated=page.has_more,
                next_cursor=more,
                notes=page.notes,
            )
        )

    @tool(title="List Databases", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def list_databases(self, limit: Limit = None, cursor: Cursor = None) -> DatabaseList:
        """List the databases with their sizes and whether they are writable."""
        most = self._most(limit)

        def work() -> list[DatabaseEntry]:
            after = [each for each in self.queries.databases.all() if each.name > (cursor or "")]
            # One more than requested shows whether there are more.
            return [_entry(each) for each in after[: most + 1]]

        entries = await self.queries.look(work)
        return DatabaseList(
            items=tuple(entries[:most]),
            truncated=len(entries) > most,
            next_cursor=entries[most - 1].name if len(entries) > most else None,
        )

    @tool(title="List Tables", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def list_tables(
        self, ctx: Context, database: DatabaseName = None, limit: Limit = None, cursor: Cursor = None
    ) -> TableList:
        """List the tables, views and virtual tables of a database."""
        found = await self.queries.find(database)
        most = self._most(limit)
        entries, has_more = await self.queries.run(ctx, found, ListTables(limit=most, after=cursor or ""))
        return TableList(
            database=found.name,
            items=entries,
            truncated=has_more,
            next_cursor=entries[-1].name if has_more else None,
        )

    @tool(title="Describe Table", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def describe_table(
        self,
        ctx: Context,
        table_name: Annotated[str, Meta(min_length=1, max_length=1000, description="Name of the table or view.")],
        database: DatabaseName = None,
        count_rows: Annotated[bool, "Also count the rows, which is slow for a large table."] = False,
    ) -> Table:
        """Describe a table: columns with types and defaults, keys, indexes, foreign keys, triggers, and its SQL."""
        found = await self.queries.find(database)
        job = DescribeTable(table=table_name, count_rows=count_rows)
        described: Table = await self.queries.run(ctx, found, job)
        return described

    @tool(title="Explain Query", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def explain_query(
        self, ctx: Context, query: Query, params: Params = None, database: DatabaseName = None
    ) -> Plan:
        """Show how SQLite would run a query without running it: which indexes it uses, and where it scans or sorts.
        Also checks whether a statement that writes is valid.
        """
        found = await self.queries.find(database)
        plan: Plan = await self.queries.run(ctx, found, ExplainQuery(query=query, params=params))
        return plan

    def bounds(self, limit: int | None) -> PageLimits:
        """Return the limits of one result."""
        config = self.queries.config
        return PageLimits(rows=self._most(limit), size=config.max_result_bytes, cell=config.max_cell_bytes)

    def _most(self, limit: int | None) -> int:
        most = self.queries.config.max_rows
        return min(limit or most, most)


def to_result(value: object) -> CallToolResult:
    """Return structured content, and the same as compact text."""
    # Compact: indented JSON would take several times as many tokens.
    structured = encode_value(value)
    return CallToolResult(content=(TextContent(text=orjson.dumps(structured).decode()),), structured_content=structured)


def _entry(database: DatabaseFile) -> DatabaseEntry:
    try:
        size = os.stat(database.path).st_size
    except OSError:
        size = None
    return DatabaseEntry(name=database.name, file=database.path.name, bytes=size, writable=database.is_writable)
