"""A session store in a SQLite file, with the contract of :class:`mcptrio.stores.memory.MemorySessionStore`.

A request that only loads a session does not write to the file: the times of last use are collected in memory and stored
later.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar

from attrs import evolve

from mcptrio.abc import SessionRecord
from mcptrio.errors import Overloaded, StoreFailed
from mcptrio.stores.records import read_record, write_record
from mcptrio.stores.sqlite_database import Database
from mcptrio.stores.wall_clock import WallClock

__all__ = ["SQLiteSessionStore"]

# The last use of a session is stored with a resolution of the idle timeout divided by this.
_RESOLUTION: Final = 30
# Uses that are collected before they are stored. expire() stores them too.
_MAX_USES: Final = 1000
# Sessions that expire in one transaction.
_MAX_EXPIRED: Final = 500
# Expired sessions that are removed, with their events, to make room for a new one.
_MAX_EXPIRED_FOR_ROOM: Final = 10

T = TypeVar("T")

_log = logging.getLogger("mcptrio.stores")


class SQLiteSessionStore:
    """Handshake sessions. Made by :func:`mcptrio.stores.sqlite.open_sqlite_stores`.

    Args:
        clock: The clock for last uses.
        idle_timeout: Seconds without use after which a session expires.
        max_sessions: The number of sessions; a further one is refused.
        total_bytes: Bytes of all records at which a new session is refused.
        forget: Deletes the events of an expired session, in the transaction that deletes the session to make room.
    """

    def __init__(
        self,
        database: Database,
        clock: WallClock,
        *,
        idle_timeout: float,
        max_sessions: int,
        total_bytes: int,
        forget: Callable[[sqlite3.Connection, str], None],
    ) -> None:
        self._database = database
        self._clock = clock
        self._idle = idle_timeout
        self._max_sessions = max_sessions
        self._total_bytes = total_bytes
        self._forget = forget
        # Last uses that are not stored yet.
        self._uses: dict[str, float] = {}

    async def save(self, record: SessionRecord) -> SessionRecord | None:
        stored = evolve(record, generation=record.generation + 1)
        save = partial(self._save, id=record.id, data=write_record(stored), generation=stored.generation)
        is_stored = await self._database.write(partial(save, now=self._clock.now()))
        return stored if is_stored else None

    async def load(self, id: str) -> SessionRecord | None:
        row: tuple[bytes, float] | None = await self._database.read(partial(_select, id=id))
        if row is None:
            return None
        data, stored = row
        now, used = self._clock.now(), max(stored, self._uses.get(id, stored))
        if used + self._idle <= now:
            return None
        if now - used >= self._idle / _RESOLUTION:
            self._uses[id] = now
            if len(self._uses) % _MAX_USES == 0:
                try:
                    await self._write_with_uses(_do_nothing)
                except StoreFailed as error:
                    # The record was found, so the request continues; the uses are stored later.
                    _log.error("%s", error)
        return read_record(data, f"{self._database.path}: session {id[:6]}…")

    async def delete(self, id: str) -> bool:
        now = self._clock.now()
        used = await self._database.write(partial(_delete, id=id))
        last_use = self._uses.pop(id, None)
        return used is not None and max(used, last_use or used) + self._idle > now

    async def expire(self) -> list[str]:
        return await self._write_with_uses(partial(self._expire, now=self._clock.now(), limit=_MAX_EXPIRED))

    def write_uses(self, connection: sqlite3.Connection) -> None:
        """Store the collected uses. Called in a thread while the store is not in use."""
        _update_uses(connection, self._uses)
        self._uses = {}

    async def _write_with_uses(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Store the collected uses and run ``work`` in the same transaction. After a failure the uses stay collected.

        Raises:
            StoreFailed: The write failed.
        """
        uses, self._uses = self._uses, {}

        def both(connection: sqlite3.Connection) -> T:
            _update_uses(connection, uses)
            return work(connection)

        written = False
        try:
            result = await self._database.write(both)
            written = True
        finally:
            if not written:
                # Uses collected in the meantime are newer.
                self._uses = {**uses, **self._uses}
        return result

    def _save(self, connection: sqlite3.Connection, *, id: str, data: bytes, generation: int, now: float) -> bool:
        row = connection.execute("SELECT length(record), generation FROM sessions WHERE id = ?", (id,)).fetchone()
        if (row[1] if row is not None else 0) != generation - 1:
            return False
        if row is None and self._is_full(connection):
            for expired in self._expire(connection, now=now, limit=_MAX_EXPIRED_FOR_ROOM):
                self._forget(connection, expired)
            if self._is_full(connection):
                raise Overloaded("too many sessions are kept")
        connection.execute(
            "INSERT INTO sessions VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE"
            " SET record = excluded.record, generation = excluded.generation, used = max(used, excluded.used)",
            (id, data, generation, now),
        )
        _add(connection, "sessions", int(row is None))
        _add(connection, "session_bytes", len(data) - (row[0] if row else 0))
        return True

    def _is_full(self, connection: sqlite3.Connection) -> bool:
        sums = dict(connection.execute("SELECT name, value FROM sums").fetchall())
        return bool(sums["sessions"] >= self._max_sessions or sums["session_bytes"] >= self._total_bytes)

    def _expire(self, connection: sqlite3.Connection, *, now: float, limit: int) -> list[str]:
        rows = connection.execute(
            "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE used <= ? ORDER BY used LIMIT ?)"
            " RETURNING id, length(record)",
            (now - self._idle, limit),
        ).fetchall()
        _add(connection, "sessions", -len(rows))
        _add(connection, "session_bytes", -sum(size for _, size in rows))
        return [id for id, _ in rows]


def _update_uses(connection: sqlite3.Connection, uses: Mapping[str, float]) -> None:
    rows = [(used, id) for id, used in uses.items()]
    connection.executemany("UPDATE sessions SET used = max(used, ?) WHERE id = ?", rows)


def _do_nothing(_: sqlite3.Connection) -> None:
    pass


def _select(connection: sqlite3.Connection, *, id: str) -> tuple[bytes, float] | None:
    row: tuple[bytes, float] | None = connection.execute(
        "SELECT record, used FROM sessions WHERE id = ?", (id,)
    ).fetchone()
    return row


def _delete(connection: sqlite3.Connection, *, id: str) -> float | None:
    row = connection.execute("DELETE FROM sessions WHERE id = ? RETURNING used, length(record)", (id,)).fetchone()
    if row is None:
        return None
    _add(connection, "sessions", -1)
    _add(connection, "session_bytes", -row[1])
    return float(row[0])


def _add(connection: sqlite3.Connection, name: str, value: int) -> None:
    if value:
        connection.execute("UPDATE sums SET value = value + ? WHERE name = ?", (value, name))
