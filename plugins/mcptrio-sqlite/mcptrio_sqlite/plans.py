"""Query plans of SQLite.

The job of ``explain_query`` makes them in a child process. The query is compiled but not run.

Source: sqlite.org/eqp.html.
"""

from __future__ import annotations

import re
import sqlite3
from typing import Annotated, Final

from attrs import frozen

from .connections import OpenDatabase
from .values import Parameter, Parameters

__all__ = ["Plan", "Step", "explain_plan"]

_PREFIX: Final = "EXPLAIN QUERY PLAN "
_MAX_STEPS: Final = 500
_MAX_PLACEHOLDERS: Final = 1000
_MISSING: Final = re.compile(r"value for binding (?:parameter )?:?(?P<name>\S+?)\.?$")
_COUNT: Final = re.compile(r"statement uses (?P<count>\d{1,4}),")


@frozen(kw_only=True)
class Step:
    """One step of a plan."""

    id: int
    parent: Annotated[int, "The step that contains this one; 0 for none."]
    detail: Annotated[str, "SCAN reads a whole table, SEARCH uses an index or the key."]


@frozen(kw_only=True)
class Plan:
    """A query plan."""

    database: str
    items: tuple[Step, ...]
    truncated: Annotated[bool, "There are more steps."]


def explain_plan(opened: OpenDatabase, query: str, parameters: Parameters | None) -> Plan:
    """Return the plan of one statement. If ``parameters`` is ``None``, NULL is bound to each placeholder."""
    if parameters is None:
        parameters = _null_parameters(opened, query)
    rows = opened.execute(query, parameters, prefix=_PREFIX).fetchmany(_MAX_STEPS + 1)
    steps = tuple(Step(id=number, parent=parent, detail=detail) for number, parent, _, detail in rows[:_MAX_STEPS])
    return Plan(database=opened.database.name, items=steps, truncated=len(rows) > _MAX_STEPS)


def _null_parameters(opened: OpenDatabase, query: str) -> Parameters:
    """Return NULL for each placeholder of the query."""
    # sqlite3 has no function that lists the placeholders, so its error messages name them one by one.
    names: dict[str, Parameter] = {}
    for _ in range(_MAX_PLACEHOLDERS):
        try:
            opened.execute(query, names, prefix=_PREFIX).close()
        except sqlite3.ProgrammingError as error:
            if missing := _MISSING.search(str(error)):
                names[missing["name"].lstrip(":@$")] = None
                continue
            if "has no name" not in str(error):
                raise
            try:
                opened.execute(query, [], prefix=_PREFIX).close()
            except sqlite3.ProgrammingError as nameless:
                if count := _COUNT.search(str(nameless)):
                    return [None for _ in range(int(count["count"]))]
                raise
        break
    return names
