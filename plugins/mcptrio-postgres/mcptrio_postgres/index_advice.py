"""Advice on indexes to create and to drop, from the catalogs and the statistics of a database.

The tool ``advise_indexes`` uses it. Each kind of advice is one query, which only reads.

Source: PostgreSQL 15 documentation, 28.2 "The Cumulative Statistics System" and 53.26 ``pg_index``.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from attrs import frozen

from .connection import PostgresConnection
from .queries import Record, fetch_rows

__all__ = ["IndexAdvice", "IndexAdvices", "advise_indexes"]

AdviceKind = Literal[
    "foreign key without index", "sequential scans", "unused index", "redundant index", "invalid index"
]

_MIN_ROWS: Final = 10_000
"""Minimum number of rows of a table for which a sequential scan is reported."""
_MIN_SCANS: Final = 20
_MIN_INDEX_BYTES: Final = 64 * 1024
"""Minimum size of an unused index that is reported."""

# True if the first columns of an index are those of the key, in any order. indkey counts from 0.
_LEADS: Final = "(i.indkey::int2[])[0:cardinality(f.conkey) - 1] @> f.conkey"
_FOREIGN_KEYS: Final = f"""
    SELECT f.conrelid::regclass::text, NULL,
        format('%s references %s, ~%s rows', k.columns, f.confrelid::regclass, greatest(c.reltuples, 0)::bigint),
        format('CREATE INDEX ON %s (%s)', f.conrelid::regclass, k.columns)
    FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    CROSS JOIN LATERAL (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY p.at) AS columns
        FROM unnest(f.conkey) WITH ORDINALITY AS p(number, at)
        JOIN pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = p.number) AS k
    WHERE f.contype = 'f' AND f.conparentid = 0 AND ($1 = '' OR n.nspname = $1)
        AND NOT EXISTS (SELECT FROM pg_index i
            WHERE i.indrelid = f.conrelid AND i.indisvalid AND i.indpred IS NULL AND {_LEADS})
    ORDER BY c.reltuples DESC, 1, 3 LIMIT $2::int
"""
_SCANS: Final = f"""
    SELECT s.relid::regclass::text, NULL, format('%s sequential scans read %s of ~%s rows each, %s index scans',
        s.seq_scan, s.seq_tup_read / s.seq_scan, s.n_live_tup, coalesce(s.idx_scan, 0)), NULL
    FROM pg_stat_user_tables s
    WHERE s.n_live_tup >= {_MIN_ROWS} AND s.seq_scan >= {_MIN_SCANS} AND s.seq_tup_read / s.seq_scan >= {_MIN_ROWS}
        AND ($1 = '' OR s.schemaname = $1)
    ORDER BY s.seq_tup_read DESC, 1 LIMIT $2::int
"""
_UNUSED: Final = f"""
    SELECT s.relid::regclass::text, s.indexrelid::regclass::text,
        format('no scan, %s', pg_size_pretty(pg_relation_size(s.indexrelid))),
        format('DROP INDEX %s', s.indexrelid::regclass)
    FROM pg_stat_user_indexes s JOIN pg_index i ON i.indexrelid = s.indexrelid
    WHERE s.idx_scan = 0 AND NOT i.indisunique AND NOT i.indisexclusion AND i.indisvalid
        AND pg_relation_size(s.indexrelid) >= {_MIN_INDEX_BYTES} AND ($1 = '' OR s.schemaname = $1)
        AND NOT EXISTS (SELECT FROM pg_constraint f WHERE f.contype = 'f' AND f.conrelid = s.relid AND {_LEADS})
    ORDER BY pg_relation_size(s.indexrelid) DESC, 2 LIMIT $2::int
"""
# The columns, operator classes, collations and directions of a redundant index are the first ones of another index.
_REDUNDANT: Final = """
    SELECT a.indrelid::regclass::text, a.indexrelid::regclass::text,
        format('%s %s, %s', CASE WHEN a.indkey::text = b.indkey::text THEN 'same as' ELSE 'covered by' END,
            b.indexrelid::regclass, pg_size_pretty(pg_relation_size(a.indexrelid))),
        format('DROP INDEX %s', a.indexrelid::regclass)
    FROM pg_index a JOIN pg_index b ON b.indrelid = a.indrelid AND b.indexrelid <> a.indexrelid
    JOIN pg_class c ON c.oid = a.indexrelid JOIN pg_class d ON d.oid = b.indexrelid AND d.relam = c.relam
    JOIN pg_am m ON m.oid = c.relam AND m.amname = 'btree' JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE NOT a.indisunique AND a.indisvalid AND b.indisvalid AND a.indnatts = a.indnkeyatts
        AND (b.indkey::text || ' ') LIKE (a.indkey::text || ' %')
        AND (b.indclass::text || ' ') LIKE (a.indclass::text || ' %')
        AND (b.indcollation::text || ' ') LIKE (a.indcollation::text || ' %')
        AND (b.indoption::text || ' ') LIKE (a.indoption::text || ' %')
        AND coalesce(pg_get_expr(a.indexprs, a.indrelid), '') = coalesce(pg_get_expr(b.indexprs, b.indrelid), '')
        AND coalesce(pg_get_expr(a.indpred, a.indrelid), '') = coalesce(pg_get_expr(b.indpred, b.indrelid), '')
        AND (a.indkey::text <> b.indkey::text OR b.indisunique OR a.indexrelid > b.indexrelid)
        AND n.nspname !~ '^pg_' AND ($1 = '' OR n.nspname = $1)
    ORDER BY pg_relation_size(a.indexrelid) DESC, 2, 3 LIMIT $2::int
"""
_INVALID: Final = """
    SELECT i.indrelid::regclass::text, i.indexrelid::regclass::text, 'left by a failed CREATE INDEX CONCURRENTLY',
        format('REINDEX INDEX CONCURRENTLY %s', i.indexrelid::regclass)
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE NOT i.indisvalid AND c.relkind = 'i' AND ($1 = '' OR n.nspname = $1) ORDER BY 2 LIMIT $2::int
"""
_QUERIES: Final[dict[AdviceKind, str]] = {
    "foreign key without index": _FOREIGN_KEYS,
    "sequential scans": _SCANS,
    "unused index": _UNUSED,
    "redundant index": _REDUNDANT,
    "invalid index": _INVALID,
}
_SINCE: Final = """
    SELECT coalesce(to_char(stats_reset AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') || ' UTC', 'the first start')
    FROM pg_stat_database WHERE datname = current_database()
"""


@frozen(kw_only=True)
class IndexAdvice:
    """One index to create or drop, or a table to look at."""

    kind: AdviceKind
    table: str
    index: str | None
    reason: str
    sql: Annotated[str | None, "A statement that follows the advice."]


@frozen(kw_only=True)
class IndexAdvices:
    """Advice by kind, the largest tables and indexes first."""

    database: str
    items: tuple[IndexAdvice, ...]
    since: Annotated[str, "When the statistics of scans began."]
    truncated: Annotated[bool, "There is more advice of a kind."]


async def advise_indexes(connection: PostgresConnection, database: str, *, schema: str, limit: int) -> IndexAdvices:
    """Return at most ``limit`` pieces of advice of each kind."""
    items: list[IndexAdvice] = []
    has_more = False
    for kind, sql in _QUERIES.items():
        # One row more than requested shows whether there are more.
        rows = await fetch_rows(connection, sql, schema, str(limit + 1))
        has_more = has_more or len(rows) > limit
        items += [_advice(kind, row) for row in rows[:limit]]
    since = await fetch_rows(connection, _SINCE)
    return IndexAdvices(
        database=database, items=tuple(items), since=since[0][0] or "" if since else "", truncated=has_more
    )


def _advice(kind: AdviceKind, row: Record) -> IndexAdvice:
    table, index, reason, sql = row
    return IndexAdvice(kind=kind, table=table or "", index=index, reason=reason or "", sql=sql)
