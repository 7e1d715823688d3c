"""Schemas as resources, with completion of databases and tables.

Marked for mcptrio, registered by the plugin. The one rule: a resource shows what a tool would show, no more.

A table whose name has a slash in it, or is ``schema``, has no resource of its own; describe_table shows it.
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
_CANDIDATES: Final = 1000
"""Names that are ranked; a person types another letter."""


@frozen(eq=False)
class SchemaResources:
    """The resources of the databases."""

    queries: Queries

    @resource(SCHEMA, name="schema", title="Schema of a database", mime_type="application/sql")
    async def schema(self, ctx: Context, database: str) -> str:
        """The SQL that made everything in a database."""
        found = await self._find(database, f"sqlite://{database}/schema")
        others = f"{ctx.tool_name('list_tables')} and {ctx.tool_name('describe_table')}"
        job = ShowSchema(limit=self.queries.config.max_export_bytes, others=others)
        schema: str = await self.queries.run(ctx, found, job)
        return schema

    @resource(TABLE, name="table", title="One table", mime_type="application/json")
    async def table(self, ctx: Context, database: str, table: str) -> Table:
        """A table in full: columns, keys, indexes and the SQL that made it; as {tool:describe_table} says it."""
        uri = f"sqlite://{database}/{table}"
        found = await self._find(database, uri)
        try:
            described: Table = await self.queries.run(ctx, found, DescribeTable(table=table))
        except ToolError as error:
            if str(error).startswith("no such table"):
                raise ResourceNotFound(uri) from error
            raise
        return described

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        """List the schemas of the configured databases; what is in the folder may come and go."""
        for name in sorted(self.queries.config.databases):
            server.add_resource(
                partial(self.schema, database=name),
                f"sqlite://{name}/schema",
                name=f"{name} schema",
                description=f"The SQL that made everything in the database {name}.",
                mime_type="application/sql",
            )

    @completion("resource", SCHEMA, "database")
    @completion("resource", TABLE, "database")
    @completion("prompt", "analyse_table", "database")
    async def complete_database(self) -> list[str]:
        """Names of databases."""
        names = await self.queries.look(lambda: [database.name for database in self.queries.databases.all()])
        return names[:_CANDIDATES]

    @completion("resource", TABLE, "table")
    @completion("prompt", "analyse_table", "table")
    async def complete_table(self, ctx: Context, arguments: Mapping[str, str]) -> list[str]:
        """Names of tables of the database that was chosen before."""
        found = await self.queries.find(arguments.get("database") or None)
        names: list[str] = await self.queries.run(ctx, found, TableNames(limit=_CANDIDATES))
        return names

    async def _find(self, name: str, uri: str) -> DatabaseFile:
        try:
            return await self.queries.find(name)
        except ToolError as error:
            raise ResourceNotFound(uri) from error
