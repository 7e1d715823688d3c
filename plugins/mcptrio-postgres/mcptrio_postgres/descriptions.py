"""Descriptions of tables: columns, keys, constraints, indexes, triggers and comments.

``describe_tables`` and the resource of a table use them. The descriptions of several tables are read together.

Source: PostgreSQL 15 documentation, chapter 53 "System Catalogs" and 9.26 "System Information Functions".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Final

from attrs import field, frozen

from .catalog import KINDS
from .connection import PostgresConnection
from .errors import not_found
from .queries import Record, fetch_rows

__all__ = ["PostgresColumn", "PostgresTable", "describe_tables"]

_MAX_DESCRIBED_ITEMS: Final = 200
"""Maximum number of constraints, of indexes, of triggers and of references in a description. PostgreSQL itself limits
columns to 1600."""
_MAX_TEXT_CHARS: Final = 1_000
_MAX_VIEW_CHARS: Final = 20_000
_MAX_LISTED_NAMES: Final = 2_000

# A name matches as it is, and in lower case, to which PostgreSQL folds a name without quotes.
_FIND: Final = """
    SELECT c.oid, pg_table_is_visible(c.oid), n.nspname || '.' || c.relname
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
        AND (c.relname::text IN ($1, lower($1)) OR n.nspname || '.' || c.relname IN ($1, lower($1)))
    ORDER BY pg_table_is_visible(c.oid) DESC, n.nspname ~ '^pg_' OR n.nspname = 'information_schema', 3 LIMIT 20
"""
_ALL_NAMES: Final = f"""
    SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    ORDER BY 1 LIMIT {_MAX_LISTED_NAMES}
"""
_TABLES: Final = f"""
    SELECT c.oid, n.nspname, c.relname, c.relkind, c.reltuples::bigint,
        CASE WHEN c.relkind IN ('r', 'p', 'm') THEN pg_total_relation_size(c.oid) END,
        left(obj_description(c.oid, 'pg_class'), {_MAX_TEXT_CHARS}), c.relrowsecurity,
        CASE WHEN c.relkind = 'p' THEN pg_get_partkeydef(c.oid) END,
        (SELECT count(*) FROM pg_inherits i WHERE i.inhparent = c.oid),
        CASE WHEN c.relkind IN ('v', 'm') THEN left(pg_get_viewdef(c.oid, true), {_MAX_VIEW_CHARS}) END
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY($1::oid[])
"""
_COLUMNS: Final = f"""
    SELECT a.attrelid, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
        left(pg_get_expr(d.adbin, d.adrelid), {_MAX_TEXT_CHARS}), a.attidentity <> '', a.attgenerated <> '',
        left(col_description(a.attrelid, a.attnum), {_MAX_TEXT_CHARS})
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = ANY($1::oid[]) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum
"""
# Since PostgreSQL 18, NOT NULL is a constraint as well (contype n); the column shows it.
_CONSTRAINTS: Final = f"""
    SELECT conrelid, contype, left(pg_get_constraintdef(oid, true), {_MAX_TEXT_CHARS})
    FROM pg_constraint WHERE conrelid = ANY($1::oid[]) AND contype IN ('p', 'u', 'f', 'c', 'x')
    ORDER BY conrelid, position(contype::text IN 'pufcx'), conname
"""
_INDEXES: Final = f"""
    SELECT i.indrelid, c.relname, i.indisunique, i.indisvalid, left(pg_get_indexdef(i.indexrelid), {_MAX_TEXT_CHARS})
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE i.indrelid = ANY($1::oid[]) AND NOT EXISTS (SELECT FROM pg_constraint k
        WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x'))
    ORDER BY i.indrelid, c.relname
"""
_TRIGGERS: Final = """
    SELECT tgrelid, tgname FROM pg_trigger WHERE tgrelid = ANY($1::oid[]) AND NOT tgisinternal
    ORDER BY tgrelid, tgname
"""
_REFERENCES: Final = """
    SELECT DISTINCT confrelid, conrelid::regclass::text, (SELECT string_agg(a.attname, ', ' ORDER BY k.at)
        FROM unnest(conkey) WITH ORDINALITY AS k(number, at)
        JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = k.number)
    FROM pg_constraint WHERE confrelid = ANY($1::oid[]) AND contype = 'f' AND conparentid = 0 ORDER BY 1, 2, 3
"""
_SHORT_TYPES: Final = (
    (re.compile(r"timestamp(\(\d\))? with time zone"), r"timestamptz\1"),
    (re.compile(r"timestamp(\(\d\))? without time zone"), r"timestamp\1"),
    (re.compile(r"time(\(\d\))? with time zone"), r"timetz\1"),
    (re.compile(r"time(\(\d\))? without time zone"), r"time\1"),
    (re.compile(r"character varying"), "varchar"),
    (re.compile(r"double precision"), "float8"),
)
"""PostgreSQL's short aliases for the long names of the SQL standard."""
_INDEX_METHOD: Final = re.compile(r".*? USING (?:btree )?", re.DOTALL)


@frozen(kw_only=True)
class PostgresColumn:
    """A column of a table."""

    name: str
    type: str
    not_null: bool
    default: Annotated[str | None, "SQL expression of the default or generated value."]
    identity: bool
    generated: bool
    comment: str | None


@frozen(kw_only=True)
class PostgresTable:
    """A table or view with all details."""

    schema: str
    name: str
    type: str
    rows: Annotated[int | None, "The planner's estimate."]
    bytes: Annotated[int | None, "Size with indexes and TOAST."]
    comment: str | None
    items: Annotated[tuple[PostgresColumn, ...], "Columns in order."]
    constraints: Annotated[tuple[str, ...], "Keys, foreign keys and checks as SQL."]
    indexes: Annotated[tuple[str, ...], "Indexes that belong to no constraint."]
    triggers: tuple[str, ...]
    referenced_by: Annotated[tuple[str, ...], "Foreign keys of other tables, as table(columns)."]
    row_security: bool = False
    partition_key: str | None = None
    partitions: int = 0
    sql: Annotated[str | None, "The query of a view."] = None
    truncated: Annotated[bool, "Lists of constraints, indexes or references are cut."] = field(default=False)


async def describe_tables(connection: PostgresConnection, names: Sequence[str]) -> list[PostgresTable]:
    """Return the descriptions of tables, in the order of their names.

    Args:
        names: Names with or without their schema.

    Raises:
        ToolError: A table does not exist.
    """
    oids: list[str] = []
    missing = []
    for name in names:
        matches = await fetch_rows(connection, _FIND, name)
        if not matches:
            missing.append(name)
        elif (oid := matches[0][0] or "") not in oids:
            oids.append(oid)
    if missing:
        table_names = [row[0] or "" for row in await fetch_rows(connection, _ALL_NAMES)]
        raise not_found(missing, table_names)
    oid_array = "{" + ",".join(oids) + "}"
    tables = {row[0]: row for row in await fetch_rows(connection, _TABLES, oid_array)}
    parts = [
        _by_table(await fetch_rows(connection, sql, oid_array))
        for sql in (_COLUMNS, _CONSTRAINTS, _INDEXES, _TRIGGERS, _REFERENCES)
    ]
    # A table may be dropped between two statements.
    return [_table(tables[oid], *(part.get(oid, []) for part in parts)) for oid in oids if oid in tables]


def _table(
    row: Record,
    columns: list[Record],
    constraints: list[Record],
    indexes: list[Record],
    triggers: list[Record],
    references: list[Record],
) -> PostgresTable:
    _, schema, name, kind, count, size, comment, security, key, partitions, sql = row
    estimate = int(count or -1)
    return PostgresTable(
        schema=schema or "",
        name=name or "",
        type=KINDS[kind or "r"],
        rows=estimate if estimate >= 0 and kind != "v" else None,
        bytes=None if size is None else int(size),
        comment=comment,
        items=tuple(_column(each) for each in columns),
        constraints=tuple(each[2] or "" for each in constraints[:_MAX_DESCRIBED_ITEMS]),
        indexes=tuple(_index(each) for each in indexes[:_MAX_DESCRIBED_ITEMS]),
        triggers=tuple(each[1] or "" for each in triggers[:_MAX_DESCRIBED_ITEMS]),
        referenced_by=tuple(f"{each[1]}({each[2]})" for each in references[:_MAX_DESCRIBED_ITEMS]),
        row_security=security == "t",
        partition_key=key,
        partitions=int(partitions or 0),
        sql=sql,
        truncated=max(map(len, (constraints, indexes, triggers, references))) > _MAX_DESCRIBED_ITEMS,
    )


def _column(row: Record) -> PostgresColumn:
    _, name, type, not_null, default, identity, generated, comment = row
    short = type or ""
    for pattern, alias in _SHORT_TYPES:
        short = pattern.sub(alias, short)
    return PostgresColumn(
        name=name or "",
        type=short,
        not_null=not_null == "t",
        default=default,
        identity=identity == "t",
        generated=generated == "t",
        comment=comment,
    )


def _index(row: Record) -> str:
    _, name, unique, valid, definition = row
    # The definition begins with "CREATE INDEX name ON table USING btree", which the model knows from the context.
    rest = _INDEX_METHOD.sub("", definition or "", count=1)
    return f"{name} {rest}{' unique' if unique == 't' else ''}{'' if valid == 't' else ' invalid'}"


def _by_table(rows: list[Record]) -> dict[str | None, list[Record]]:
    by_table: dict[str | None, list[Record]] = {}
    for row in rows:
        by_table.setdefault(row[0], []).append(row)
    return by_table
