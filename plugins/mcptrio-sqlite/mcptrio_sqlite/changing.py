"""The tools that write.

Marked for mcptrio, registered by the plugin where a database may be written. The one rule: a call is one transaction,
and one that fails, is cancelled or takes too long has changed nothing.

Source: names and the argument ``query`` as in the archived reference SQLite server (2025.4.25).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, TypeVar
from urllib.parse import quote

from attrs import field, frozen

from mcptrio import CallToolResult, Context, ToolError, tool
from mcptrio.capabilities.schemas import schema_of

from .connections import Opened
from .databases import Database
from .policy import Access, Policy
from .queries import Queries
from .reading import DatabaseName, Limit, Params, Query, Reading, told
from .rows import Page, read_page
from .values import Cell, shown

__all__ = ["Changing", "Created", "Written"]

_T = TypeVar("_T")

_TOLD: Final = 100
"""Tables whose subscribers are told of one statement."""

DryRun = Annotated[bool, "Run it, tell what it would do, and undo it."]


@frozen(kw_only=True)
class Written:
    """What a statement has changed."""

    database: str
    affected_rows: Annotated[int, "Rows that the statement inserted, updated or deleted."]
    total_changes: Annotated[int, "The same with those of triggers and foreign key actions."]
    last_insert_rowid: Annotated[Cell, "The rowid of the last row inserted; null if none was."]
    columns: Annotated[tuple[str, ...], "The names of the columns of RETURNING."] = ()
    items: Annotated[tuple[tuple[Cell, ...], ...], "The rows of RETURNING."] = ()
    truncated: Annotated[bool, "RETURNING had more rows; they were changed all the same."] = False
    dry_run: Annotated[bool, "Everything was undone."] = False
    notes: tuple[str, ...] = ()


@frozen(kw_only=True)
class Created:
    """What became of a CREATE TABLE."""

    database: str
    table: str
    created: Annotated[bool, "False where it existed already, or with dry_run."]
    sql: Annotated[str, "The statement as SQLite keeps it."]
    dry_run: bool = False


@frozen(eq=False)
class Changing:
    """The writing tools."""

    queries: Queries
    _reading: Reading = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_reading", Reading(self.queries))

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
        access = Access.SCHEMA if self.queries.config.schema_changes else Access.CHANGE
        policy = self.queries.policy(access)
        bounds = self._reading.bounds(limit)

        def change(opened: Opened) -> Written:
            rows = opened.execute(query, params)
            page = read_page(rows, opened.watch, bounds, drain=True)
            if not policy.written and not policy.altered:
                raise ToolError("expected a statement that writes; read_query is for those that read")
            [(direct, rowid)] = opened.ask("SELECT changes(), last_insert_rowid()")
            return Written(
                database=found.name,
                affected_rows=direct,
                total_changes=opened.connection.total_changes,
                last_insert_rowid=shown(rowid, 64) if rowid else None,
                columns=page.columns,
                items=page.items,
                truncated=page.has_more,
                dry_run=dry_run,
                notes=_notes(page, policy),
            )

        written = await self.queries.run(ctx, found, policy, lambda opened: _transact(opened, change, keep=not dry_run))
        if not dry_run:
            self._notify(ctx, found, policy)
        return told(written)

    @tool(title="Create Table", read_only=False, destructive=False, idempotent=False, open_world=False)
    async def create_table(
        self, ctx: Context, query: Query, database: DatabaseName = None, dry_run: DryRun = False
    ) -> Created:
        """Create a table with one CREATE TABLE statement; IF NOT EXISTS and AS SELECT are fine. A database that has no
        file yet is created with it.
        """
        found = await self._writable(database)
        policy = self.queries.policy(Access.CREATE)

        def create(opened: Opened) -> Created:
            before = {name for (name,) in opened.ask("SELECT lower(name) FROM sqlite_master")}
            opened.execute(query).close()
            name = policy.created
            if name is None:
                raise ToolError("expected a CREATE TABLE statement")
            rows = opened.ask("SELECT name, sql FROM sqlite_master WHERE name = ? COLLATE NOCASE", name)
            if not rows:
                raise ToolError("expected a CREATE TABLE statement that creates a table, got one that does not")
            [(table, sql)] = rows
            is_new = table.lower() not in before and not dry_run
            return Created(database=found.name, table=table, created=is_new, sql=sql or "", dry_run=dry_run)

        created = await self.queries.run(ctx, found, policy, lambda opened: _transact(opened, create, keep=not dry_run))
        if created.created:
            self._notify(ctx, found, policy)
        return created

    async def _writable(self, name: str | None) -> Database:
        found = await self.queries.find(name)
        if not found.is_writable:
            raise ToolError(
                f"the database {found.name} may only be read; writable in the configuration names the others"
            )
        return found

    def _notify(self, ctx: Context, database: Database, policy: Policy) -> None:
        """Only the schema is a resource; rows are not."""
        if not policy.altered:
            return
        name = quote(database.name, safe="")
        ctx.notify_resource_updated(f"sqlite://{name}/schema")
        for table in sorted(policy.altered)[:_TOLD]:
            ctx.notify_resource_updated(f"sqlite://{name}/{quote(table, safe='')}")


def _transact(opened: Opened, work: Callable[[Opened], _T], *, keep: bool) -> _T:
    """Do it in a transaction; ``keep`` or undo it.

    The lock is taken first, so nobody else's writing comes between; until COMMIT nothing is seen from outside, and
    whatever is raised before leaves the transaction to the closing of the connection, which undoes it.
    """
    connection, policy = opened.connection, opened.policy
    connection.set_authorizer(None)
    opened.patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
    connection.set_authorizer(policy)
    result = work(opened)
    connection.set_authorizer(None)
    if keep:
        opened.patiently(lambda: connection.execute("COMMIT"))
    else:
        connection.execute("ROLLBACK")
    return result


def _notes(page: Page, policy: Policy) -> tuple[str, ...]:
    others = sorted(policy.written)
    if len(others) > 1:
        return (*page.notes, f"tables that the statement may change, its triggers included: {', '.join(others[:20])}")
    return page.notes
