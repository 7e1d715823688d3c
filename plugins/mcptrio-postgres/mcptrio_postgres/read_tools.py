"""The tools that list databases and run statements that only read.

Source: names and arguments as in mcptrio-sqlite.
"""

from __future__ import annotations

from typing import Annotated, Final

from attrs import frozen
from msgspec import Meta

from mcptrio import ToolError, tool

from .connection import PostgresConnection
from .examples import in_database
from .plans import PostgresPlan, explain_plan
from .queries import PostgresAccess, PostgresQueries
from .rows import PageBounds, PostgresRows, cursor_for, position_of, read_page
from .statements import first_word, single_statement, tokens
from .texts import databases_text, plan_text, rows_text
from .values import Value

__all__ = [
    "NO_PARAMS",
    "Cursor",
    "DatabaseName",
    "Limit",
    "Params",
    "PostgresDatabaseEntry",
    "PostgresDatabaseList",
    "PostgresReadTools",
    "Query",
    "check_length",
    "page_limits",
]

Query = Annotated[str, Meta(min_length=1, description="One SQL statement.")]
Params = Annotated[list[Value], "Values for $1, $2, …; an array for ANY($1)."]
NO_PARAMS: Final[list[Value]] = []
"""The default of ``params``. The schemas show it, and the tools do not change it."""
DatabaseName = Annotated[str, "Optional if there is only one."]
Limit = Annotated[int, Meta(ge=1)]
Cursor = Annotated[str, "From the previous answer."]

_READS: Final = ("select", "with", "values", "table")
_WRITES: Final = ("insert", "update", "delete", "merge")


@frozen(kw_only=True)
class PostgresDatabaseEntry:
    """A database in a list."""

    name: str
    address: Annotated[str, "Host and database."]
    writable: bool


@frozen(kw_only=True)
class PostgresDatabaseList:
    """Databases in order of name."""

    items: tuple[PostgresDatabaseEntry, ...]


@frozen(eq=False)
class PostgresReadTools:
    """The tools that read."""

    queries: PostgresQueries

    @tool(
        title="List Databases",
        read_only=True,
        examples=[{}],
        destructive=False,
        idempotent=True,
        open_world=False,
        text=databases_text,
    )
    async def list_databases(self) -> PostgresDatabaseList:
        """List the databases and whether they are writable."""
        pools = self.queries.pools.by_name
        return PostgresDatabaseList(
            items=tuple(
                PostgresDatabaseEntry(name=each.name, address=pools[each.name].address.label, writable=each.is_writable)
                for each in self.queries.all()
            )
        )

    @tool(
        title="Read Query",
        read_only=True,
        examples=in_database(query="SELECT * FROM pg_class"),
        destructive=False,
        idempotent=True,
        open_world=False,
        text=rows_text,
    )
    async def read_query(
        self,
        query: Query,
        params: Params = NO_PARAMS,
        database: DatabaseName = "",
        limit: Limit = 500,
        cursor: Cursor = "",
    ) -> PostgresRows:
        """Run one SELECT in a read-only transaction and return its rows. Pass values in params. Use ORDER BY if you
        page with cursor."""
        configured = self.queries.find(database)
        check_length(self.queries, query)
        sql = single_statement(query, _READS, "this tool only reads")
        skip = position_of(cursor, configured.name, query, params)
        limits = page_limits(self.queries, limit)

        async def work(connection: PostgresConnection) -> PostgresRows:
            page = await read_page(connection, sql, params, limits, skip=skip)
            position = skip + len(page.items)
            return PostgresRows(
                database=configured.name,
                columns=page.columns,
                items=tuple(page.items),
                truncated=page.has_more,
                next_cursor=cursor_for(position, configured.name, query, params) if page.has_more else None,
                notes=page.notes,
            )

        return await self.queries.run(configured, PostgresAccess.READ, work, sql=query)

    @tool(
        title="Explain Query",
        read_only=True,
        examples=in_database(query="SELECT * FROM pg_class"),
        destructive=False,
        idempotent=True,
        open_world=False,
        text=plan_text,
    )
    async def explain_query(
        self,
        query: Query,
        params: Annotated[list[Value], "Values for $1, $2, …; without them, the plan is generic."] = NO_PARAMS,
        database: DatabaseName = "",
        analyze: Annotated[bool, "Run the statement, for actual times and rows; one that writes is refused."] = False,
    ) -> PostgresPlan:
        """Show the query plan of a statement: where it uses an index, scans or sorts, and the estimated cost."""
        configured = self.queries.find(database)
        check_length(self.queries, query)
        if analyze:
            sql = single_statement(query, _READS, "analyze runs the statement, which must only read")
        else:
            sql = single_statement(query, (*_READS, *_WRITES), "other statements have no plan")
        limit = self.queries.config.max_query_bytes

        async def work(connection: PostgresConnection) -> PostgresPlan:
            return await explain_plan(connection, configured.name, sql, params, analyze=analyze, limit=limit)

        # Planning a statement that writes needs the rights to write, which the role of READ does not have.
        is_writing = first_word(list(tokens(sql))) in _WRITES
        return await self.queries.run(
            configured, PostgresAccess.OWN if is_writing else PostgresAccess.READ, work, sql=query
        )


def page_limits(queries: PostgresQueries, limit: int) -> PageBounds:
    """Return the limits of one result."""
    config = queries.config
    return PageBounds(
        max_rows=min(limit, config.max_rows),
        max_bytes=config.max_result_bytes,
        max_cell_chars=config.max_cell_chars,
        max_query_bytes=config.max_query_bytes,
    )


def check_length(queries: PostgresQueries, query: str) -> None:
    """Refuse a statement that is too long or that PostgreSQL cannot represent.

    Raises:
        ToolError: The statement is longer than ``max_query_bytes``, or contains NUL or a lone surrogate.
    """
    limit = queries.config.max_query_bytes
    try:
        size = len(query.encode())
    except UnicodeEncodeError:
        raise ToolError("expected SQL without lone surrogates") from None
    if size > limit:
        raise ToolError(f"expected SQL of at most {limit} bytes (max_query_bytes), got {size}")
    if "\0" in query:
        raise ToolError("expected SQL without NUL")
