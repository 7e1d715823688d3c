"""The tool that writes.

The plugin registers it if a database is writable. Each call is one transaction, so a call that fails, is cancelled or
times out changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import trio
from attrs import frozen

from mcptrio import Context, ToolError, tool

from .connection import PostgresConnection
from .queries import PostgresAccess, PostgresQueries
from .read_tools import NO_PARAMS, DatabaseName, Limit, Params, Query, check_length, page_limits
from .rows import PageBounds, ResultPage
from .statements import first_word, single_statement, tokens
from .texts import written_text
from .values import Cell, Value, encode_parameters

__all__ = ["PostgresWriteTool", "WriteResult"]

_CHANGES: Final = ("insert", "update", "delete", "merge", "with")
_SCHEMA_CHANGES: Final = ("create", "alter", "drop", "comment", "truncate", "refresh")
_COMMIT_TIMEOUT: Final = 30.0
"""Seconds for COMMIT. It is shielded from cancellation, so that the call can report whether it succeeded."""


@frozen(kw_only=True)
class WriteResult:
    """The changes that a statement made."""

    database: str
    command: Annotated[str, "What PostgreSQL ran, such as INSERT."]
    affected_rows: Annotated[int | None, "Changed rows; null for a change of the schema."]
    columns: Annotated[tuple[str, ...], "Column names of RETURNING."] = ()
    items: Annotated[tuple[tuple[Cell, ...], ...], "Rows of RETURNING."] = ()
    truncated: Annotated[bool, "RETURNING had more rows; they were changed as well."] = False
    dry_run: Annotated[bool, "All changes were rolled back."] = False
    notes: tuple[str, ...] = ()


@frozen(eq=False)
class PostgresWriteTool:
    """The tool that writes."""

    queries: PostgresQueries

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
        dry_run: Annotated[bool, "Report the effect and roll back."] = False,
    ) -> WriteResult:
        """Run one INSERT, UPDATE, DELETE or MERGE in its own transaction and return the number of changed rows, and
        the rows of RETURNING. Pass values in params."""
        configured = self.queries.find(database)
        if not configured.is_writable:
            raise ToolError(
                f"the database {configured.name} is read-only; "
                "the setting writable lists the databases that accept changes"
            )
        check_length(self.queries, query)
        has_schema_changes = self.queries.config.schema_changes
        allowed = (*_CHANGES, *_SCHEMA_CHANGES) if has_schema_changes else _CHANGES
        hint = "the setting schema_changes allows changes of the schema"
        sql = single_statement(query, allowed, "this tool changes rows and the schema" if has_schema_changes else hint)
        limits = page_limits(self.queries, limit)

        async def work(connection: PostgresConnection) -> WriteResult:
            return await _write(connection, configured.name, sql, params, limits, keep=not dry_run)

        written = await self.queries.run(configured, PostgresAccess.WRITE, work, sql=query)
        if not dry_run and first_word(list(tokens(sql))) in _SCHEMA_CHANGES:
            ctx.notify_resource_updated(f"postgres://{configured.name}/schema")
        return written


async def _write(
    connection: PostgresConnection,
    database: str,
    sql: str,
    params: Sequence[Value],
    limits: PageBounds,
    *,
    keep: bool,
) -> WriteResult:
    statement = await connection.prepare(sql)
    values = encode_parameters(params, statement.parameter_types, limit=limits.max_query_bytes)
    page = ResultPage(columns=statement.columns, bounds=limits)
    result = await connection.execute(sql, values, statement.parameter_types, on_row=page.add)
    command = (result.command_status or b"").decode()
    if keep:
        await _commit(connection)
    return WriteResult(
        database=database,
        command=command.rstrip("0123456789 "),
        affected_rows=result.command_tuples,
        columns=page.columns,
        items=tuple(page.items),
        truncated=page.has_more,
        dry_run=not keep,
        notes=page.notes,
    )


async def _commit(connection: PostgresConnection) -> None:
    with trio.move_on_after(_COMMIT_TIMEOUT, shield=True):
        await connection.run("COMMIT")
        return
    raise ToolError(f"COMMIT took more than {_COMMIT_TIMEOUT:g} seconds; check whether the change was made")
