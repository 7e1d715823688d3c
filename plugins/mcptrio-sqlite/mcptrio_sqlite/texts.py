"""The texts of the tools' results, for models. Programs read the structured content instead.

The tools pass these functions as ``text=``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .changes import CreatedTable, Written
from .plans import Plan
from .rows import Rows
from .schema import Table
from .values import Cell

if TYPE_CHECKING:
    from .read_tools import DatabaseList, TableList

__all__ = ["created_text", "databases_text", "plan_text", "rows_text", "table_text", "tables_text", "written_text"]

_MAX_BLOB_CHARS = 44
"""Maximum length of a blob's Base64 that is shown: 32 bytes of the blob."""


def rows_text(rows: Rows) -> str:
    """Return a line of columns, then a line for each row."""
    more = "more rows" if rows.truncated else ""
    return _with_notes([*_table(rows.columns, rows.items)] or ["no rows"], rows.notes, more, rows.next_cursor)


def written_text(written: Written) -> str:
    """Return the number of changed rows, then the rows of RETURNING."""
    parts = [f"{written.affected_rows} {'row' if written.affected_rows == 1 else 'rows'} changed"]
    if written.total_changes != written.affected_rows:
        parts.append(f"{written.total_changes} with triggers and foreign keys")
    if written.last_insert_rowid is not None:
        parts.append(f"last rowid {_cell(written.last_insert_rowid)}")
    if written.dry_run:
        parts.append("rolled back")
    more = "more rows were changed than are shown" if written.truncated else ""
    return _with_notes([", ".join(parts), *_table(written.columns, written.items)], written.notes, more)


def created_text(created: CreatedTable) -> str:
    """Return the outcome, and the SQL of the table."""
    outcome = "created" if created.created else "valid, rolled back" if created.dry_run else "already exists"
    return f"{outcome}: {created.sql or created.table}"


def databases_text(databases: DatabaseList) -> str:
    """Return a line for each database, with its file and its size."""
    lines = []
    for each in databases.items:
        size = "not created yet" if each.bytes is None else f"{each.bytes} bytes"
        lines.append(f"{each.name}: {each.file}, {size}{', writable' if each.writable else ''}")
    return _with_notes(
        lines or ["no databases; `databases` and `folder` in [plugins.sqlite] of mcptrio.toml select them"],
        (),
        "more databases" if databases.truncated else "",
        databases.next_cursor,
    )


def tables_text(tables: TableList) -> str:
    """Return a line for each table, with the number of its columns."""
    lines = [f"{each.name} {each.columns}{'' if each.type == 'table' else f' {each.type}'}" for each in tables.items]
    return _with_notes(lines or ["no tables"], (), "more tables" if tables.truncated else "", tables.next_cursor)


def table_text(table: Table) -> str:
    """Return the SQL of a table, then its indexes, triggers and number of rows."""
    lines = [table.sql] if table.sql else [f"{table.type} {table.name}"]
    # The SQL of a view or a virtual table does not name its columns, and SQL that is cut does not name all of them.
    if table.type != "table" or table.truncated or not table.sql:
        lines.append(f"columns: {', '.join(f'{each.name} {each.type}'.strip() for each in table.items)}")
    for index in table.indexes:
        if index.origin == "create_index":
            kind = "unique index" if index.unique else "index"
            partial = ", partial" if index.partial else ""
            lines.append(f"{kind} {index.name} ({', '.join(index.columns)}){partial}")
    if table.triggers:
        lines.append(f"triggers: {', '.join(table.triggers)}")
    if table.rows is not None:
        lines.append(f"rows: {table.rows}")
    return _with_notes(lines, (), "the description is cut" if table.truncated else "")


def plan_text(plan: Plan) -> str:
    """Return the steps, indented below the step that contains them."""
    depths = {0: -1}
    lines = []
    for step in plan.items:
        depths[step.id] = depths.get(step.parent, -1) + 1
        lines.append("  " * depths[step.id] + step.detail)
    return _with_notes(lines or ["no steps"], (), "more steps" if plan.truncated else "")


def _table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterable[str]:
    if columns:
        yield "|".join(_line(name) for name in columns)
    for row in rows:
        yield "|".join(_cell(value) for value in row)


def _cell(value: Cell) -> str:
    if value is None:
        return "NULL"
    if not isinstance(value, dict):
        return _line(value) if isinstance(value, str) else str(value)
    if "base64" in value:
        data, size = value["base64"], value.get("bytes", 0)
        kind = "text that is not UTF-8" if value.get("is_text") else "blob"
        return f"<{kind}, {size} bytes{f': {data}' if len(data) <= _MAX_BLOB_CHARS else ''}>"
    if "text" in value:
        return f"{_line(value['text'])}... <{value.get('bytes', 0)} bytes>"
    return value.get("integer") or value.get("real") or ""


def _line(text: str) -> str:
    """Return a text without line breaks, so that each row is one line."""
    return text.replace("\r", "\\r").replace("\n", "\\n")


def _with_notes(lines: Sequence[str], notes: Iterable[str], more: str, cursor: str | None = None) -> str:
    rest = [f"[{note}]" for note in notes]
    if more:
        rest.append(f"[{more}]" if cursor is None else f"[{more}; continue with cursor={cursor}]")
    return "\n".join([*lines, *rest])
