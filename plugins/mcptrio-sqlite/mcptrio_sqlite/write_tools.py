"""The tools that write.

The plugin registers them if a database is writable. Each call is one transaction, so a call that fails, is cancelled or
times out changes nothing.

Source: names and the argument ``query`` as in the archived reference SQLite server (2025.4.25).
"""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import quote

from attrs import field, frozen

from mcptrio import Context, ToolError, tool

from .changes import ChangeResult, CreatedTable, CreateTableResult, Written
from .databases import DatabaseFile
from .jobs import ChangeRows, CreateTable
from .policy import AccessMode
from .queries import Queries
from .read_tools import NO_PARAMS, DatabaseName, Limit, Params, Query, SQLiteReadTools
from .texts import created_text, written_text
from .values import checked_parameters

__all__ = ["WriteTools"]

_MAX_NOTIFIED_TABLES: Final = 100
"""Maximum number of tables whose subscribers are notified after one statement."""

DryRun = Annotated[bool, "Report the effect and roll back."]


@frozen(eq=False)
class WriteTools:
    """The writing tools."""

    queries: Queries
    _reading: SQLiteReadTools = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_reading", SQLiteReadTools(self.queries))

    @tool(
        title="Write Query",
        read_only=False,
        destructive=True,
        idempotent=False,
        open_world=False,
        text=written_text,
    )
    async def write_query(
        self,
        ctx: Context,
        query: Query,
        params: Params = NO_PARAMS,
        database: DatabaseName = "",
        limit: Limit = 500,
        dry_run: DryRun = False,
    ) -> Written:
        """Run one INSERT, UPDATE, DELETE or REPLACE in its own transaction and return the number of changed rows, and
        the rows of RETURNING. Pass values in params."""
        database_file = await self._writable(database)
        changed: ChangeResult = await self.queries.run(
            ctx,
            database_file,
            ChangeRows(
                access=AccessMode.SCHEMA if self.queries.config.schema_changes else AccessMode.CHANGE,
                query=query,
                params=checked_parameters(params),
                bounds=self._reading.bounds(limit),
                keep=not dry_run,
            ),
        )
        if not dry_run:
            self._notify(ctx, database_file, changed.altered)
        return changed.written

    @tool(
        title="Create Table", read_only=False, destructive=False, idempotent=False, open_world=False, text=created_text
    )
    async def create_table(
        self, ctx: Context, query: Query, database: DatabaseName = "", dry_run: DryRun = False
    ) -> CreatedTable:
        """Run one CREATE TABLE statement."""
        database_file = await self._writable(database)
        result: CreateTableResult = await self.queries.run(
            ctx, database_file, CreateTable(query=query, keep=not dry_run)
        )
        if result.created.created:
            self._notify(ctx, database_file, result.altered)
        return result.created

    async def _writable(self, name: str) -> DatabaseFile:
        database_file = await self.queries.find(name)
        if not database_file.is_writable:
            raise ToolError(
                f"the database {database_file.name} is read-only; "
                "the setting writable lists the databases that accept changes"
            )
        return database_file

    def _notify(self, ctx: Context, database: DatabaseFile, altered: tuple[str, ...]) -> None:
        # Resources contain schemas only, so subscribers are not notified of changed rows.
        if not altered:
            return
        name = quote(database.name, safe="")
        ctx.notify_resource_updated(f"sqlite://{name}/schema")
        for table in altered[:_MAX_NOTIFIED_TABLES]:
            ctx.notify_resource_updated(f"sqlite://{name}/{quote(table, safe='')}")
