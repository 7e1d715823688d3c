"""Query plans of PostgreSQL.

``explain_query`` uses them. For a statement whose parameters are unknown, such as one from ``slow_queries``, it returns
the generic plan.

Source: PostgreSQL 15 documentation, EXPLAIN and 20.7.4 ``plan_cache_mode``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from attrs import frozen

from .connection import PostgresConnection, StatementFailed
from .queries import fetch_rows
from .values import Value, encode_parameters

__all__ = ["PostgresPlan", "explain_plan"]

_MAX_LINES: Final = 400
_MAX_LINE_CHARS: Final = 500


@frozen(kw_only=True)
class PostgresPlan:
    """A query plan."""

    database: str
    lines: Annotated[tuple[str, ...], "The plan as PostgreSQL prints it."]
    generic: Annotated[bool, "The plan was made without values for the parameters."]
    truncated: Annotated[bool, "There are more lines."]


async def explain_plan(
    connection: PostgresConnection, database: str, sql: str, params: Sequence[Value], *, analyze: bool, limit: int
) -> PostgresPlan:
    """Return the plan of one statement.

    Args:
        analyze: Run the statement as well.
        limit: Maximum size of all parameters in bytes.
    """
    statement = await connection.prepare(sql)
    is_generic = bool(statement.parameter_types) and not params and not analyze
    try:
        if is_generic:
            await connection.prepare(sql, name="explained")
            await connection.run("SET LOCAL plan_cache_mode = force_generic_plan")
            nulls = ", ".join(["NULL"] * len(statement.parameter_types))
            rows = await fetch_rows(connection, f"EXPLAIN EXECUTE explained({nulls})")
        else:
            options = "ANALYZE, BUFFERS" if analyze else "COSTS"
            values = encode_parameters(params, statement.parameter_types, limit=limit)
            result = await connection.execute(f"EXPLAIN ({options}) {sql}", values, statement.parameter_types)
            rows = [((result.get_value(at, 0) or b"").decode(errors="replace"),) for at in range(result.ntuples)]
    except StatementFailed as error:
        # The position refers to the statement with EXPLAIN, which the model did not write.
        error.position = 0
        raise
    lines = tuple(_short(row[0] or "") for row in rows[:_MAX_LINES])
    return PostgresPlan(database=database, lines=lines, generic=is_generic, truncated=len(rows) > _MAX_LINES)


def _short(line: str) -> str:
    return line if len(line) <= _MAX_LINE_CHARS else line[:_MAX_LINE_CHARS] + "…"
