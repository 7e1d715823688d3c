"""Rates in a SQLite file, shared by the processes of one machine and kept over restarts.

Source: ITU-T I.371, annex A; see :mod:`mcptrio.stores.memory_quotas`.
"""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import Final

from mcptrio.stores.memory_quotas import MAX_QUOTAS, next_arrival
from mcptrio.stores.sqlite_database import Database
from mcptrio.stores.wall_clock import WallClock

__all__ = ["SQLiteQuotaStore"]

# Quotas that each take deletes, if they are full again or too many, so expiry needs no task.
_MAX_EXPIRED: Final = 4


class SQLiteQuotaStore:
    """Quotas. Made by :func:`mcptrio.stores.sqlite.open_sqlite_stores`.

    Args:
        clock: The clock for rates.
    """

    def __init__(self, database: Database, clock: WallClock) -> None:
        self._database = database
        self._clock = clock

    async def take(self, name: str, *, count: int, seconds: float, burst: int) -> float:
        take = partial(_take, name=name, count=count, seconds=seconds, burst=burst, now=self._clock.now())
        return await self._database.write(take)


def _take(connection: sqlite3.Connection, *, name: str, count: int, seconds: float, burst: int, now: float) -> float:
    row = connection.execute("SELECT arrival FROM quotas WHERE name = ?", (name,)).fetchone()
    arrival, wait = next_arrival(row[0] if row is not None else now, now, count=count, seconds=seconds, burst=burst)
    if wait > 0.0:
        return wait
    connection.execute("INSERT OR REPLACE INTO quotas VALUES (?, ?, ?)", (name, arrival, burst * seconds / count))
    total = connection.execute(
        "UPDATE sums SET value = value + ? WHERE name = 'quotas' RETURNING value", (int(row is None),)
    ).fetchone()[0]
    # A quota whose arrival time has passed is full, as if it had never been used. If there are too many quotas, the
    # fullest are deleted.
    deleted = connection.execute(
        "DELETE FROM quotas WHERE name IN (SELECT name FROM quotas WHERE name != ? ORDER BY arrival LIMIT ?)"
        " AND (arrival <= ? OR ?)",
        (name, _MAX_EXPIRED, now, total > MAX_QUOTAS),
    ).rowcount
    if deleted:
        connection.execute("UPDATE sums SET value = value - ? WHERE name = 'quotas'", (deleted,))
    return 0.0
