"""The tools that describe the schemas and tables of a database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

from attrs import frozen
from msgspec import Meta

from mcptrio import tool

from .catalog import PostgresTableList, SchemaList, list_schemas, list_tables
from .descriptions import PostgresTable, describe_tables
from .examples import in_database
from .queries import ConfiguredDatabase, PostgresAccess, PostgresQueries
from .read_tools import Cursor, DatabaseName, Limit
from .texts import descriptions_text, schemas_text, table_text, tables_text

__all__ = ["DescribeTools", "Descriptions"]

_MAX_TABLES: Final = 50


@frozen(kw_only=True)
class Descriptions:
    """Descriptions of tables, in the order of the request."""

    database: str
    items: tuple[PostgresTable, ...]
    omitted: Annotated[tuple[str, ...], "Tables that did not fit into the result."] = ()


@frozen(eq=False)
class DescribeTools:
    """The tools that describe tables."""

    queries: PostgresQueries

    @tool(
        title="List Schemas",
        read_only=True,
        examples=in_database(),
        destructive=False,
        idempotent=True,
        open_world=False,
        text=schemas_text,
    )
    async def list_schemas(self, database: DatabaseName = "", limit: Limit = 500, cursor: Cursor = "") -> SchemaList:
        """List the schemas of a database with their numbers of tables."""
        configured = self.queries.find(database)
        return await list_schemas(self.queries, configured, limit=self._max_rows(limit), after=cursor)

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
        self,
        database: DatabaseName = "",
        schema: Annotated[str, "Default: all."] = "",
        query: Annotated[str, "Part of a name or comment."] = "",
        limit: Limit = 500,
        cursor: Cursor = "",
    ) -> PostgresTableList:
        """List tables and views with their numbers of columns, estimated rows and comments."""
        configured = self.queries.find(database)
        return await list_tables(
            self.queries, configured, schema=schema, part=query, limit=self._max_rows(limit), after=cursor
        )

    @tool(
        title="Describe Tables",
        read_only=True,
        destructive=False,
        idempotent=True,
        open_world=False,
        text=descriptions_text,
    )
    async def describe_tables(
        self,
        tables: Annotated[
            list[Annotated[str, Meta(max_length=200)]], Meta(min_length=1, max_length=_MAX_TABLES, description="Names.")
        ],
        database: DatabaseName = "",
    ) -> Descriptions:
        """Show the columns, keys, indexes, constraints and comments of up to 50 tables or views in one call."""
        configured = self.queries.find(database)
        return self._fit_into_result(configured, await describe(self.queries, configured, tables))

    def _fit_into_result(self, database: ConfiguredDatabase, tables: list[PostgresTable]) -> Descriptions:
        """Return the tables whose text fits into one result, at least one."""
        size = 0
        for count, table in enumerate(tables):
            size += len(table_text(table).encode()) + 1
            if count and size > self.queries.config.max_result_bytes:
                rest = tuple(f"{each.schema}.{each.name}" for each in tables[count:])
                return Descriptions(database=database.name, items=tuple(tables[:count]), omitted=rest)
        return Descriptions(database=database.name, items=tuple(tables))

    def _max_rows(self, limit: int) -> int:
        return min(limit, self.queries.config.max_rows)


async def describe(queries: PostgresQueries, database: ConfiguredDatabase, names: Iterable[str]) -> list[PostgresTable]:
    """Return the descriptions of tables, which are read in one transaction."""
    return await queries.run(database, PostgresAccess.OWN, lambda connection: describe_tables(connection, list(names)))
