"""What a database is made of: its tables, and one table in full.

Called in a child. The one rule: names are bound, never put into SQL; so a table may be called anything.

Source: sqlite.org/pragma.html#pragfunc (``pragma_table_xinfo(?)`` and its like).
"""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Final, Literal

from attrs import frozen

from mcptrio import ToolError

from .connections import Opened

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
"""Indexes, foreign keys and triggers of one table that are described; columns there are 2000 at most."""
_MAX_SQL_CHARS: Final = 20_000

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
    columns: Annotated[int, "How many columns it has."]


@frozen(kw_only=True)
class Column:
    """A column of a table."""

    name: str
    type: Annotated[str, "As declared; SQLite does not hold every value to it."]
    not_null: bool
    default: Annotated[str | None, "An SQL expression."]
    primary_key: Annotated[int, "Its place in the primary key, from 1; 0 if it is no part of it."]
    generated: bool
    hidden: Annotated[bool, "Of a virtual table: not part of SELECT *."]


@frozen(kw_only=True)
class Index:
    """An index of a table."""

    name: str
    unique: bool
    partial: bool
    origin: Annotated[Literal["create_index", "unique", "primary_key"], "What made it."]
    columns: Annotated[tuple[str, ...], "In order; (expression) where it is over no column."]


@frozen(kw_only=True)
class ForeignKey:
    """A foreign key of a table."""

    columns: tuple[str, ...]
    table: Annotated[str, "The table it refers to."]
    references: Annotated[tuple[str, ...], "Columns of that table; none means its primary key."]
    on_update: str
    on_delete: str


@frozen(kw_only=True)
class Table:
    """A table, view or virtual table in full."""

    database: str
    name: str
    type: Kind
    items: Annotated[tuple[Column, ...], "The columns, in order."]
    indexes: tuple[Index, ...]
    foreign_keys: tuple[ForeignKey, ...]
    triggers: Annotated[tuple[str, ...], "Names."]
    strict: Annotated[bool, "Whether SQLite holds values to the declared types."]
    without_rowid: bool
    sql: Annotated[str, "The statement that made it."]
    rows: Annotated[int | None, "How many rows it has, if that was asked for."] = None
    truncated: Annotated[bool, "Something is left out: the statement is long, or there are very many indexes."] = False


def list_tables(opened: Opened, *, limit: int, after: str = "") -> tuple[tuple[TableEntry, ...], bool]:
    """Tables and views in order of name, and whether there are more.

    Args:
        after: begin after this name.
    """
    rows = opened.ask(f"{_TABLES} AND name > ? ORDER BY name", after)
    seen = [row for row in rows if not opened.policy.hides(row[0])]
    entries = tuple(TableEntry(name=name, type=kind, columns=count) for name, kind, count in seen[:limit])
    return entries, len(seen) > limit


def describe_table(opened: Opened, name: str, *, count_rows: bool = False) -> Table:
    """One table in full.

    Raises:
        ToolError: there is no such table.
    """
    found = opened.ask(
        "SELECT name, type, wr, strict FROM pragma_table_list WHERE schema = 'main' AND name = ? COLLATE NOCASE", name
    )
    if not found or opened.policy.hides(found[0][0]):
        raise ToolError(f"no such table: {name[:200]!r}{_suggestion(opened, name)}")
    (table, kind, without_rowid, strict) = found[0]
    sql = opened.ask("SELECT sql FROM sqlite_master WHERE name = ? AND type IN ('table', 'view')", table)
    text = str(sql[0][0] or "") if sql else ""
    indexes = opened.ask(
        'SELECT name, "unique", origin, partial FROM pragma_index_list(?) ORDER BY name LIMIT ?',
        table,
        _MAX_DESCRIBED_ITEMS + 1,
    )
    keys = opened.ask("SELECT * FROM pragma_foreign_key_list(?) ORDER BY id, seq", table)
    triggers = opened.ask(
        "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE ORDER BY name LIMIT ?",
        table,
        _MAX_DESCRIBED_ITEMS + 1,
    )
    grouped = _foreign_keys(keys)
    quoted = table.replace('"', '""')
    counted = opened.ask(f'SELECT count(*) FROM "{quoted}"') if count_rows else [(None,)]
    return Table(
        database=opened.database.name,
        name=table,
        type="table" if kind == "shadow" else kind,
        items=_columns(opened, table),
        indexes=tuple(_index(opened, *row) for row in indexes[:_MAX_DESCRIBED_ITEMS]),
        foreign_keys=grouped[:_MAX_DESCRIBED_ITEMS],
        triggers=tuple(trigger for (trigger,) in triggers[:_MAX_DESCRIBED_ITEMS]),
        strict=bool(strict),
        without_rowid=bool(without_rowid),
        sql=text[:_MAX_SQL_CHARS],
        rows=counted[0][0],
        truncated=len(text) > _MAX_SQL_CHARS or max(len(indexes), len(grouped), len(triggers)) > _MAX_DESCRIBED_ITEMS,
    )


def schema_text(opened: Opened, limit: int, others: str) -> str:
    """Every statement that made the schema, in order of making.

    Args:
        limit: bytes; what comes after is left out, and a comment says so.
        others: the names of the tools that show it.
    """
    rows = opened.ask("SELECT name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")
    shadows = {name for (name,) in opened.ask("SELECT name FROM pragma_table_list WHERE type = 'shadow'")}
    parts: list[str] = []
    size = left_out = 0
    for name, table, sql in rows:
        if table in shadows or opened.policy.hides(name) or opened.policy.hides(table):
            continue
        part = f"{sql};\n"
        size += len(part.encode()) + 1
        if size > limit:
            left_out += 1
            continue
        parts.append(part)
    if left_out:
        parts.append(f"-- cut: {left_out} more; {others} show them\n")
    return "\n".join(parts) or "-- there is nothing in it yet\n"


def table_names(opened: Opened, limit: int) -> list[str]:
    """Names of tables and views, for completion."""
    entries, _ = list_tables(opened, limit=limit)
    return [entry.name for entry in entries]


def _columns(opened: Opened, table: str) -> tuple[Column, ...]:
    rows = opened.ask(
        'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?) ORDER BY cid', table
    )
    return tuple(
        Column(
            name=name,
            type=declared or "",
            not_null=bool(not_null),
            default=default,
            primary_key=key,
            generated=hidden in (2, 3),
            hidden=hidden == 1,
        )
        for name, declared, not_null, default, key, hidden in rows
    )


def _index(opened: Opened, name: str, unique: int, origin: str, partial: int) -> Index:
    rows = opened.ask("SELECT cid, name FROM pragma_index_xinfo(?) WHERE key = 1 ORDER BY seqno", name)
    origins: dict[str, Literal["create_index", "unique", "primary_key"]] = {"u": "unique", "pk": "primary_key"}
    return Index(
        name=name,
        unique=bool(unique),
        partial=bool(partial),
        origin=origins.get(origin, "create_index"),
        columns=tuple("(expression)" if number == -2 else column or "rowid" for number, column in rows),
    )


def _foreign_keys(rows: list[Any]) -> tuple[ForeignKey, ...]:
    """Rows of pragma_foreign_key_list: id, seq, table, from, to, on_update, on_delete, match."""
    grouped: dict[int, list[Any]] = {}
    for row in rows:
        grouped.setdefault(row[0], []).append(row)
    return tuple(
        ForeignKey(
            columns=tuple(row[3] for row in parts),
            table=parts[0][2],
            references=tuple(row[4] for row in parts if row[4] is not None),
            on_update=parts[0][5],
            on_delete=parts[0][6],
        )
        for parts in grouped.values()
    )


def _suggestion(opened: Opened, name: str) -> str:
    names = table_names(opened, 1000)
    near = difflib.get_close_matches(name, names, 1)
    if near:
        return f"; did you mean {near[0]}?"
    more = f" and {len(names) - 15} more" if len(names) > 15 else ""
    return f"; there are {', '.join(names[:15])}{more}" if names else "; there are no tables"
