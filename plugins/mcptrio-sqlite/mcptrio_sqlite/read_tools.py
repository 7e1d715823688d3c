"""The tools that read.

A tool creates a job, and ``Queries`` runs it in a child process with a deadline.

Source: names and first arguments of read_query, list_tables and describe_table as in the archived reference SQLite
server (2025.4.25); the others are added.
"""

from __future__ import annotations

import os
from typing import Annotated, Final

from attrs import frozen
from msgspec import Meta

from mcptrio import Context, tool

from .databases import DatabaseFile
from .examples import in_database
from .jobs import DescribeTable, ExplainQuery, ListTables, ReadRows
from .plans import Plan
from .queries import Queries
from .rows import PageLimits, RowPage, Rows, cursor_for, position_of
from .schema import Table, TableEntry
from .texts import databases_text, plan_text, rows_text, table_text, tables_text
from .values import Parameter, Parameters, checked_parameters

__all__ = [
    "NO_PARAMS",
    "DatabaseEntry",
    "DatabaseList",
    "DatabaseName",
    "Params",
    "Query",
    "SQLiteReadTools",
    "TableList",
]

Query = Annotated[str, Meta(min_length=1, description="One SQL statement.")]
Params = Annotated[
    Parameters,
    "Values for ? or :name; a blob as {base64}, an integer beyond 2^53 as {integer}.",
]
NO_PARAMS: Final[list[Parameter]] = []
"""The default of ``params``. The schemas show it, and the tools do not change it."""
DatabaseName = Annotated[str, "Optional if there is only one."]
Limit = Annotated[int, Meta(ge=1)]
Cursor = Annotated[str, "From the previous answer."]


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
class SQLiteReadTools:
    """The reading tools."""

    queries: Queries

    @tool(
        title="Read Query",
        read_only=True,
        examples=in_database(query="SELECT * FROM sqlite_master"),
        destructive=False,
        idempotent=True,
        open_world=False,
        text=rows_text,
    )
    async def read_query(
        self,
        ctx: Context,
        query: Query,
        params: Params = NO_PARAMS,
        database: DatabaseName = "",
        limit: Limit = 500,
        cursor: Cursor = "",
    ) -> Rows:
        """Run one read-only SQL statement and return its rows. Pass values in params. Use ORDER BY if you page with
        cursor."""
        database_file = await self.queries.find(database)
        values = checked_parameters(params)
        skip = position_of(cursor, database_file.name, query, values)
        job = ReadRows(query=query, params=values, bounds=self.bounds(limit), skip=skip)
        page: RowPage = await self.queries.run(ctx, database_file, job)
        more = cursor_for(skip + len(page.items), database_file.name, query, values) if page.has_more else None
        return Rows(
            database=database_file.name,
            columns=page.columns,
            items=page.items,
            truncated=page.has_more,
            next_cursor=more,
            notes=page.notes,
        )

    @tool(
        title="List Databases",
        read_only=True,
        examples=[{}],
        destructive=False,
        idempotent=True,
        open_world=False,
        text=databases_text,
    )
    async def list_databases(self, limit: Limit = 500, cursor: Cursor = "") -> DatabaseList:
        """List the databases with their sizes and whether they are writable."""
        max_rows = self._max_rows(limit)

        def work() -> list[DatabaseEntry]:
            after = [each for each in self.queries.databases.all() if each.name > cursor]
            # One entry more than requested shows whether there are more.
            return [_entry(each) for each in after[: max_rows + 1]]

        entries = await self.queries.run_in_thread(work)
        return DatabaseList(
            items=tuple(entries[:max_rows]),
            truncated=len(entries) > max_rows,
            next_cursor=entries[max_rows - 1].name if len(entries) > max_rows else None,
        )

    @tool(
        title="List Tables",
        read_only=True,
        examples=in_database(),
        destructive=False,
        idempotent=True,
        open_world=False,
        text=tables_text,
    )
    async def list_tables(
        self, ctx: Context, database: DatabaseName = "", limit: Limit = 500, cursor: Cursor = ""
    ) -> TableList:
        """List the tables and views of a database with their numbers of columns."""
        database_file = await self.queries.find(database)
        max_rows = self._max_rows(limit)
        entries, has_more = await self.queries.run(ctx, database_file, ListTables(limit=max_rows, after=cursor))
        return TableList(
            database=database_file.name,
            items=entries,
            truncated=has_more,
            next_cursor=entries[-1].name if has_more else None,
        )

    @tool(title="Describe Table", read_only=True, destructive=False, idempotent=True, open_world=False, text=table_text)
    async def describe_table(
        self,
        ctx: Context,
        table_name: Annotated[str, Meta(min_length=1, max_length=1000)],
        database: DatabaseName = "",
        count_rows: Annotated[bool, "Slow for a large table."] = False,
    ) -> Table:
        """Show the SQL of a table or view, its indexes and its triggers."""
        database_file = await self.queries.find(database)
        job = DescribeTable(table=table_name, count_rows=count_rows)
        described: Table = await self.queries.run(ctx, database_file, job)
        return described

    @tool(
        title="Explain Query",
        read_only=True,
        examples=in_database(query="SELECT * FROM sqlite_master"),
        destructive=False,
        idempotent=True,
        open_world=False,
        text=plan_text,
    )
    async def explain_query(
        self, ctx: Context, query: Query, params: Params = NO_PARAMS, database: DatabaseName = ""
    ) -> Plan:
        """Show the query plan of a statement without running it: where it uses an index, scans or sorts."""
        database_file = await self.queries.find(database)
        plan: Plan = await self.queries.run(
            ctx, database_file, ExplainQuery(query=query, params=checked_parameters(params))
        )
        return plan

    def bounds(self, limit: int) -> PageLimits:
        """Return the limits of one result."""
        config = self.queries.config
        return PageLimits(
            max_rows=self._max_rows(limit), max_bytes=config.max_result_bytes, max_cell_bytes=config.max_cell_bytes
        )

    def _max_rows(self, limit: int) -> int:
        return min(limit, self.queries.config.max_rows)


def _entry(database: DatabaseFile) -> DatabaseEntry:
    try:
        size = os.stat(database.path).st_size
    except OSError:
        size = None
    return DatabaseEntry(name=database.name, file=database.path.name, bytes=size, writable=database.is_writable)
