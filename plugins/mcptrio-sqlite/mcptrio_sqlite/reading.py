"""The tools that read.

Marked for mcptrio, registered by the plugin. The one rule: a tool says what it wants done with an open database, and
``Queries`` sees to the process, the deadline and the connection.

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
    "Values for the placeholders of the query: a list for ?, an object for :name. A blob is {base64}, an integer "
    "beyond 2^53 is {integer}.",
]
DatabaseName = Annotated[str | None, "A name from {tool:list_databases}; may be left out where there is only one."]
Limit = Annotated[Annotated[int, Meta(ge=1, le=1_000_000)] | None, "Answer at most this many."]
Cursor = Annotated[str | None, "Go on from here: the next_cursor of the answer before."]

ROWS = schema_of(Rows)
"""The output schema of what answers rows."""


@frozen(kw_only=True)
class DatabaseEntry:
    """A database in a list."""

    name: str
    file: Annotated[str, "The file's name, without its folder."]
    bytes: Annotated[int | None, "Its size; null where the file does not exist yet."]
    writable: bool


@frozen(kw_only=True)
class DatabaseList:
    """Databases in order of name."""

    items: tuple[DatabaseEntry, ...]
    truncated: Annotated[bool, "There are more."]
    next_cursor: Annotated[str | None, "Ask again with this cursor for the others."] = None


@frozen(kw_only=True)
class TableList:
    """Tables and views in order of name."""

    database: str
    items: tuple[TableEntry, ...]
    truncated: Annotated[bool, "There are more."]
    next_cursor: Annotated[str | None, "Ask again with this cursor for the others."] = None


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
        """Run one query that reads (SELECT, WITH, VALUES, EXPLAIN, or a PRAGMA that asks) and return its rows as
        arrays. Nothing can be changed by it. Put values into params, not into the text. A long answer is cut: go on
        with next_cursor, and use ORDER BY so that the pages fit together.
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
        """List the databases there are, with their sizes and whether they may be written."""
        most = self._most(limit)

        def work() -> list[DatabaseEntry]:
            after = [each for each in self.queries.databases.all() if each.name > (cursor or "")]
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
        table_name: Annotated[str, Meta(min_length=1, max_length=1000, description="A table or view.")],
        database: DatabaseName = None,
        count_rows: Annotated[bool, "Count the rows too, which takes long for a large table."] = False,
    ) -> Table:
        """Describe a table: its columns with types and defaults, its keys, indexes, foreign keys and triggers, and the
        SQL that made it.
        """
        found = await self.queries.find(database)
        job = DescribeTable(table=table_name, count_rows=count_rows)
        described: Table = await self.queries.run(ctx, found, job)
        return described

    @tool(title="Explain Query", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def explain_query(
        self, ctx: Context, query: Query, params: Params = None, database: DatabaseName = None
    ) -> Plan:
        """Show how SQLite would run a query, without running it: which indexes it uses, and where it scans or sorts.
        Also says whether a query that writes is well formed.
        """
        found = await self.queries.find(database)
        plan: Plan = await self.queries.run(ctx, found, ExplainQuery(query=query, params=params))
        return plan

    def bounds(self, limit: int | None) -> PageLimits:
        """What one answer may hold."""
        config = self.queries.config
        return PageLimits(rows=self._most(limit), size=config.max_result_bytes, cell=config.max_cell_bytes)

    def _most(self, limit: int | None) -> int:
        most = self.queries.config.max_rows
        return min(limit or most, most)


def to_result(value: object) -> CallToolResult:
    """Structured content, and the same as compact JSON: indented, rows would take several times as much."""
    structured = encode_value(value)
    return CallToolResult(content=(TextContent(text=orjson.dumps(structured).decode()),), structured_content=structured)


def _entry(database: DatabaseFile) -> DatabaseEntry:
    try:
        size = os.stat(database.path).st_size
    except OSError:
        size = None
    return DatabaseEntry(name=database.name, file=database.path.name, bytes=size, writable=database.is_writable)
