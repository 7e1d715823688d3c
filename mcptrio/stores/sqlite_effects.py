"""Claims and results of side effects in a SQLite file, shared by the processes of one machine.

A claim has the id of its process among those that use the file. If that process ended without a result, the effect may
have happened, so no other process gets the claim.
"""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import Final

from mcptrio.abc import EffectClaim, EffectState
from mcptrio.stores.memory_effects import EFFECT_SECONDS
from mcptrio.stores.process_locks import ProcessRegistry
from mcptrio.stores.sqlite_database import Database
from mcptrio.stores.wall_clock import WallClock

__all__ = ["SQLiteEffectStore"]

# Old effects that each claim checks for expiry.
_MAX_EXPIRED: Final = 4


class SQLiteEffectStore:
    """Effects. Made by :func:`mcptrio.stores.sqlite.open_sqlite_stores`.

    Args:
        clock: The clock for ages.
        processes: Shows which processes still run.
    """

    def __init__(self, database: Database, clock: WallClock, processes: ProcessRegistry) -> None:
        self._database = database
        self._clock = clock
        self._processes = processes

    async def claim(self, call: str, key: str) -> EffectClaim:
        return await self._database.write(partial(self._claim, call=call, key=key, now=self._clock.now()))

    async def finish(self, call: str, key: str, result: bytes, keep: float = EFFECT_SECONDS) -> None:
        # A row expires an hour after ``touched``, so a result that is kept longer gets a time in the future.
        touched = self._clock.now() + keep - EFFECT_SECONDS
        finish = partial(_finish, call=call, key=key, result=result, writer=self._processes.id, touched=touched)
        await self._database.write(finish)

    async def release(self, call: str, key: str) -> None:
        await self._database.write(partial(_release, call=call, key=key, writer=self._processes.id))

    # In a thread

    def _claim(self, connection: sqlite3.Connection, *, call: str, key: str, now: float) -> EffectClaim:
        self._drop_aged(connection, now)
        row = connection.execute(
            "SELECT writer, result, touched FROM effects WHERE call = ? AND key = ?", (call, key)
        ).fetchone()
        if row is None or (row[1] is not None and row[2] <= now - EFFECT_SECONDS):
            connection.execute(
                "INSERT OR REPLACE INTO effects VALUES (?, ?, ?, NULL, ?)", (call, key, self._processes.id, now)
            )
            return EffectClaim(EffectState.CLAIMED)
        writer, result, _ = row
        if result is not None:
            return EffectClaim(EffectState.DONE, result)
        return EffectClaim(EffectState.RUNNING if self._processes.is_alive(writer) else EffectState.LOST)

    def _drop_aged(self, connection: sqlite3.Connection, now: float) -> None:
        rows = connection.execute(
            "SELECT call, key, writer, result IS NULL FROM effects WHERE touched <= ? ORDER BY touched LIMIT ?",
            (now - EFFECT_SECONDS, _MAX_EXPIRED),
        ).fetchall()
        for call, key, writer, is_running in rows:
            if is_running and self._processes.is_alive(writer):
                connection.execute("UPDATE effects SET touched = ? WHERE call = ? AND key = ?", (now, call, key))
            else:
                connection.execute("DELETE FROM effects WHERE call = ? AND key = ?", (call, key))


def _finish(connection: sqlite3.Connection, *, call: str, key: str, result: bytes, writer: str, touched: float) -> None:
    connection.execute(
        "UPDATE effects SET result = ?, touched = ? WHERE call = ? AND key = ? AND writer = ?",
        (result, touched, call, key, writer),
    )


def _release(connection: sqlite3.Connection, *, call: str, key: str, writer: str) -> None:
    connection.execute(
        "DELETE FROM effects WHERE call = ? AND key = ? AND writer = ? AND result IS NULL", (call, key, writer)
    )
