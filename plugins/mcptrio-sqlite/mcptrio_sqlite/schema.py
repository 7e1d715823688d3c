"""The schema of a database: lists of tables, and descriptions of single tables.

Jobs call it in a child process.

Source: sqlite.org/pragma.html#pragfunc (``pragma_table_xinfo(?)`` and similar functions).
"""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Final, Literal

from attrs import frozen

from mcptrio import ToolError

from .connections import OpenDatabase

__all__ = [
    "Column",
    "ForeignKey",
    "Index",
    "Table",
    "TableEntry",
    "describe_table",
    "list_tables",
    "schema_text",
    "table_names",
]

_MAX_DESCRIBED_ITEMS: Final = 200
"""Maximum number of indexes, of foreign keys and of triggers in a description. SQLite limits columns to 2000."""
_MAX_SQL_CHARS: Final = 20_000

# Names that start with sqlite_ are internal. ESCAPE is necessary because _ is a wildcard of LIKE.
_TABLES: Final = """
    SELECT name, type, ncol FROM pragma_table_list
    WHERE schema = 'main' AND type <> 'shadow' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'
"""

Kind = Literal["table", "view", "virtual"]


@frozen(kw_only=True)
class TableEntry:
    """A table in a list."""

    name: str
    type: Kind
    columns: Annotated[int, "Number of columns."]


@frozen(kw_only=True)
class Column:
    """A column of a table."""

    name: str
    type: Annotated[str, "Declared type; SQLite does not enforce it for all values."]
    not_null: bool
    default: Annotated[str | None, "SQL expression of the default value."]
    primary_key: Annotated[int, "Position in the primary key, from 1; 0 if it is not part of the key."]
    generated: bool
    hidden: Annotated[bool, "Column of a virtual table that SELECT * omits."]


@frozen(kw_only=True)
class Index:
    """An index of a table."""

    name: str
    unique: bool
    partial: bool
    origin: Annotated[Literal["create_index", "unique", "primary_key"], "How it was created."]
    columns: Annotated[tuple[str, ...], "In order; (expression) for an indexed expression."]


@frozen(kw_only=True)
class ForeignKey:
    """A foreign key of a table."""

    columns: tuple[str, ...]
    table: Annotated[str, "The referenced table."]
    references: Annotated[tuple[str, ...], "Columns of that table; empty for its primary key."]
    on_update: str
    on_delete: str


@frozen(kw_only=True)
class Table:
    """A table, view or virtual table with all details."""

    database: str
    name: str
    type: Kind
    items: Annotated[tuple[Column, ...], "Columns in order."]
    indexes: tuple[Index, ...]
    foreign_keys: tuple[ForeignKey, ...]
    triggers: Annotated[tuple[str, ...], "Names of the triggers."]
    strict: Annotated[bool, "Whether SQLite enforces the declared types."]
    without_rowid: bool
    sql: Annotated[str, "The statement that created it."]
    rows: Annotated[int | None, "Number of rows, if requested."] = None
    truncated: Annotated[bool, "The SQL or the lists of indexes, keys and triggers are cut."] = False


def list_tables(opened: OpenDatabase, *, limit: int, after: str = "") -> tuple[tuple[TableEntry, ...], bool]:
    """Return tables and views in order of name, and whether there are more.

    Args:
        after: Start after this name.
    """
    rows = opened.fetch_all(f"{_TABLES} AND name > ? ORDER BY name", after)
    visible_rows = [row for row in rows if not opened.policy.is_denied(row[0])]
    entries = tuple(TableEntry(name=name, type=kind, columns=count) for name, kind, count in visible_rows[:limit])
    return entries, len(visible_rows) > limit


def describe_table(opened: OpenDatabase, name: str, *, count_rows: bool = False) -> Table:
    """Return the description of one table.

    Raises:
        ToolError: The table does not exist.
    """
    matches = opened.fetch_all(
        "SELECT name, type, wr, strict FROM pragma_table_list WHERE schema = 'main' AND name = ? COLLATE NOCASE", name
    )
    if not matches or opened.policy.is_denied(matches[0][0]):
        raise ToolError(f"no such table: `{name[:200]}`{_suggestion(opened, name)}")
    (table, kind, without_rowid, strict) = matches[0]
    sql = opened.fetch_all("SELECT sql FROM sqlite_master WHERE name = ? AND type IN ('table', 'view')", table)
    text = str(sql[0][0] or "") if sql else ""
    indexes = opened.fetch_all(
        'SELECT name, "unique", origin, partial FROM pragma_index_list(?) ORDER BY name LIMIT ?',
        table,
        _MAX_DESCRIBED_ITEMS + 1,
    )
    keys = opened.fetch_all("SELECT * FROM pragma_foreign_key_list(?) ORDER BY id, seq", table)
    triggers = opened.fetch_all(
        "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE ORDER BY name LIMIT ?",
        table,
        _MAX_DESCRIBED_ITEMS + 1,
    )
    foreign_keys = _foreign_keys(keys)
    quoted = table.replace('"', '""')
    # The table after FROM cannot be a parameter, so its name is quoted. All other names are bound.
    count_rows_result = opened.fetch_all(f'SELECT count(*) FROM "{quoted}"') if count_rows else [(None,)]
    return Table(
        database=opened.database.name,
        name=table,
        type="table" if kind == "shadow" else kind,
        items=_columns(opened, table),
        indexes=tuple(_index(opened, *row) for row in indexes[:_MAX_DESCRIBED_ITEMS]),
        foreign_keys=foreign_keys[:_MAX_DESCRIBED_ITEMS],
        triggers=tuple(trigger for (trigger,) in triggers[:_MAX_DESCRIBED_ITEMS]),
        strict=bool(strict),
        without_rowid=bool(without_rowid),
        sql=text[:_MAX_SQL_CHARS],
        rows=count_rows_result[0][0],
        truncated=len(text) > _MAX_SQL_CHARS
        or max(len(indexes), len(foreign_keys), len(triggers)) > _MAX_DESCRIBED_ITEMS,
    )


def schema_text(opened: OpenDatabase, limit: int, tool_names: str) -> str:
    """Return the statements that created the schema, in order of creation.

    Args:
        limit: Maximum size in bytes. Further statements are omitted, and a comment says so.
        tool_names: Names of the tools that show omitted parts.
    """
    rows = opened.fetch_all("SELECT name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")
    shadow_tables = {name for (name,) in opened.fetch_all("SELECT name FROM pragma_table_list WHERE type = 'shadow'")}
    parts: list[str] = []
    size = left_out = 0
    for name, table, sql in rows:
        if table in shadow_tables or opened.policy.is_denied(name) or opened.policy.is_denied(table):
            continue
        part = f"{sql};\n"
        size += len(part.encode()) + 1
        if size > limit:
            left_out += 1
            continue
        parts.append(part)
    if left_out:
        parts.append(f"-- cut: {left_out} more; {tool_names} show them\n")
    return "\n".join(parts) or "-- the database is empty\n"


def table_names(opened: OpenDatabase, limit: int) -> list[str]:
    """Return names of tables and views, for completion."""
    entries, _ = list_tables(opened, limit=limit)
    return [entry.name for entry in entries]


def _columns(opened: OpenDatabase, table: str) -> tuple[Column, ...]:
    rows = opened.fetch_all(
        'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?) ORDER BY cid', table
    )
    return tuple(
        Column(
            name=name,
            type=declared or "",
            not_null=bool(not_null),
            default=default,
            primary_key=key,
            # In pragma_table_xinfo, 1 is a hidden column of a virtual table; 2 and 3 are generated columns.
            generated=hidden in (2, 3),
            hidden=hidden == 1,
        )
        for name, declared, not_null, default, key, hidden in rows
    )


def _index(opened: OpenDatabase, name: str, unique: int, origin: str, partial: int) -> Index:
    rows = opened.fetch_all("SELECT cid, name FROM pragma_index_xinfo(?) WHERE key = 1 ORDER BY seqno", name)
    origins: dict[str, Literal["create_index", "unique", "primary_key"]] = {"u": "unique", "pk": "primary_key"}
    return Index(
        name=name,
        unique=bool(unique),
        partial=bool(partial),
        origin=origins.get(origin, "create_index"),
        # The column number is -2 for an expression and -1 for the rowid.
        columns=tuple("(expression)" if number == -2 else column or "rowid" for number, column in rows),
    )


def _foreign_keys(rows: list[Any]) -> tuple[ForeignKey, ...]:
    # Rows of pragma_foreign_key_list: id, seq, table, from, to, on_update, on_delete, match.
    grouped: dict[int, list[Any]] = {}
    for row in rows:
        grouped.setdefault(row[0], []).append(row)
    return tuple(
        ForeignKey(
            columns=tuple(row[3] for row in parts),
            table=parts[0][2],
            # NULL stands for the primary key of the referenced table.
            references=tuple(row[4] for row in parts if row[4] is not None),
            on_update=parts[0][5],
            on_delete=parts[0][6],
        )
        for parts in grouped.values()
    )


def _suggestion(opened: OpenDatabase, name: str) -> str:
    names = table_names(opened, 1000)
    near = difflib.get_close_matches(name, names, 1)
    if near:
        return f"; did you mean `{near[0]}`?"
    more = f" and {len(names) - 15} more" if len(names) > 15 else ""
    return f"; there are {', '.join(names[:15])}{more}" if names else "; there are no tables"
