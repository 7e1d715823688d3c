"""Handshake sessions in a SQLite file.

The same contract as :class:`mcptrio.stores.memory.MemorySessionStore`. Of the principal it keeps who that is and what
was granted, not the claims: each request brings its own.
The one rule: a request that only uses a session writes nothing. That it was used is noted here, and stored when it
makes a difference of a thirtieth of the time after which a session expires.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import orjson

from mcptrio.abc import Principal, SessionRecord
from mcptrio.errors import Overloaded, StoreFailed
from mcptrio.stores.sqlite_database import Database
from mcptrio.stores.wall_clock import WallClock

__all__ = ["SQLiteSessionStore"]

_RESOLUTION: Final = 30
"""A session's last use is known to this part of the idle time."""
_NOTED: Final = 1000
"""Uses that are noted before they are stored; :meth:`SQLiteSessionStore.expire` stores them too."""
_SWEPT: Final = 500
"""Sessions that expire in one transaction."""
_ROOM: Final = 10
"""Expired sessions that are dropped, with their events, to make room for a new one."""

T = TypeVar("T")

_log = logging.getLogger("mcptrio.stores")


class SQLiteSessionStore:
    """Made by :func:`mcptrio.stores.sqlite.open_sqlite_stores`.

    Args:
        idle_timeout: seconds without use after which a session has expired.
        most: sessions kept; one more is refused.
        total_bytes: of all records; past it a new session is refused.
        forget: drops the events of a session. Called in the transaction in which an expired session makes room.
    """

    def __init__(
        self,
        database: Database,
        clock: WallClock,
        *,
        idle_timeout: float,
        most: int,
        total_bytes: int,
        forget: Callable[[sqlite3.Connection, str], None],
    ) -> None:
        self._database = database
        self._clock = clock
        self._idle = idle_timeout
        self._most = most
        self._total_bytes = total_bytes
        self._forget = forget
        self._noted: dict[str, float] = {}
        """When a session was used; not stored yet."""

    async def save(self, record: SessionRecord) -> None:
        data = orjson.dumps(_plain(record))
        now = self._clock.now()
        await self._database.write(partial(self._save, id=record.id, data=data, now=now))

    async def load(self, id: str) -> SessionRecord | None:
        row: tuple[bytes, float] | None = await self._database.read(partial(_select, id=id))
        if row is None:
            return None
        data, stored = row
        now, used = self._clock.now(), max(stored, self._noted.get(id, stored))
        if used + self._idle <= now:
            return None
        if now - used >= self._idle / _RESOLUTION:
            self._noted[id] = now
            if len(self._noted) % _NOTED == 0:
                try:
                    await self._write_noted(_nothing)
                except StoreFailed as error:
                    # The record is there; the notes are kept, and stored later.
                    _log.error("%s", error)
        return _record(data, f"{self._database.path}: session {id[:6]}…")

    async def delete(self, id: str) -> bool:
        now = self._clock.now()
        used = await self._database.write(partial(_delete, id=id))
        noted = self._noted.pop(id, None)
        return used is not None and max(used, noted or used) + self._idle > now

    async def expire(self) -> list[str]:
        return await self._write_noted(partial(self._expire, now=self._clock.now(), most=_SWEPT))

    def note(self, connection: sqlite3.Connection) -> None:
        """Store what was noted. In a thread, when nobody else uses the store."""
        _note(connection, self._noted)
        self._noted = {}

    async def _write_noted(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Store what was noted, and do the work in the same transaction. What cannot be stored stays noted.

        Raises:
            StoreFailed: it could not be stored.
        """
        noted, self._noted = self._noted, {}

        def both(connection: sqlite3.Connection) -> T:
            _note(connection, noted)
            return work(connection)

        written = False
        try:
            result = await self._database.write(both)
            written = True
        finally:
            if not written:
                # Those that were noted meanwhile are newer.
                self._noted = {**noted, **self._noted}
        return result

    def _save(self, connection: sqlite3.Connection, *, id: str, data: bytes, now: float) -> None:
        row = connection.execute("SELECT length(record) FROM sessions WHERE id = ?", (id,)).fetchone()
        if row is None and self._is_full(connection):
            for expired in self._expire(connection, now=now, most=_ROOM):
                self._forget(connection, expired)
            if self._is_full(connection):
                raise Overloaded("too many sessions are kept")
        connection.execute(
            "INSERT INTO sessions VALUES (?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET record = excluded.record, used = max(used, excluded.used)",
            (id, data, now),
        )
        _add(connection, "sessions", int(row is None))
        _add(connection, "session_bytes", len(data) - (row[0] if row else 0))

    def _is_full(self, connection: sqlite3.Connection) -> bool:
        sums = dict(connection.execute("SELECT name, value FROM sums").fetchall())
        return bool(sums["sessions"] >= self._most or sums["session_bytes"] >= self._total_bytes)

    def _expire(self, connection: sqlite3.Connection, *, now: float, most: int) -> list[str]:
        rows = connection.execute(
            "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE used <= ? ORDER BY used LIMIT ?)"
            " RETURNING id, length(record)",
            (now - self._idle, most),
        ).fetchall()
        _add(connection, "sessions", -len(rows))
        _add(connection, "session_bytes", -sum(size for _, size in rows))
        return [id for id, _ in rows]


def _note(connection: sqlite3.Connection, noted: Mapping[str, float]) -> None:
    """Write when sessions were used."""
    rows = [(used, id) for id, used in noted.items()]
    connection.executemany("UPDATE sessions SET used = max(used, ?) WHERE id = ?", rows)


def _nothing(_: sqlite3.Connection) -> None:
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


def _plain(record: SessionRecord) -> dict[str, Any]:
    principal = record.principal
    return {
        "id": record.id,
        "revision": record.revision,
        "principal": principal
        and {
            "subject": principal.subject,
            "issuer": principal.issuer,
            "client_id": principal.client_id,
            "scopes": sorted(principal.scopes),
        },
        "client_info": dict(record.client_info),
        "client_capabilities": dict(record.client_capabilities),
        "initialized": record.initialized,
        "log_level": record.log_level,
        "subscriptions": sorted(record.subscriptions),
    }


def _record(data: bytes, where: str) -> SessionRecord:
    """
    Raises:
        StoreFailed: it is no record.
    """
    try:
        plain = orjson.loads(data)
        principal = plain.pop("principal")
        if principal is not None:
            principal = Principal(**{**principal, "scopes": frozenset(principal["scopes"])})
        subscriptions = frozenset(plain.pop("subscriptions"))
        return SessionRecord(**plain, principal=principal, subscriptions=subscriptions)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise StoreFailed(f"{where}: expected a record, got something else: {error}") from error
