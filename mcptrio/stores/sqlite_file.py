"""The file of the SQLite stores: creation, checks and readable errors.

All functions block and run in threads; see :mod:`mcptrio.stores.sqlite_database`.

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

# The application id in the file header: "mcpt".
_APPLICATION: Final = 0x6D637074
# The version of the schema, stored as user_version.
_SCHEMA: Final = 3
# SQLite's default page size in bytes; max_page_count counts pages.
_PAGE_BYTES: Final = 4096
# Bytes to which the write-ahead log is truncated after it was larger.
_MAX_LOG_BYTES: Final = 16 * 1024 * 1024

_TABLES: Final = (
    """CREATE TABLE meta (
        name TEXT PRIMARY KEY,
        value
    ) WITHOUT ROWID""",
    # Sums over the other tables, updated in the same transaction: sessions, session_bytes, event_bytes, replays,
    # quotas. Counting on each append would take time in proportion to the table.
    """CREATE TABLE sums (
        name TEXT PRIMARY KEY,
        value INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "INSERT INTO sums VALUES ('sessions', 0), ('session_bytes', 0), ('event_bytes', 0), ('replays', 0), ('quotas', 0)",
    # The openings of this file that have not been closed; see process_locks.
    "CREATE TABLE writers (id TEXT PRIMARY KEY) WITHOUT ROWID",
    """CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        record BLOB NOT NULL,
        generation INTEGER NOT NULL,
        used REAL NOT NULL
    )""",
    "CREATE INDEX sessions_by_use ON sessions (used)",
    # The size and last use of each session's events.
    """CREATE TABLE kept (
        session TEXT PRIMARY KEY,
        bytes INTEGER NOT NULL,
        touched REAL NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX kept_by_touch ON kept (touched) WHERE bytes > 0",
    # A stream's events are those at the positions from first up to, excluding, next.
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
    # AUTOINCREMENT never reuses an id, so other processes find new events by it.
    """CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        stream INTEGER NOT NULL,
        position INTEGER NOT NULL,
        data BLOB NOT NULL
    )""",
    "CREATE UNIQUE INDEX events_by_position ON events (stream, position)",
    # Messages from one process to the others; see sqlite_bus.
    """CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        topic TEXT NOT NULL,
        message BLOB NOT NULL,
        writer TEXT NOT NULL,
        sent REAL NOT NULL
    )""",
    # The result of a claimed effect is NULL until it is known.
    """CREATE TABLE effects (
        call TEXT NOT NULL,
        key TEXT NOT NULL,
        writer TEXT NOT NULL,
        result BLOB,
        touched REAL NOT NULL,
        PRIMARY KEY (call, key)
    )""",
    "CREATE INDEX effects_by_age ON effects (touched)",
    # The digests of names that may be used once.
    """CREATE TABLE replays (
        name BLOB PRIMARY KEY,
        until REAL NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX replays_by_age ON replays (until)",
    # When the next request of each quota is due, and by how many seconds requests may come before that.
    """CREATE TABLE quotas (
        name TEXT PRIMARY KEY,
        arrival REAL NOT NULL,
        tolerance REAL NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX quotas_by_arrival ON quotas (arrival)",
)

# Added to files of older versions, whose processes ignore these tables.
_ADDED_TABLES: Final = (
    # The number is the order of creation; the token names the last creation or claim.
    """CREATE TABLE IF NOT EXISTS tasks (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        tool TEXT NOT NULL,
        state TEXT NOT NULL,
        created REAL NOT NULL,
        expires REAL NOT NULL,
        fence INTEGER NOT NULL,
        generation INTEGER NOT NULL,
        holder TEXT NOT NULL,
        token TEXT NOT NULL,
        data BLOB NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS tasks_queued ON tasks (tool, number) WHERE state = 'queued'",
    "CREATE INDEX IF NOT EXISTS tasks_running ON tasks (tool, holder) WHERE state = 'running'",
    "CREATE INDEX IF NOT EXISTS tasks_active ON tasks (owner) WHERE state != 'ended'",
    "CREATE INDEX IF NOT EXISTS tasks_by_owner ON tasks (owner, number)",
    "CREATE INDEX IF NOT EXISTS tasks_by_expiry ON tasks (expires)",
    "INSERT OR IGNORE INTO sums VALUES ('tasks', 0), ('task_bytes', 0)",
)

_log = logging.getLogger("mcptrio.stores")


@frozen(kw_only=True)
class FileBounds:
    """Limits of the file.

    Args:
        bytes: The size at which the file is full; then writes fail, as on a full disk.
        busy_timeout: Seconds to wait for another process that writes.
    """

    bytes: int
    busy_timeout: float


def open_file(path: Path, bounds: FileBounds) -> sqlite3.Connection:
    """Return a connection to the file, which is created for its owner only if it is missing.

    Raises:
        StoreFailed: The file cannot be opened, is not a store of mcptrio, or was made by another version.
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
    """Return the value of a statement, repeating it for up to ``seconds`` while the file is busy."""
    # SQLite does not apply its busy timeout when two connections change the journal mode at the same time.
    deadline = time.monotonic() + seconds
    while True:
        try:
            return connection.execute(statement).fetchone()[0]
        except sqlite3.OperationalError as error:
            if not getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def store_failed(path: Path, error: Exception) -> StoreFailed:
    """Return the error with a readable message."""
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
    ("SQLITE_FULL", "the disk is full, or the file has reached its size limit"),
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
    """Create the file with mode 0600. SQLite creates its other files with the same mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        # Never open an existing file here: closing it would release the locks that SQLite holds in this process
        # (sqlite.org/howtocorrupt.html section 2.2).
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise StoreFailed(f"{path}: expected a file, got something else") from None
        if os.name == "posix" and status.st_mode & 0o077:
            mode = stat.S_IMODE(status.st_mode)
            _log.warning("%s: accessible to other users and contains user data: mode=%o, run chmod 600", path, mode)


def _set_up(connection: sqlite3.Connection, path: Path, bounds: FileBounds) -> None:
    # A file from another source must not call functions from its schema.
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("BEGIN")
    _check(connection, path)
    connection.execute("ROLLBACK")
    mode = run_pragma(connection, "PRAGMA journal_mode=WAL", bounds.busy_timeout)
    if mode != "wal":
        raise StoreFailed(f"{path}: expected a file system that can share memory (wal), got journal mode {mode!r}")
    # Commits survive the end of the process, even a kill, because the operating system has the data. A power failure
    # may undo the last transactions, in order. That is acceptable: only its writer continues a stream, and the writer
    # has ended too, so no position is used twice; clients open lost sessions again. FULL would make each commit wait
    # for the disk.
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(f"PRAGMA journal_size_limit={_MAX_LOG_BYTES}")
    connection.execute(f"PRAGMA max_page_count={max(1, bounds.bytes // _PAGE_BYTES)}")
    connection.execute("PRAGMA temp_store=MEMORY")
    connection.execute("BEGIN IMMEDIATE")
    if _check(connection, path) == 0:
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id={_APPLICATION}")
        connection.execute(f"PRAGMA user_version={_SCHEMA}")
    for statement in _ADDED_TABLES:
        connection.execute(statement)
    connection.execute("COMMIT")


def _check(connection: sqlite3.Connection, path: Path) -> int:
    """Return the schema version, 0 for an empty file.

    Runs in a transaction, because another process may be creating the tables.

    Raises:
        StoreFailed: The file belongs to another program, or was made by another version.
    """
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    schema: int = connection.execute("PRAGMA user_version").fetchone()[0]
    empty = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None
    if empty and application == schema == 0:
        return 0
    if application != _APPLICATION:
        raise StoreFailed(f"{path}: expected a store of mcptrio or a new file, got the database of another program")
    if schema != _SCHEMA:
        age = "a newer" if schema > _SCHEMA else "an older"
        raise StoreFailed(f"{path}: expected schema {_SCHEMA}, got {schema}: made by {age} mcptrio; use another file")
    return schema
