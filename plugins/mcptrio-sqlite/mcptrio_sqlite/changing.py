"""The tools that write.

Marked for mcptrio, registered by the plugin where a database may be written. The one rule: a call is one transaction,
and one that fails, is cancelled or takes too long has changed nothing.

Source: names and the argument ``query`` as in the archived reference SQLite server (2025.4.25).
"""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import quote

from attrs import field, frozen

from mcptrio import Context, ToolError, tool
from mcptrio.schema import schema_of
from mcptrio.types import CallToolResult

from .changes import Changed, CreatedTable, Made, Written
from .databases import DatabaseFile
from .jobs import ChangeRows, CreateTable
from .policy import AccessMode
from .queries import Queries
from .reading import DatabaseName, Limit, Params, Query, SQLiteReading, to_result

__all__ = ["Changing"]

_MAX_NOTIFIED_TABLES: Final = 100
"""Tables whose subscribers are told of one statement."""

DryRun = Annotated[bool, "Run it, tell what it would do, and undo it."]


@frozen(eq=False)
class Changing:
    """The writing tools."""

    queries: Queries
    _reading: SQLiteReading = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_reading", SQLiteReading(self.queries))

    @tool(
        title="Write Query",
        read_only=False,
        destructive=True,
        idempotent=False,
        open_world=False,
        output_schema=schema_of(Written),
    )
    async def write_query(
        self,
        ctx: Context,
        query: Query,
        params: Params = None,
        database: DatabaseName = None,
        limit: Limit = None,
        dry_run: DryRun = False,
    ) -> CallToolResult:
        """Run one INSERT, UPDATE, DELETE or REPLACE as a transaction of its own, and tell how many rows it changed;
        with RETURNING, the rows too. Put values into params, not into the text. Without WHERE, UPDATE and DELETE change
        every row. ALTER, DROP and CREATE INDEX work only where the configuration allows them.
        """
        found = await self._writable(database)
        changed: Changed = await self.queries.run(
            ctx,
            found,
            ChangeRows(
                access=AccessMode.SCHEMA if self.queries.config.schema_changes else AccessMode.CHANGE,
                query=query,
                params=params,
                bounds=self._reading.bounds(limit),
                keep=not dry_run,
            ),
        )
        if not dry_run:
            self._notify(ctx, found, changed.altered)
        return to_result(changed.written)

    @tool(title="Create Table", read_only=False, destructive=False, idempotent=False, open_world=False)
    async def create_table(
        self, ctx: Context, query: Query, database: DatabaseName = None, dry_run: DryRun = False
    ) -> CreatedTable:
        """Create a table with one CREATE TABLE statement; IF NOT EXISTS and AS SELECT are fine. A database that has no
        file yet is created with it.
        """
        found = await self._writable(database)
        made: Made = await self.queries.run(ctx, found, CreateTable(query=query, keep=not dry_run))
        if made.created.created:
            self._notify(ctx, found, made.altered)
        return made.created

    async def _writable(self, name: str | None) -> DatabaseFile:
        found = await self.queries.find(name)
        if not found.is_writable:
            raise ToolError(
                f"the database {found.name} may only be read; writable in the configuration names the others"
            )
        return found

    def _notify(self, ctx: Context, database: DatabaseFile, altered: tuple[str, ...]) -> None:
        """Only the schema is a resource; rows are not."""
        if not altered:
            return
        name = quote(database.name, safe="")
        ctx.notify_resource_updated(f"sqlite://{name}/schema")
        for table in altered[:_MAX_NOTIFIED_TABLES]:
            ctx.notify_resource_updated(f"sqlite://{name}/{quote(table, safe='')}")
