"""The records in a SQLite file: one table, one connection, one transaction at a time.

:class:`.authorization_server.AuthorizationServer` opens it. Several processes may use the file. A full disk, a damaged
file or a lock that is not released raises ``StoreFailed``; the next transaction starts afresh.

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
from mcptrio.stores import run_pragma, store_failed

from .ledger import Ledger
from .refusals import Refusal

__all__ = ["SQLiteStore", "open_sqlite_store"]

T = TypeVar("T")

# The application id in the file header: "maut".
_APPLICATION_ID: Final = 0x6D617574
_SCHEMA_VERSION: Final = 1
# Seconds to wait for another process that writes.
_LOCK_TIMEOUT: Final = 5.0
# SQLite's default page size in bytes.
_PAGE_BYTES: Final = 4096
# Largest file in bytes; the limits of each kind of record are reached long before.
_MAX_FILE_BYTES: Final = 512 * 1024 * 1024
# Transactions in the queue; further ones are refused.
_MAX_WAITING: Final = 200
# Seconds for closing the file.
_CLOSE_TIMEOUT: Final = 5.0
# Records that one transaction deletes, so requests do not wait long for it.
_MAX_EXPIRED_ROWS: Final = 5000

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
    """The store in a file. Made by :func:`open_sqlite_store`."""

    def __init__(self, connection: sqlite3.Connection, path: Path, clock: Callable[[], float]) -> None:
        self._connection = connection
        self._path = path
        self._clock = clock
        self._limiter = trio.CapacityLimiter(1)

    async def transact(self, work: Callable[[Ledger], T]) -> T:
        """Run ``work`` in a thread as a transaction.

        Raises:
            StoreFailed: The transaction failed, or too many are waiting.
        """
        if self._limiter.statistics().tasks_waiting >= _MAX_WAITING:
            raise StoreFailed(f"{self._path}: {_MAX_WAITING} transactions are already waiting")
        return await trio.to_thread.run_sync(self._transact, work, limiter=self._limiter)

    async def delete_expired(self) -> int:
        """Delete a few thousand expired records; return their number, 0 if none is left."""
        return await trio.to_thread.run_sync(self._delete_expired, limiter=self._limiter)

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
                # Only errors are rolled back. Writes before a Refusal, such as a counted attempt, have been committed.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise store_failed(self._path, error) from error

    def _delete_expired(self) -> int:
        try:
            return self._connection.execute(
                "DELETE FROM records WHERE id IN (SELECT id FROM records WHERE until <= ? LIMIT ?)",
                (self._clock(), _MAX_EXPIRED_ROWS),
            ).rowcount
        except sqlite3.Error as error:
            raise store_failed(self._path, error) from error


@asynccontextmanager
async def open_sqlite_store(path: Path, *, clock: Callable[[], float] = time.time) -> AsyncIterator[SQLiteStore]:
    """Open the store in a file, which is created if it is missing.

    Args:
        clock: Returns seconds since 1970.

    Raises:
        StoreFailed: The file cannot be opened, or belongs to another program.
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
        return None if row is None else _load(row[0])

    def put(
        self,
        kind: str,
        key: str,
        value: Mapping[str, Any],
        *,
        until: float,
        group: str = "",
        max_records: int | None = None,
    ) -> None:
        self._connection.execute(
            "INSERT INTO records (kind, key, grp, value, until) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (kind, key) DO UPDATE SET grp = excluded.grp, value = excluded.value, until = excluded.until",
            (kind, key, group, orjson.dumps(dict(value)), until),
        )
        if max_records is not None:
            self._connection.execute(
                "DELETE FROM records WHERE id IN ("
                "SELECT id FROM records WHERE kind = ? AND grp = ? ORDER BY id DESC LIMIT -1 OFFSET ?)",
                (kind, group, max_records),
            )

    def delete(self, kind: str, key: str) -> bool:
        cursor = self._connection.execute("DELETE FROM records WHERE kind = ? AND key = ?", (kind, key))
        return cursor.rowcount > 0

    def delete_group(self, kind: str, group: str | None) -> int:
        where, values = _of_kind(kind, group)
        return self._connection.execute(f"DELETE FROM records WHERE {where}", values).rowcount

    def count(self, kind: str, group: str | None = None) -> int:
        where, values = _of_kind(kind, group)
        row: tuple[int] = self._connection.execute(
            f"SELECT count(*) FROM records WHERE {where} AND until > ?", (*values, self._now)
        ).fetchone()
        return row[0]

    def list(self, kind: str, group: str | None = None) -> Sequence[Mapping[str, Any]]:
        where, values = _of_kind(kind, group)
        rows = self._connection.execute(
            f"SELECT value FROM records WHERE {where} AND until > ? ORDER BY id", (*values, self._now)
        ).fetchall()
        return [_load(row[0]) for row in rows]


def _of_kind(kind: str, group: str | None) -> tuple[str, tuple[str, ...]]:
    """Return an SQL condition that the index on kind and group covers."""
    return ("kind = ?", (kind,)) if group is None else ("kind = ? AND grp = ?", (kind, group))


def _load(value: bytes) -> Mapping[str, Any]:
    loaded: dict[str, Any] = orjson.loads(value)
    return loaded


def _open(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make(path)
        connection = sqlite3.connect(path, timeout=_LOCK_TIMEOUT, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise store_failed(path, error) from error
    is_open = False
    try:
        # A file from another source must not call functions from its schema.
        connection.execute("PRAGMA trusted_schema=OFF")
        # Checked before any pragma changes the file, and in a transaction, because another process may be creating the
        # tables.
        connection.execute("BEGIN")
        _is_ours(connection, path)
        connection.execute("ROLLBACK")
        mode = run_pragma(connection, "PRAGMA journal_mode=WAL", _LOCK_TIMEOUT)
        if mode != "wal":
            raise StoreFailed(f"{path}: expected a file system that can share memory (wal), got journal mode {mode!r}")
        # FULL: after a power cut, a used code must not be valid again.
        connection.execute("PRAGMA synchronous=FULL")
        # Deleted signing keys must not remain in free pages.
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute(f"PRAGMA max_page_count={_MAX_FILE_BYTES // _PAGE_BYTES}")
        connection.execute("BEGIN IMMEDIATE")
        if not _is_ours(connection, path):
            for statement in _TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={_SCHEMA_VERSION}")
        connection.execute("COMMIT")
        is_open = True
    except sqlite3.Error as error:
        raise store_failed(path, error) from error
    finally:
        if not is_open:
            connection.close()
    return connection


def _make(path: Path) -> None:
    """Create the file with mode 0600, which SQLite copies to its other files."""
    try:
        # The keys that sign tokens are stored in clear text; everything else is a digest or encrypted.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise StoreFailed(f"{path}: expected a file, got something else") from None
        if os.name == "posix" and status.st_mode & 0o077:
            mode = stat.S_IMODE(status.st_mode)
            raise StoreFailed(
                f"{path}: expected a file that only its owner may open (mode 600), got {mode:o}"
            ) from None


def _is_ours(connection: sqlite3.Connection, path: Path) -> bool:
    """Return True if the file has the tables of this store, and False if it is new.

    Raises:
        StoreFailed: The file belongs to another program, or a newer version has created it.
    """
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    schema = connection.execute("PRAGMA user_version").fetchone()[0]
    if application == schema == 0 and connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
        return False
    if application != _APPLICATION_ID:
        raise StoreFailed(
            f"{path}: expected a file of mcptrio-authserver or a new one, got the database of another program"
        )
    if schema > _SCHEMA_VERSION:
        raise StoreFailed(
            f"{path}: expected schema {_SCHEMA_VERSION}, got {schema}, which a newer mcptrio-authserver has created"
        )
    return True
