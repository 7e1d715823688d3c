"""Lists the schemas and tables of a database.

``DescribeTools`` and the resources use it. Partitions are not listed, only their parent.

Source: PostgreSQL 15 documentation, chapter 53 "System Catalogs".
"""

from __future__ import annotations

from typing import Annotated, Final

from attrs import frozen

from .queries import ConfiguredDatabase, PostgresQueries

__all__ = [
    "KINDS",
    "PostgresTableEntry",
    "PostgresTableList",
    "SchemaEntry",
    "SchemaList",
    "list_schemas",
    "list_tables",
]

KINDS: Final = {
    "r": "table",
    "p": "partitioned table",
    "v": "view",
    "m": "materialized view",
    "f": "foreign table",
}
_MAX_COMMENT_CHARS: Final = 300
_USERS_SCHEMA: Final = "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'"
# Partitions and tables of extensions are left out, because they are rarely of interest.
_LISTED: Final = """c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition AND NOT EXISTS (
        SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')"""

_SCHEMAS: Final = f"""
    SELECT n.nspname, count(c.oid), left(obj_description(n.oid, 'pg_namespace'), {_MAX_COMMENT_CHARS})
    FROM pg_namespace n
    LEFT JOIN pg_class c ON c.relnamespace = n.oid AND {_LISTED}
    WHERE {_USERS_SCHEMA} AND n.nspname COLLATE "C" > $1
    GROUP BY n.oid, n.nspname ORDER BY n.nspname COLLATE "C" LIMIT $2::int
"""
_TABLES: Final = f"""
    SELECT n.nspname, c.relname, c.relkind, c.relnatts, c.reltuples::bigint,
        left(obj_description(c.oid, 'pg_class'), {_MAX_COMMENT_CHARS})
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE {_LISTED} AND {_USERS_SCHEMA}
        AND ($1 = '' OR n.nspname = $1)
        AND ($2 = '' OR strpos(lower(c.relname), lower($2)) > 0
            OR strpos(lower(obj_description(c.oid, 'pg_class')), lower($2)) > 0)
        AND (n.nspname || '.' || c.relname) COLLATE "C" > $3
    ORDER BY (n.nspname || '.' || c.relname) COLLATE "C" LIMIT $4::int
"""


@frozen(kw_only=True)
class SchemaEntry:
    """A schema in a list."""

    name: str
    tables: Annotated[int, "Tables and views."]
    comment: str | None


@frozen(kw_only=True)
class SchemaList:
    """Schemas in order of name."""

    database: str
    items: tuple[SchemaEntry, ...]
    truncated: Annotated[bool, "There are more items."]
    next_cursor: Annotated[str | None, "The cursor of the next page."] = None


@frozen(kw_only=True)
class PostgresTableEntry:
    """A table in a list."""

    schema: str
    name: str
    type: str
    columns: int
    rows: Annotated[int | None, "The planner's estimate; null if the table was never analyzed."]
    comment: str | None


@frozen(kw_only=True)
class PostgresTableList:
    """Tables and views in order of schema and name."""

    database: str
    items: tuple[PostgresTableEntry, ...]
    truncated: Annotated[bool, "There are more items."]
    next_cursor: Annotated[str | None, "The cursor of the next page."] = None


async def list_schemas(queries: PostgresQueries, database: ConfiguredDatabase, *, limit: int, after: str) -> SchemaList:
    """Return the schemas after a name."""
    # One row more than requested shows whether there are more.
    rows = await queries.fetch_all(database, _SCHEMAS, after, str(limit + 1))
    items = tuple(
        SchemaEntry(name=name or "", tables=int(count or 0), comment=comment) for name, count, comment in rows[:limit]
    )
    return SchemaList(
        database=database.name,
        items=items,
        truncated=len(rows) > limit,
        next_cursor=items[-1].name if len(rows) > limit else None,
    )


async def list_tables(
    queries: PostgresQueries, database: ConfiguredDatabase, *, schema: str, part: str, limit: int, after: str
) -> PostgresTableList:
    """Return the tables after a name.

    Args:
        schema: Return only tables of this schema; empty for all.
        part: Return only tables whose name or comment contains this text.
        after: The name of a table with its schema.
    """
    rows = await queries.fetch_all(database, _TABLES, schema, part, after, str(limit + 1))
    items = tuple(
        PostgresTableEntry(
            schema=schema_name or "",
            name=name or "",
            type=KINDS[kind or "r"],
            columns=int(columns or 0),
            rows=None if kind == "v" or int(count or -1) < 0 else int(count or 0),
            comment=comment,
        )
        for schema_name, name, kind, columns, count, comment in rows[:limit]
    )
    return PostgresTableList(
        database=database.name,
        items=items,
        truncated=len(rows) > limit,
        next_cursor=f"{items[-1].schema}.{items[-1].name}" if len(rows) > limit else None,
    )
