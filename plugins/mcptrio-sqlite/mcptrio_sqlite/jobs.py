"""The jobs that a child process can run on an open database.

Tools create a job, the server sends it to a child process, and the child calls ``run``. A job contains only values,
because it is pickled. ``access`` is the set of actions that its SQL may perform; ``answer`` is the type of its result.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, TypeAlias

from attrs import frozen

from mcptrio import ToolError

from .changes import ChangeResult, CreatedTable, CreateTableResult, Written, notes_on, transact
from .connections import OpenDatabase
from .csv_files import CsvFile, Exported
from .plans import Plan, explain_plan
from .policy import AccessMode
from .rows import PageLimits, RowPage, read_page
from .schema import Table, TableEntry, describe_table, list_tables, schema_text, table_names
from .values import Parameters, to_cell

__all__ = [
    "ChangeRows",
    "CreateTable",
    "DescribeTable",
    "ExplainQuery",
    "ExportRows",
    "Job",
    "ListTables",
    "ReadRows",
    "Recover",
    "ShowSchema",
    "TableNames",
]

_NOT_READING: Final = "expected a statement that returns rows, such as SELECT"


@frozen(kw_only=True)
class ReadRows:
    """Return one page of the rows of a query."""

    answer: ClassVar[Any] = RowPage
    access: ClassVar[AccessMode] = AccessMode.READ
    query: str
    params: Parameters | None
    bounds: PageLimits
    skip: int

    def run(self, opened: OpenDatabase) -> RowPage:
        rows = opened.execute(self.query, self.params)
        # sqlite3 describes columns only for statements that return rows.
        if rows.description is None:
            raise ToolError(_NOT_READING)
        return read_page(rows, opened.monitor, self.bounds, skip=self.skip)


@frozen(kw_only=True)
class ExportRows:
    """Return the rows of a query as a CSV file."""

    answer: ClassVar[Any] = Exported
    access: ClassVar[AccessMode] = AccessMode.READ
    query: str
    params: Parameters | None
    skip: int
    max_rows: int
    max_bytes: int
    header: bool
    delimiter: str

    def run(self, opened: OpenDatabase) -> Exported:
        file = CsvFile(delimiter=self.delimiter, max_bytes=self.max_bytes)
        rows = opened.execute(self.query, self.params)
        if rows.description is None:
            raise ToolError(_NOT_READING)
        columns = tuple(name for name, *_ in rows.description)
        if self.header:
            file.add(columns)
        count, has_more = 0, False
        for position, row in enumerate(rows):
            opened.monitor.count_row()
            if position < self.skip:
                continue
            if count == self.max_rows or not file.add(row):
                has_more = True
                break
            count += 1
        return Exported(columns=columns, text="".join(file.lines), rows=count, size=file.size, has_more=has_more)


@frozen(kw_only=True)
class ExplainQuery:
    """Return a query plan."""

    answer: ClassVar[Any] = Plan
    access: ClassVar[AccessMode] = AccessMode.EXPLAIN
    query: str
    params: Parameters | None

    def run(self, opened: OpenDatabase) -> Plan:
        return explain_plan(opened, self.query, self.params)


@frozen(kw_only=True)
class ListTables:
    """Return tables and views, and whether there are more."""

    answer: ClassVar[Any] = tuple[tuple[TableEntry, ...], bool]
    access: ClassVar[AccessMode] = AccessMode.READ
    limit: int
    after: str

    def run(self, opened: OpenDatabase) -> tuple[tuple[TableEntry, ...], bool]:
        return list_tables(opened, limit=self.limit, after=self.after)


@frozen(kw_only=True)
class TableNames:
    """Return names of tables and views, for completion."""

    answer: ClassVar[Any] = list[str]
    access: ClassVar[AccessMode] = AccessMode.READ
    limit: int

    def run(self, opened: OpenDatabase) -> list[str]:
        return table_names(opened, self.limit)


@frozen(kw_only=True)
class DescribeTable:
    """Return the description of one table."""

    answer: ClassVar[Any] = Table
    access: ClassVar[AccessMode] = AccessMode.READ
    table: str
    count_rows: bool = False

    def run(self, opened: OpenDatabase) -> Table:
        return describe_table(opened, self.table, count_rows=self.count_rows)


@frozen(kw_only=True)
class ShowSchema:
    """Return the SQL of the whole schema."""

    answer: ClassVar[Any] = str
    access: ClassVar[AccessMode] = AccessMode.READ
    limit: int
    tool_names: str
    """Names of the tools that show omitted parts."""

    def run(self, opened: OpenDatabase) -> str:
        return schema_text(opened, self.limit, self.tool_names)


@frozen(kw_only=True)
class ChangeRows:
    """Run a statement that writes."""

    answer: ClassVar[Any] = ChangeResult
    access: AccessMode
    query: str
    params: Parameters | None
    bounds: PageLimits
    keep: bool
    """False to roll back."""

    def run(self, opened: OpenDatabase) -> ChangeResult:
        return transact(opened, self._change, keep=self.keep)

    def _change(self, opened: OpenDatabase) -> ChangeResult:
        policy = opened.policy
        rows = opened.execute(self.query, self.params)
        # A statement with RETURNING changes further rows only while its rows are read.
        page = read_page(rows, opened.monitor, self.bounds, drain=True)
        # The authorizer has seen every table that the statement writes; the SQL text is not inspected.
        if not policy.written and not policy.altered:
            raise ToolError("expected a statement that writes, got one that reads; use {tool:read_query} for it")
        [(direct, rowid)] = opened.fetch_all("SELECT changes(), last_insert_rowid()")
        written = Written(
            database=opened.database.name,
            affected_rows=direct,
            total_changes=opened.connection.total_changes,
            last_insert_rowid=to_cell(rowid, 64) if rowid else None,
            columns=page.columns,
            items=page.items,
            truncated=page.has_more,
            dry_run=not self.keep,
            notes=notes_on(page, policy),
        )
        return ChangeResult(written=written, altered=tuple(sorted(policy.altered)))


@frozen(kw_only=True)
class CreateTable:
    """Run a CREATE TABLE statement."""

    answer: ClassVar[Any] = CreateTableResult
    access: ClassVar[AccessMode] = AccessMode.CREATE
    query: str
    keep: bool
    """False to roll back."""

    def run(self, opened: OpenDatabase) -> CreateTableResult:
        return transact(opened, self._create, keep=self.keep)

    def _create(self, opened: OpenDatabase) -> CreateTableResult:
        # With IF NOT EXISTS, the statement does not report whether it created the table.
        before = {name for (name,) in opened.fetch_all("SELECT lower(name) FROM sqlite_master")}
        opened.execute(self.query).close()
        name = opened.policy.created
        if name is None:
            raise ToolError("expected a CREATE TABLE statement, got another one")
        rows = opened.fetch_all("SELECT name, sql FROM sqlite_master WHERE name = ? COLLATE NOCASE", name)
        if not rows:
            raise ToolError("expected a CREATE TABLE statement that creates a table, got one that does not")
        [(table, sql)] = rows
        created = CreatedTable(
            database=opened.database.name,
            table=table,
            created=table.lower() not in before and self.keep,
            sql=sql or "",
            dry_run=not self.keep,
        )
        return CreateTableResult(created=created, altered=tuple(sorted(opened.policy.altered)))


@frozen(kw_only=True)
class Recover:
    """Roll back the transaction of a child that was killed while writing."""

    answer: ClassVar[Any] = None
    access: ClassVar[AccessMode] = AccessMode.CHANGE

    def run(self, opened: OpenDatabase) -> None:
        # Opening the file for writing rolls back. A connection that only reads cannot do that, and would fail.
        opened.fetch_all("SELECT count(*) FROM sqlite_master")


Job: TypeAlias = (
    ReadRows
    | ExportRows
    | ExplainQuery
    | ListTables
    | TableNames
    | DescribeTable
    | ShowSchema
    | ChangeRows
    | CreateTable
    | Recover
)
