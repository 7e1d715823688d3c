"""Names that may be used once, in a SQLite file, shared by the processes of one machine and kept over restarts."""

from __future__ import annotations

import sqlite3
from functools import partial
from hashlib import sha256
from typing import Final

from mcptrio.errors import StoreFailed
from mcptrio.stores.memory_replays import MAX_NAMES
from mcptrio.stores.sqlite_database import Database
from mcptrio.stores.wall_clock import WallClock

__all__ = ["SQLiteReplayStore"]

# Expired names that each use deletes, so expiry needs no task.
_MAX_EXPIRED: Final = 4


class SQLiteReplayStore:
    """Used names. Made by :func:`mcptrio.stores.sqlite.open_sqlite_stores`.

    Args:
        clock: The clock for expiry.
    """

    def __init__(self, database: Database, clock: WallClock) -> None:
        self._database = database
        self._clock = clock

    async def use(self, name: str, seconds: float) -> bool:
        # A digest, because a name may be long.
        digest = sha256(name.encode()).digest()
        now = self._clock.now()
        return await self._database.write(partial(_use, digest=digest, until=now + seconds, now=now))


def _use(connection: sqlite3.Connection, *, digest: bytes, until: float, now: float) -> bool:
    deleted = connection.execute(
        "DELETE FROM replays WHERE (name = ?1 AND until <= ?2)"
        " OR name IN (SELECT name FROM replays WHERE until <= ?2 ORDER BY until LIMIT ?3)",
        (digest, now, _MAX_EXPIRED),
    ).rowcount
    added = connection.execute("INSERT OR IGNORE INTO replays VALUES (?, ?)", (digest, until)).rowcount
    count = connection.execute(
        "UPDATE sums SET value = value + ? WHERE name = 'replays' RETURNING value", (added - deleted,)
    ).fetchone()[0]
    if count > MAX_NAMES:
        # The transaction is rolled back. A dropped name could be used again.
        raise StoreFailed(f"too many used names: {MAX_NAMES} are remembered")
    return bool(added)
