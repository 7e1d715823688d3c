"""One-time names and rate quotas, shared by all replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from attrs import frozen

from mcptrio_store_postgres.database import PostgresDatabase
from mcptrio_store_postgres.keys import key_of
from mcptrio_store_postgres.operations import DatabaseOperation, OperationBatch, Results

__all__ = ["PostgresQuotaStore", "PostgresReplayStore"]

_USE: Final = """
INSERT INTO replays AS r (name, expires)
SELECT name, now() + seconds * interval '1 s'
FROM unnest(%s::text[], %s::float8[]) WITH ORDINALITY AS w (name, seconds, nth) ORDER BY nth
ON CONFLICT (name) DO UPDATE SET expires = excluded.expires WHERE r.expires <= now()
RETURNING name
"""
_QUOTA_ROWS: Final = """
INSERT INTO quotas (name, arrival) SELECT name, now() FROM unnest(%s::text[]) WITH ORDINALITY AS w (name, nth)
ORDER BY nth ON CONFLICT (name) DO NOTHING
"""
# Updates the theoretical arrival time. With clock_timestamp(), because a transaction may have waited for the row.
_TAKE: Final = """
UPDATE quotas AS q SET arrival = found.base + found.granted * found.step * interval '1 s'
FROM (
    SELECT name, step, base, greatest(0, least(wanted, floor(
        extract(epoch FROM clock_timestamp() + burst * step * interval '1 s' - base) / step + 1e-6))) AS granted, burst
    FROM (
        SELECT q.name, w.step, w.burst, w.wanted, greatest(q.arrival, clock_timestamp()) AS base
        FROM quotas AS q JOIN unnest(%s::text[], %s::float8[], %s::float8[], %s::float8[])
            AS w (name, step, burst, wanted) USING (name)
        ORDER BY q.name FOR UPDATE OF q
    ) AS locked
) AS found
WHERE q.name = found.name
RETURNING q.name, found.granted::bigint,
    extract(epoch FROM q.arrival + (1 - found.burst) * found.step * interval '1 s' - clock_timestamp())::float8
"""


@frozen
class _Take:
    name: str
    step: float
    burst: int


class PostgresReplayStore:
    """Implements :class:`mcptrio.abc.ReplayStore`."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def use(self, name: str, seconds: float) -> bool:
        key = key_of(name)
        return bool(await self._database.write(DatabaseOperation(_use, (key, seconds), key)))


class PostgresQuotaStore:
    """Implements :class:`mcptrio.abc.QuotaStore`."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def take(self, name: str, *, count: int, seconds: float, burst: int) -> float:
        wait: float = await self._database.write(DatabaseOperation(_take, _Take(key_of(name), seconds / count, burst)))
        return wait


def _use(batch: OperationBatch, items: Sequence[tuple[str, float]]) -> Results:
    sorted_items = sorted(items)
    cursor = batch.connection.execute(
        _USE, ([name for name, _ in sorted_items], [seconds for _, seconds in sorted_items])
    )
    yield
    names = {name for (name,) in cursor.fetchall()}
    return [name in names for name, _ in items]


def _take(batch: OperationBatch, items: Sequence[_Take]) -> Results:
    """Take from quotas. Equal requests are sent as one, with their number; the first ones of them are granted."""
    yield
    results: list[Any] = [0.0] * len(items)
    waiting: dict[_Take, list[int]] = {}
    for index, item in enumerate(items):
        waiting.setdefault(item, []).append(index)
    while waiting:
        # One statement can change a row only once, so a second rate of a name is taken by the next statement.
        next_takes: dict[str, _Take] = {}
        for item in sorted(waiting, key=lambda item: item.name):
            next_takes.setdefault(item.name, item)
        takers = [(item, waiting.pop(item)) for item in next_takes.values()]
        rows = _execute_take(batch, takers)
        for item, indexes in takers:
            if item.name not in rows:
                # The sweeper has deleted the row after _QUOTA_ROWS found it. The next statement inserts it.
                waiting[item] = indexes
                continue
            granted, wait = rows[item.name]
            for index in indexes[granted:]:
                results[index] = wait
    return results


def _execute_take(batch: OperationBatch, takers: Sequence[tuple[_Take, list[int]]]) -> dict[str, tuple[int, float]]:
    names = [item.name for item, _ in takers]
    batch.connection.execute(_QUOTA_ROWS, (names,))
    parameters = (
        names,
        [item.step for item, _ in takers],
        [float(item.burst) for item, _ in takers],
        [float(len(indexes)) for _, indexes in takers],
    )
    rows: list[tuple[Any, ...]] = batch.connection.execute(_TAKE, parameters).fetchall()
    # A refused request waits at least a millisecond, because zero means that it was granted.
    return {name: (granted, max(wait, 0.001)) for name, granted, wait in rows}
