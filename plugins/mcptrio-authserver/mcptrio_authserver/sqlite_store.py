"""The records in a SQLite file: one table, one connection, one transaction after another.

Opened by :class:`.authorization_server.AuthorizationServer` for as long as it serves.
The one rule: a transaction is whole or was not there, and other processes on the same file wait for it.

The file is its owner's alone (0600): digests are in it for all that lets clients and users in, but the keys that sign
tokens have to be in it as they are. A full disk, a damaged file or another process that does not let go is
``StoreFailed``; the next transaction is tried anew.

Source: sqlite.org/wal.html; sqlite.org/lang_transaction.html.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson
import trio

from mcptrio.errors import StoreFailed
from mcptrio.serving import run_pragma, store_failed

from .ledger import Ledger
from .refusals import Refusal

__all__ = ["SQLiteStore", "open_sqlite_store"]

T = TypeVar("T")

_APPLICATION: Final = 0x6D617574
"""The application id in the header of our files: ``maut``."""
_SCHEMA: Final = 1
_LOCK_TIMEOUT: Final = 5.0
"""Seconds to wait for another process that writes."""
_PAGE: Final = 4096
_MAX_FILE_BYTES: Final = 512 * 1024 * 1024
"""What the file may grow to; the bounds of each kind end long before that."""
_MAX_WAITING: Final = 200
"""Transactions that may wait for their turn; more are refused."""
_CLOSE_TIMEOUT: Final = 5.0
_MAX_EXPIRED_ROWS: Final = 5000
"""Records in one sweep, so that nobody waits for it."""

_TABLES: Final = (
    """CREATE TABLE records (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        grp TEXT NOT NULL,
        value BLOB NOT NULL,
        until REAL NOT NULL,
        UNIQUE (kind, key)
    )""",
    "CREATE INDEX records_by_group ON records (kind, grp, id)",
    "CREATE INDEX records_by_end ON records (until)",
)


class SQLiteStore:
    """Made by :func:`open_sqlite_store`."""

    def __init__(self, connection: sqlite3.Connection, path: Path, clock: Callable[[], float]) -> None:
        self._connection = connection
        self._path = path
        self._clock = clock
        self._alone = trio.CapacityLimiter(1)

    async def transact(self, work: Callable[[Ledger], T]) -> T:
        """
        Raises:
            StoreFailed: it was not done, or too many wait already.
        """
        if self._alone.statistics().tasks_waiting >= _MAX_WAITING:
            raise StoreFailed(f"{self._path}: {_MAX_WAITING} transactions are waiting already")
        return await trio.to_thread.run_sync(self._transact, work, limiter=self._alone)

    async def sweep(self) -> int:
        """Delete what has ended, a few thousand at most. 0 where nothing is left."""
        return await trio.to_thread.run_sync(self._sweep, limiter=self._alone)

    def close(self) -> None:
        self._connection.close()

    # Private

    def _transact(self, work: Callable[[Ledger], T]) -> T:
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                try:
                    result = work(_Records(connection, self._clock()))
                except Refusal:
                    connection.execute("COMMIT")
                    raise
                connection.execute("COMMIT")
                return result
            finally:
                # What failed, not what was refused.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise store_failed(self._path, error) from error

    def _sweep(self) -> int:
        try:
            return self._connection.execute(
                "DELETE FROM records WHERE id IN (SELECT id FROM records WHERE until <= ? LIMIT ?)",
                (self._clock(), _MAX_EXPIRED_ROWS),
            ).rowcount
        except sqlite3.Error as error:
            raise store_failed(self._path, error) from error


@asynccontextmanager
async def open_sqlite_store(path: Path, *, clock: Callable[[], float] = time.time) -> AsyncIterator[SQLiteStore]:
    """The records of a file, which is made if there is none.

    Args:
        clock: seconds since 1970.

    Raises:
        StoreFailed: it cannot be opened, or is somebody else's.
    """
    connection = await trio.to_thread.run_sync(_open, path, limiter=trio.CapacityLimiter(1))
    store = SQLiteStore(connection, path, clock)
    try:
        yield store
    finally:
        with trio.move_on_after(_CLOSE_TIMEOUT, shield=True):
            await trio.to_thread.run_sync(store.close, limiter=trio.CapacityLimiter(1))


class _Records:
    """The ledger of one transaction."""

    def __init__(self, connection: sqlite3.Connection, now: float) -> None:
        self._connection = connection
        self._now = now

    def get(self, kind: str, key: str) -> Mapping[str, Any] | None:
        row = self._connection.execute(
            "SELECT value FROM records WHERE kind = ? AND key = ? AND until > ?", (kind, key, self._now)
        ).fetchone()
        return None if row is None else _loaded(row[0])

    def put(
        self, kind: str, key: str, value: Mapping[str, Any], *, until: float, group: str = "", most: int | None = None
    ) -> None:
        self._connection.execute(
            "INSERT INTO records (kind, key, grp, value, until) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (kind, key) DO UPDATE SET grp = excluded.grp, value = excluded.value, until = excluded.until",
            (kind, key, group, orjson.dumps(dict(value)), until),
        )
        if most is not None:
            self._connection.execute(
                "DELETE FROM records WHERE id IN ("
                "SELECT id FROM records WHERE kind = ? AND grp = ? ORDER BY id DESC LIMIT -1 OFFSET ?)",
                (kind, group, most),
            )

    def delete(self, kind: str, key: str) -> bool:
        done = self._connection.execute("DELETE FROM records WHERE kind = ? AND key = ?", (kind, key))
        return done.rowcount > 0

    def delete_group(self, kind: str, group: str | None) -> int:
        where, values = _of_kind(kind, group)
        return self._connection.execute(f"DELETE FROM records WHERE {where}", values).rowcount

    def count(self, kind: str, group: str | None = None) -> int:
        where, values = _of_kind(kind, group)
        found: tuple[int] = self._connection.execute(
            f"SELECT count(*) FROM records WHERE {where} AND until > ?", (*values, self._now)
        ).fetchone()
        return found[0]

    def list(self, kind: str, group: str | None = None) -> Sequence[Mapping[str, Any]]:
        where, values = _of_kind(kind, group)
        rows = self._connection.execute(
            f"SELECT value FROM records WHERE {where} AND until > ? ORDER BY id", (*values, self._now)
        ).fetchall()
        return [_loaded(row[0]) for row in rows]


def _of_kind(kind: str, group: str | None) -> tuple[str, tuple[str, ...]]:
    """A condition that the index on kind and group can answer."""
    return ("kind = ?", (kind,)) if group is None else ("kind = ? AND grp = ?", (kind, group))


def _loaded(value: bytes) -> Mapping[str, Any]:
    loaded: dict[str, Any] = orjson.loads(value)
    return loaded


def _open(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make(path)
        connection = sqlite3.connect(path, timeout=_LOCK_TIMEOUT, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise store_failed(path, error) from error
    opened = False
    try:
        connection.execute("PRAGMA trusted_schema=OFF")
        # Before anything that changes it, in a transaction, since another process may be making it.
        connection.execute("BEGIN")
        _is_ours(connection, path)
        connection.execute("ROLLBACK")
        mode = run_pragma(connection, "PRAGMA journal_mode=WAL", _LOCK_TIMEOUT)
        if mode != "wal":
            raise StoreFailed(f"{path}: expected a file system that can share memory (wal), got journal mode {mode!r}")
        # A code that was used must not be good again after a power cut.
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute(f"PRAGMA max_page_count={_MAX_FILE_BYTES // _PAGE}")
        connection.execute("BEGIN IMMEDIATE")
        if not _is_ours(connection, path):
            for statement in _TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id={_APPLICATION}")
            connection.execute(f"PRAGMA user_version={_SCHEMA}")
        connection.execute("COMMIT")
        opened = True
    except sqlite3.Error as error:
        raise store_failed(path, error) from error
    finally:
        if not opened:
            connection.close()
    return connection


def _make(path: Path) -> None:
    """Make the file for its owner alone, as SQLite makes its own with the rights of this one."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise StoreFailed(f"{path}: expected a file, got something else") from None
        if os.name == "posix" and found.st_mode & 0o077:
            mode = stat.S_IMODE(found.st_mode)
            raise StoreFailed(
                f"{path}: expected a file that only its owner may open (mode 600), got {mode:o}"
            ) from None


def _is_ours(connection: sqlite3.Connection, path: Path) -> bool:
    """
    Returns:
        Whether its tables are there.

    Raises:
        StoreFailed: somebody else's file, or of a newer version.
    """
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    schema = connection.execute("PRAGMA user_version").fetchone()[0]
    if application == schema == 0 and connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
        return False
    if application != _APPLICATION:
        raise StoreFailed(f"{path}: expected a file of mcptrio-authserver or a new one, got somebody else's database")
    if schema > _SCHEMA:
        raise StoreFailed(f"{path}: expected schema {_SCHEMA}, got {schema}: a newer mcptrio-authserver has made it")
    return True
