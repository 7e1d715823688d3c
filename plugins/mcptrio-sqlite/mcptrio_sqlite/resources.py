"""Schemas as resources, with completion of database and table names.

A resource shows only what a tool shows as well. A table whose name contains a slash or is ``schema`` has no resource,
but describe_table shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from attrs import frozen

from mcptrio import Context, PluginSetup, ResourceNotFound, ToolError, completion, hookimpl, resource

from .databases import DatabaseFile
from .jobs import DescribeTable, ShowSchema, TableNames
from .queries import Queries
from .schema import Table

__all__ = ["SCHEMA", "TABLE", "SchemaResources"]

SCHEMA: Final = "sqlite://{database}/schema"
TABLE: Final = "sqlite://{database}/{table}"
_MAX_CANDIDATES: Final = 1000
"""Maximum number of names among which a completion searches."""


@frozen(eq=False)
class SchemaResources:
    """The resources of the databases."""

    queries: Queries

    @resource(SCHEMA, name="schema", title="Schema of a database", mime_type="application/sql")
    async def schema(self, ctx: Context, database: str) -> str:
        """The SQL of the whole schema of a database."""
        database_file = await self._find(database, f"sqlite://{database}/schema")
        tool_names = f"{ctx.tool_name('list_tables')} and {ctx.tool_name('describe_table')}"
        job = ShowSchema(limit=self.queries.config.max_export_bytes, tool_names=tool_names)
        schema: str = await self.queries.run(ctx, database_file, job)
        return schema

    @resource(TABLE, name="table", title="One table", mime_type="application/json")
    async def table(self, ctx: Context, database: str, table: str) -> Table:
        """A table with its columns, keys, indexes and SQL, as returned by {tool:describe_table}."""
        uri = f"sqlite://{database}/{table}"
        database_file = await self._find(database, uri)
        try:
            described: Table = await self.queries.run(ctx, database_file, DescribeTable(table=table))
        except ToolError as error:
            # The child sends its error as text, so only the text shows its kind.
            if str(error).startswith("no such table"):
                raise ResourceNotFound(uri) from error
            raise
        return described

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        """List the schemas of the configured databases."""
        # Databases of the folder are not listed, because its files may change at any time.
        for name in sorted(self.queries.config.databases):
            server.add_resource(
                partial(self.schema, database=name),
                f"sqlite://{name}/schema",
                name=f"{name} schema",
                description=f"The SQL of the whole schema of the database {name}.",
                mime_type="application/sql",
            )

    @completion("resource", SCHEMA, "database")
    @completion("resource", TABLE, "database")
    @completion("prompt", "analyse_table", "database")
    async def complete_database(self) -> list[str]:
        """Return names of databases."""
        names = await self.queries.run_in_thread(lambda: [database.name for database in self.queries.databases.all()])
        return names[:_MAX_CANDIDATES]

    @completion("resource", TABLE, "table")
    @completion("prompt", "analyse_table", "table")
    async def complete_table(self, ctx: Context, arguments: Mapping[str, str]) -> list[str]:
        """Return names of tables in the chosen database."""
        database_file = await self.queries.find(arguments.get("database", ""))
        names: list[str] = await self.queries.run(ctx, database_file, TableNames(limit=_MAX_CANDIDATES))
        return names

    async def _find(self, name: str, uri: str) -> DatabaseFile:
        try:
            return await self.queries.find(name)
        except ToolError as error:
            raise ResourceNotFound(uri) from error
