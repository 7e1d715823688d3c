"""The tools that show slow statements, and missing and useless indexes."""

from __future__ import annotations

from typing import Annotated

from attrs import frozen
from msgspec import Meta

from mcptrio import tool

from .examples import in_database
from .index_advice import IndexAdvices, advise_indexes
from .queries import PostgresAccess, PostgresQueries
from .read_tools import DatabaseName
from .slow_statements import SlowOrder, SlowStatements, slow_statements
from .texts import advice_text, slow_text

__all__ = ["TuningTools"]

SmallLimit = Annotated[int, Meta(ge=1, le=100)]


@frozen(eq=False)
class TuningTools:
    """The tools for performance."""

    queries: PostgresQueries

    @tool(title="Slow Queries", read_only=True, destructive=False, idempotent=True, open_world=False, text=slow_text)
    async def slow_queries(
        self,
        order: Annotated[SlowOrder, "Time of all calls, time per call, calls, or blocks read."] = "total",
        database: DatabaseName = "",
        limit: SmallLimit = 10,
    ) -> SlowStatements:
        """List the statements that took the most time since the statistics began, with $1 for each constant."""
        configured = self.queries.find(database)
        return await self.queries.run(
            configured,
            PostgresAccess.OWN,
            lambda connection: slow_statements(connection, configured.name, order=order, limit=limit),
        )

    @tool(
        title="Advise Indexes",
        read_only=True,
        examples=in_database(),
        destructive=False,
        idempotent=True,
        open_world=False,
        text=advice_text,
    )
    async def advise_indexes(
        self,
        database: DatabaseName = "",
        schema: Annotated[str, "Default: all."] = "",
        limit: Annotated[int, Meta(ge=1, le=100, description="Maximum of each kind.")] = 20,
    ) -> IndexAdvices:
        """List foreign keys without an index, large tables that are scanned completely, and unused, redundant
        and invalid indexes."""
        configured = self.queries.find(database)
        return await self.queries.run(
            configured,
            PostgresAccess.OWN,
            lambda connection: advise_indexes(connection, configured.name, schema=schema, limit=limit),
        )
