"""Query plans of PostgreSQL.

``explain_query`` uses it. A statement whose parameters are unknown, such as one of ``slow_queries``, gets its generic
plan.

Source: PostgreSQL 15 documentation, EXPLAIN and 20.7.4 ``plan_cache_mode``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from attrs import frozen

from .connection import PostgresConnection, ServerRefused
from .queries import rows_of
from .values import Value, bound_values

__all__ = ["PostgresPlan", "explain_plan"]

_MAX_LINES: Final = 400
_MAX_LINE_CHARS: Final = 500


@frozen(kw_only=True)
class PostgresPlan:
    """A query plan."""

    database: str
    lines: Annotated[tuple[str, ...], "The plan as PostgreSQL prints it."]
    generic: Annotated[bool, "Made without the values of the parameters."]
    truncated: Annotated[bool, "There are more lines."]


async def explain_plan(
    connection: PostgresConnection, database: str, sql: str, params: Sequence[Value], *, analyze: bool, limit: int
) -> PostgresPlan:
    """Return the plan of one statement.

    Args:
        analyze: Run the statement as well.
        limit: Bytes of all parameters.
    """
    statement = await connection.prepare(sql)
    is_generic = bool(statement.parameter_types) and not params and not analyze
    try:
        if is_generic:
            await connection.prepare(sql, name="explained")
            await connection.run("SET LOCAL plan_cache_mode = force_generic_plan")
            nulls = ", ".join(["NULL"] * len(statement.parameter_types))
            rows = await rows_of(connection, f"EXPLAIN EXECUTE explained({nulls})")
        else:
            options = "ANALYZE, BUFFERS" if analyze else "COSTS"
            values = bound_values(params, statement.parameter_types, limit=limit)
            result = await connection.ask(f"EXPLAIN ({options}) {sql}", values, statement.parameter_types)
            rows = [((result.get_value(at, 0) or b"").decode(errors="replace"),) for at in range(result.ntuples)]
    except ServerRefused as error:
        # The position is one in the statement with EXPLAIN.
        error.position = 0
        raise
    lines = tuple(_short(row[0] or "") for row in rows[:_MAX_LINES])
    return PostgresPlan(database=database, lines=lines, generic=is_generic, truncated=len(rows) > _MAX_LINES)


def _short(line: str) -> str:
    return line if len(line) <= _MAX_LINE_CHARS else line[:_MAX_LINE_CHARS] + "…"
