"""Schemas as resources, with completion of database and table names.

A resource shows only what a tool shows as well. A table whose name contains a slash or is ``schema`` has no resource,
but describe_tables shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from attrs import frozen

from mcptrio import PluginSetup, ResourceNotFound, ToolError, completion, hookimpl, resource

from .catalog import list_tables
from .describe_tools import describe
from .queries import ConfiguredDatabase, PostgresQueries
from .texts import table_text, tables_text

__all__ = ["SCHEMA", "TABLE", "DatabaseResources"]

SCHEMA: Final = "postgres://{database}/schema"
TABLE: Final = "postgres://{database}/{table}"
_MAX_CANDIDATES: Final = 1000
"""Maximum number of names among which a completion searches."""


@frozen(eq=False)
class DatabaseResources:
    """The resources of the databases."""

    queries: PostgresQueries

    @resource(SCHEMA, name="schema", title="Tables of a database", mime_type="text/plain")
    async def schema(self, database: str) -> str:
        """The tables and views of a database, as returned by {tool:list_tables}."""
        configured = self._find(database, f"postgres://{database}/schema")
        limit = self.queries.config.max_rows
        return tables_text(await list_tables(self.queries, configured, schema="", part="", limit=limit, after=""))

    @resource(TABLE, name="table", title="One table", mime_type="text/plain")
    async def table(self, database: str, table: str) -> str:
        """A table with its columns, keys and indexes, as returned by {tool:describe_tables}."""
        uri = f"postgres://{database}/{table}"
        configured = self._find(database, uri)
        try:
            [described] = await describe(self.queries, configured, [table])
        except ToolError as error:
            if str(error).startswith("no such table"):
                raise ResourceNotFound(uri) from error
            raise
        return table_text(described)

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        """List the schemas of the configured databases."""
        for each in self.queries.all():
            server.add_resource(
                partial(self.schema, database=each.name),
                f"postgres://{each.name}/schema",
                name=f"{each.name} schema",
                description=f"The tables and views of the database {each.name}.",
                mime_type="text/plain",
            )

    @completion("resource", SCHEMA, "database")
    @completion("resource", TABLE, "database")
    async def complete_database(self) -> list[str]:
        """Return names of databases."""
        return [each.name for each in self.queries.all()][:_MAX_CANDIDATES]

    @completion("resource", TABLE, "table")
    async def complete_table(self, arguments: Mapping[str, str]) -> list[str]:
        """Return names of tables in the chosen database."""
        return await self.queries.tables(self.queries.find(arguments.get("database", "")), limit=_MAX_CANDIDATES)

    def _find(self, name: str, uri: str) -> ConfiguredDatabase:
        try:
            return self.queries.find(name)
        except ToolError as error:
            raise ResourceNotFound(uri) from error
