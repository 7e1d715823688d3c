"""The file of the SQLite stores: opened, checked, and what goes wrong with it in plain words.

Everything here blocks, and runs in a thread; see :mod:`mcptrio.stores.sqlite_database`.
The one rule: a file that is not ours, or was made by a newer version, is left as it is.

Durability: write-ahead log with ``synchronous=NORMAL``. What was committed survives the end of the process, a kill
included, since it is with the operating system by then. A power cut may take the last moments back, as a whole and in
order. That harms nobody: a stream is continued by nobody but its writer, which is gone after a power cut, so no
position of a stream is given to two events; and a session that was lost is begun anew. ``FULL`` would make each commit
wait for the disk, and keep nothing of use.

Source: sqlite.org/pragma.html, /wal.html, /rescode.html, /howtocorrupt.html.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import time
from pathlib import Path
from typing import Final

from attrs import frozen

from mcptrio.errors import StoreFailed

__all__ = ["FileBounds", "open_file", "run_pragma", "store_failed"]

_APPLICATION: Final = 0x6D637074
"""The application id in the header of our files: ``mcpt``."""
_SCHEMA: Final = 1
_PAGE: Final = 4096
_LOG_BYTES: Final = 16 * 1024 * 1024
"""To which the write-ahead log is cut back after it was larger."""

_TABLES: Final = (
    """CREATE TABLE meta (
        name TEXT PRIMARY KEY,
        value
    ) WITHOUT ROWID""",
    # Sums over the other tables, kept with them in one transaction: sessions, session_bytes, event_bytes.
    """CREATE TABLE sums (
        name TEXT PRIMARY KEY,
        value INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "INSERT INTO sums VALUES ('sessions', 0), ('session_bytes', 0), ('event_bytes', 0)",
    # The openings of this file that have not been closed; see presence.
    "CREATE TABLE writers (id TEXT PRIMARY KEY) WITHOUT ROWID",
    """CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        record BLOB NOT NULL,
        used REAL NOT NULL
    )""",
    "CREATE INDEX sessions_by_use ON sessions (used)",
    # What is kept of the events of a session.
    """CREATE TABLE kept (
        session TEXT PRIMARY KEY,
        bytes INTEGER NOT NULL,
        touched REAL NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX kept_by_touch ON kept (touched) WHERE bytes > 0",
    # The events of a stream are those from first to before next.
    """CREATE TABLE streams (
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        session TEXT NOT NULL,
        name TEXT NOT NULL,
        first INTEGER NOT NULL,
        next INTEGER NOT NULL,
        complete INTEGER NOT NULL,
        touched REAL NOT NULL,
        will BLOB NOT NULL,
        writer TEXT NOT NULL,
        UNIQUE (session, name)
    )""",
    "CREATE INDEX streams_by_age ON streams (touched) WHERE next > first",
    "CREATE INDEX streams_to_drop ON streams (session, complete DESC, touched, key) WHERE next > first",
    "CREATE INDEX streams_by_writer ON streams (writer) WHERE NOT complete",
    # Ids rise for ever: by them other processes find what is new.
    """CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        stream INTEGER NOT NULL,
        position INTEGER NOT NULL,
        data BLOB NOT NULL
    )""",
    "CREATE UNIQUE INDEX events_by_position ON events (stream, position)",
)

_log = logging.getLogger("mcptrio.stores")


@frozen(kw_only=True)
class FileBounds:
    """
    Args:
        bytes: what the file may grow to; then it is full, as a disk is.
        busy_timeout: seconds to wait for another process that writes.
    """

    bytes: int
    busy_timeout: float


def open_file(path: Path, bounds: FileBounds) -> sqlite3.Connection:
    """A connection to our file, which is made if there is none, for nobody but its owner.

    Raises:
        StoreFailed: it cannot be opened, is none of ours, or was made by a newer version.
    """
    try:
        _make(path)
        connection = sqlite3.connect(path, timeout=bounds.busy_timeout, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise store_failed(path, error) from error
    opened = False
    try:
        _set_up(connection, path, bounds)
        opened = True
    except sqlite3.Error as error:
        raise store_failed(path, error) from error
    finally:
        if not opened:
            connection.close()
    return connection


def run_pragma(connection: sqlite3.Connection, statement: str, seconds: float) -> object:
    """The statement's value. Two that change the journal mode at the same time are refused without waiting."""
    patience = time.monotonic() + seconds
    while True:
        try:
            return connection.execute(statement).fetchone()[0]
        except sqlite3.OperationalError as error:
            if not getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY") or time.monotonic() > patience:
                raise
        time.sleep(0.02)


def store_failed(path: Path, error: Exception) -> StoreFailed:
    """What went wrong with the file, in plain words."""
    if isinstance(error, StoreFailed):
        return error
    if isinstance(error, OSError):
        return StoreFailed(f"{path}: cannot be opened: {error.strerror or error}")
    name = getattr(error, "sqlite_errorname", "")
    for prefix, problem in _PROBLEMS:
        if name.startswith(prefix):
            return StoreFailed(f"{path}: {problem} ({name})")
    return StoreFailed(f"{path}: {error}")


_PROBLEMS: Final = (
    ("SQLITE_FULL", "the disk is full, or the file as large as it may become"),
    ("SQLITE_BUSY", "another process keeps it locked"),
    ("SQLITE_LOCKED", "it is locked"),
    ("SQLITE_READONLY", "it cannot be written; expected a file, in a folder, that this user may write"),
    ("SQLITE_PERM", "it cannot be opened: permission denied"),
    ("SQLITE_CANTOPEN", "it cannot be opened; expected a file, in a folder, that this user may write"),
    ("SQLITE_NOTADB", "it is damaged, or no SQLite database; move it away to begin with an empty one"),
    ("SQLITE_CORRUPT", "it is damaged; move it away to begin with an empty one"),
    ("SQLITE_IOERR", "it cannot be read or written"),
)


def _make(path: Path) -> None:
    """Make the file, as SQLite makes its own with the rights of this one.

    A file that is there is never opened but by SQLite: closing it would take away the locks of this process.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise StoreFailed(f"{path}: expected a file, got something else") from None
        if os.name == "posix" and found.st_mode & 0o077:
            mode = stat.S_IMODE(found.st_mode)
            _log.warning("%s: others may open it (mode %o), and it holds what users sent and got", path, mode)


def _set_up(connection: sqlite3.Connection, path: Path, bounds: FileBounds) -> None:
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("BEGIN")
    _check(connection, path)
    connection.execute("ROLLBACK")
    mode = run_pragma(connection, "PRAGMA journal_mode=WAL", bounds.busy_timeout)
    if mode != "wal":
        raise StoreFailed(f"{path}: expected a file system that can share memory (wal), got journal mode {mode!r}")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(f"PRAGMA journal_size_limit={_LOG_BYTES}")
    connection.execute(f"PRAGMA max_page_count={max(1, bounds.bytes // _PAGE)}")
    connection.execute("PRAGMA temp_store=MEMORY")
    connection.execute("BEGIN IMMEDIATE")
    if _check(connection, path) == 0:
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id={_APPLICATION}")
        connection.execute(f"PRAGMA user_version={_SCHEMA}")
    connection.execute("COMMIT")


def _check(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the schema; 0 for an empty file. In a transaction, since another process may be making it.

    Raises:
        StoreFailed: somebody else's file, or of a newer version.
    """
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    schema: int = connection.execute("PRAGMA user_version").fetchone()[0]
    empty = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None
    if empty and application == schema == 0:
        return 0
    if application != _APPLICATION:
        raise StoreFailed(f"{path}: expected a store of mcptrio or a new file, got somebody else's database")
    if schema > _SCHEMA:
        raise StoreFailed(f"{path}: expected schema {_SCHEMA}, got {schema}: a newer mcptrio has made it")
    return schema
