"""The texts of the tools' results, for models. Programs read the structured content instead.

The tools pass these functions as ``text=``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .catalog import PostgresTableList, SchemaList
from .descriptions import PostgresColumn, PostgresTable
from .index_advice import IndexAdvices
from .plans import PostgresPlan
from .rows import PostgresRows
from .slow_statements import SlowStatements
from .values import Cell

if TYPE_CHECKING:
    from .describe_tools import Descriptions
    from .read_tools import PostgresDatabaseList
    from .write_tool import WriteResult

__all__ = [
    "advice_text",
    "databases_text",
    "descriptions_text",
    "plan_text",
    "rows_text",
    "schemas_text",
    "size_text",
    "slow_text",
    "table_text",
    "tables_text",
    "with_notes",
    "written_text",
]


def rows_text(rows: PostgresRows) -> str:
    """Return a line of columns, then a line for each row."""
    more = "more rows" if rows.truncated else ""
    lines = [*_table(rows.columns, rows.items)] if rows.items else ["no rows"]
    return with_notes(lines, rows.notes, more, rows.next_cursor)


def written_text(written: WriteResult) -> str:
    """Return the number of changed rows, then the rows of RETURNING."""
    line = written.command if written.affected_rows is None else f"{written.command}: {written.affected_rows} rows"
    outcome = f"{line}, rolled back" if written.dry_run else line
    more = "more rows were changed than are shown" if written.truncated else ""
    return with_notes([outcome, *_table(written.columns, written.items)], written.notes, more)


def databases_text(databases: PostgresDatabaseList) -> str:
    """Return a line for each database."""
    lines = [f"{each.name}: {each.address}{', writable' if each.writable else ''}" for each in databases.items]
    return "\n".join(lines or ["no databases"])


def schemas_text(schemas: SchemaList) -> str:
    """Return a line for each schema, with the number of its tables."""
    lines = [f"{each.name} {each.tables} tables{_comment(each.comment)}" for each in schemas.items]
    return with_notes(lines or ["no schemas"], (), "more schemas" if schemas.truncated else "", schemas.next_cursor)


def tables_text(tables: PostgresTableList) -> str:
    """Return a line for each table, below a line for its schema."""
    lines = []
    schema = None
    for each in tables.items:
        if each.schema != schema:
            schema = each.schema
            lines.append(f"schema {schema}")
        kind = "" if each.type == "table" else f" {each.type}"
        count = "" if each.rows is None else f" ~{each.rows} rows"
        lines.append(f"{each.name}{kind} {each.columns} columns{count}{_comment(each.comment)}")
    return with_notes(lines or ["no tables"], (), "more tables" if tables.truncated else "", tables.next_cursor)


def descriptions_text(descriptions: Descriptions) -> str:
    """Return the tables one after the other."""
    text = "\n".join(table_text(each) for each in descriptions.items)
    return (
        f"{text}\n[not shown: {', '.join(descriptions.omitted)}; call again with these]"
        if descriptions.omitted
        else text
    )


def table_text(table: PostgresTable) -> str:
    """Return a table with a line for each column, then its keys, indexes and references."""
    facts = [f"{table.type} {table.schema}.{table.name}"]
    if table.rows is not None:
        facts.append(f"~{table.rows} rows")
    if table.bytes is not None:
        facts.append(size_text(table.bytes))
    if table.row_security:
        facts.append("row security")
    lines = [", ".join(facts) + _comment(table.comment)]
    keys, others = _inline(table)
    lines += [f"  {_column(each)}{keys.get(each.name, '')}{_comment(each.comment)}" for each in table.items]
    lines += [f"  {_line(each)}" for each in others]
    lines += [f"  index {_line(each)}" for each in table.indexes]
    if table.triggers:
        lines.append(f"  triggers {', '.join(table.triggers)}")
    if table.referenced_by:
        lines.append(f"  referenced by {', '.join(table.referenced_by)}")
    if table.partition_key is not None or table.partitions:
        lines.append(f"  {table.partitions} partitions by {table.partition_key or 'inheritance'}")
    if table.sql is not None:
        lines.append(f"as {table.sql.strip()}")
    return with_notes(lines, (), "the description is cut" if table.truncated else "")


def plan_text(plan: PostgresPlan) -> str:
    """Return the plan as PostgreSQL prints it."""
    notes = ["a generic plan, without the values of the parameters"] if plan.generic else []
    return with_notes(plan.lines, notes, "more lines" if plan.truncated else "")


def slow_text(statements: SlowStatements) -> str:
    """Return a line for each statement, after its statistics."""
    if statements.advice is not None:
        return statements.advice
    lines = ["calls|total ms|mean ms|rows|cache hits|query"]
    for each in statements.items:
        hits = "" if each.cache_hits is None else f"{each.cache_hits:.1%}"
        lines.append(f"{each.calls}|{each.total_ms:g}|{each.mean_ms:g}|{each.rows}|{hits}|{_line(each.query)}")
    return "\n".join(lines) if statements.items else "no statements"


def advice_text(advices: IndexAdvices) -> str:
    """Return the advice below a line for its kind."""
    lines = []
    kind = None
    for each in advices.items:
        if each.kind != kind:
            kind = each.kind
            lines.append(f"{kind}:")
        where = each.table if each.index is None else f"{each.index} on {each.table}"
        lines.append(f"  {where}: {each.reason}{f'; {each.sql}' if each.sql else ''}")
    notes = [f"scans are counted since {advices.since}"]
    return with_notes(lines or ["no advice"], notes, "more of a kind; raise limit" if advices.truncated else "")


def size_text(size: int) -> str:
    """Return a size with a unit, such as ``12 MB``."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 10_000:
            return f"{size} {unit}"
        size //= 1024
    return f"{size} TB"


def with_notes(lines: Sequence[str], notes: Iterable[str], more: str = "", cursor: str | None = None) -> str:
    """Lines, then notes in brackets, then the cursor of the next page."""
    rest = [f"[{note}]" for note in notes]
    if more:
        rest.append(f"[{more}]" if cursor is None else f"[{more}; continue with cursor={cursor}]")
    return "\n".join([*lines, *rest])


def _inline(table: PostgresTable) -> tuple[dict[str, str], list[str]]:
    """Return the constraints of single columns, which are shown with the column, and all other constraints."""
    names = {each.name for each in table.items}
    inline: dict[str, str] = {}
    others = []
    for each in table.constraints:
        kind, _, rest = each.partition(" (")
        column, _, after = rest.partition(")")
        column = column.strip('"')
        if column not in names or kind not in ("PRIMARY KEY", "UNIQUE", "FOREIGN KEY"):
            others.append(each)
            continue
        message = f" ->{after.removeprefix(' REFERENCES')}" if kind == "FOREIGN KEY" else f" {kind.lower()}{after}"
        inline[column] = inline.get(column, "") + message
    return inline, others


def _column(column: PostgresColumn) -> str:
    parts = [column.name, column.type]
    if column.not_null:
        parts.append("not null")
    if column.identity:
        parts.append("identity")
    elif column.default is not None:
        parts.append(f"{'generated' if column.generated else 'default'} {column.default}")
    return _line(" ".join(parts))


def _table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterable[str]:
    if columns:
        yield "|".join(_line(name) for name in columns)
    for row in rows:
        yield "|".join(_cell(value) for value in row)


def _cell(value: Cell) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _line(value) if isinstance(value, str) else str(value)


def _comment(text: str | None) -> str:
    return f" -- {' '.join(text.split())}" if text else ""


def _line(text: str) -> str:
    """Return a text without line breaks, so that each row is one line."""
    return text.replace("\r", "\\r").replace("\n", "\\n")
