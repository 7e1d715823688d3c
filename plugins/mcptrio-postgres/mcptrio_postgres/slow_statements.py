"""Lists the statements that take the most time, from the extension pg_stat_statements.

Source: PostgreSQL 15 documentation, F.32 "pg_stat_statements".
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from attrs import frozen

from .connection import PostgresConnection, StatementFailed
from .queries import OWN_STATEMENT_MARK, fetch_rows

__all__ = ["SlowOrder", "SlowStatement", "SlowStatements", "slow_statements"]

SlowOrder = Literal["total", "mean", "calls", "reads"]

_SORT_KEYS: Final = {
    "total": "s.total_exec_time",
    "mean": "s.mean_exec_time",
    "calls": "s.calls",
    "reads": "s.shared_blks_read",
}
_MAX_CHARS: Final = 1_000
_INSTALL: Final = (
    "pg_stat_statements is not installed in this database. A superuser sets shared_preload_libraries = "
    "'pg_stat_statements' in postgresql.conf, restarts the server, and runs CREATE EXTENSION pg_stat_statements"
)
_NOT_LOADED: Final = "55000"
_EXTENSION: Final = """
    SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname = 'pg_stat_statements'
"""
# pg_stat_statements also counts commands such as BEGIN, which are omitted.
_STATEMENTS: Final = f"""
    SELECT s.calls, round(s.total_exec_time::numeric, 1), round(s.mean_exec_time::numeric, 2), s.rows,
        s.shared_blks_hit, s.shared_blks_read, left(regexp_replace(s.query, '\\s+', ' ', 'g'), {_MAX_CHARS + 1})
    FROM %s.pg_stat_statements s
    WHERE s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND s.query !~* '^\\s*(begin|commit|rollback|discard|set|declare|fetch|move|close|deallocate|show|explain)\\M'
        AND strpos(s.query, '{OWN_STATEMENT_MARK}') = 0
    ORDER BY %s DESC LIMIT $1::int
"""


@frozen(kw_only=True)
class SlowStatement:
    """A statement with its statistics; its constants are $1, $2 and so on."""

    calls: int
    total_ms: float
    mean_ms: float
    rows: Annotated[int, "Rows of all calls."]
    cache_hits: Annotated[float | None, "Share of the blocks that were in the cache, 0 to 1."]
    query: str


@frozen(kw_only=True)
class SlowStatements:
    """Statements in the requested order."""

    database: str
    items: tuple[SlowStatement, ...]
    advice: Annotated[str | None, "How to install pg_stat_statements, if it is missing."] = None


async def slow_statements(
    connection: PostgresConnection, database: str, *, order: SlowOrder, limit: int
) -> SlowStatements:
    """Return the first statements in an order, or advice on installing the extension."""
    extensions = await fetch_rows(connection, _EXTENSION)
    if not extensions:
        return SlowStatements(database=database, items=(), advice=_INSTALL)
    try:
        rows = await fetch_rows(connection, _STATEMENTS % (extensions[0][0], _SORT_KEYS[order]), str(limit))
    except StatementFailed as error:
        if error.code == _NOT_LOADED:
            return SlowStatements(database=database, items=(), advice=_INSTALL)
        raise
    items = []
    for calls, total, mean, count, hits, reads, query in rows:
        blocks = int(hits or 0) + int(reads or 0)
        text = query or ""
        items.append(
            SlowStatement(
                calls=int(calls or 0),
                total_ms=float(total or 0),
                mean_ms=float(mean or 0),
                rows=int(count or 0),
                cache_hits=round(int(hits or 0) / blocks, 3) if blocks else None,
                query=text if len(text) <= _MAX_CHARS else text[:_MAX_CHARS] + "…",
            )
        )
    return SlowStatements(database=database, items=tuple(items))
