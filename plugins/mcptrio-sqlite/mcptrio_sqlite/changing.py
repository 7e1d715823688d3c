"""The tools that write.

The plugin registers them if a database is writable. Each call is one transaction; a call that fails, is cancelled or
times out has changed nothing.

Source: names and the argument ``query`` as in the archived reference SQLite server (2025.4.25).
"""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import quote

from attrs import field, frozen

from mcptrio import Context, ToolError, tool

from .changes import Changed, CreatedTable, Made, Written
from .databases import DatabaseFile
from .jobs import ChangeRows, CreateTable
from .policy import AccessMode
from .queries import Queries
from .reading import NO_PARAMS, DatabaseName, Limit, Params, Query, SQLiteReading
from .texts import created_text, written_text
from .values import checked

__all__ = ["Changing"]

_MAX_NOTIFIED_TABLES: Final = 100
"""Tables whose subscribers are notified after one statement."""

DryRun = Annotated[bool, "Report the effect and roll back."]


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
        found = await self._writable(database)
        changed: Changed = await self.queries.run(
            ctx,
            found,
            ChangeRows(
                access=AccessMode.SCHEMA if self.queries.config.schema_changes else AccessMode.CHANGE,
                query=query,
                params=checked(params),
                bounds=self._reading.bounds(limit),
                keep=not dry_run,
            ),
        )
        if not dry_run:
            self._notify(ctx, found, changed.altered)
        return changed.written

    @tool(
        title="Create Table", read_only=False, destructive=False, idempotent=False, open_world=False, text=created_text
    )
    async def create_table(
        self, ctx: Context, query: Query, database: DatabaseName = "", dry_run: DryRun = False
    ) -> CreatedTable:
        """Run one CREATE TABLE statement."""
        found = await self._writable(database)
        made: Made = await self.queries.run(ctx, found, CreateTable(query=query, keep=not dry_run))
        if made.created.created:
            self._notify(ctx, found, made.altered)
        return made.created

    async def _writable(self, name: str) -> DatabaseFile:
        found = await self.queries.find(name)
        if not found.is_writable:
            raise ToolError(
                f"the database {found.name} is read-only; the setting writable lists the databases that accept changes"
            )
        return found

    def _notify(self, ctx: Context, database: DatabaseFile, altered: tuple[str, ...]) -> None:
        # Only schemas are resources, so changed rows are not announced.
        if not altered:
            return
        name = quote(database.name, safe="")
        ctx.notify_resource_updated(f"sqlite://{name}/schema")
        for table in altered[:_MAX_NOTIFIED_TABLES]:
            ctx.notify_resource_updated(f"sqlite://{name}/{quote(table, safe='')}")
