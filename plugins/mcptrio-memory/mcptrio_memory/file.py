"""Opens and checks the SQLite file, creates its tables, and explains its errors.

The database calls it in a thread when the plugin is opened; all functions block. A database of another program, or of a
newer version, is not changed. The write-ahead log has ``synchronous=NORMAL``: committed changes survive a killed
process. A power failure may lose the last transactions, but never a part of one.

Source: sqlite.org/pragma.html, /wal.html, /fts5.html, /rescode.html.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import time
from pathlib import Path
from typing import Final

from .statements import MemoryUnavailable

__all__ = ["is_busy", "open_file", "open_reader", "unavailable"]

logger = logging.getLogger(__name__)

_APPLICATION_ID: Final = 0x6D63706D
"""The application id in the header of memory files: ``mcpm``."""
_SCHEMA_VERSION: Final = 1
_PAGE_BYTES: Final = 4096
_LOG_BYTES: Final = 16 * 1024 * 1024
"""Size to which SQLite truncates the write-ahead log after it was larger."""

_TABLES: Final = (
    # Each change of the graph increments the revision. The changed entities get the new revision too.
    """CREATE TABLE namespaces (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        revision INTEGER NOT NULL
    )""",
    """CREATE TABLE entities (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        namespace INTEGER NOT NULL,
        name TEXT NOT NULL,
        type TEXT NOT NULL,
        revision INTEGER NOT NULL,
        UNIQUE (namespace, name)
    )""",
    """CREATE TABLE observations (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        entity INTEGER NOT NULL,
        text TEXT NOT NULL,
        UNIQUE (entity, text)
    )""",
    # Relations refer to entities by name, because an imported file may have relations of missing entities.
    """CREATE TABLE relations (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        namespace INTEGER NOT NULL,
        source TEXT NOT NULL,
        target TEXT NOT NULL,
        type TEXT NOT NULL,
        UNIQUE (namespace, source, target, type)
    )""",
    # With all columns. Otherwise SQLite scans the index of the UNIQUE constraint, which covers the query.
    "CREATE INDEX relations_by_target ON relations (namespace, target, source, type)",
    # rowid is the entity's id. The texts are casefolded, so that instr() ignores case.
    """CREATE VIRTUAL TABLE search USING fts5 (
        name, type, body, tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3'
    )""",
    """CREATE TABLE imports (
        namespace INTEGER NOT NULL,
        file TEXT NOT NULL,
        PRIMARY KEY (namespace, file)
    ) WITHOUT ROWID""",
)


def open_file(path: Path, *, max_bytes: int, busy_timeout: float) -> sqlite3.Connection:
    """Return a connection for writing. The file and its folder are created if needed, readable only by the owner.

    Args:
        max_bytes: Maximum size of the file.
        busy_timeout: Seconds to wait for another process.

    Raises:
        MemoryUnavailable: The file cannot be opened, belongs to another program, or was created by a newer version.
    """
    try:
        _create_file(path)
        connection = sqlite3.connect(path, timeout=busy_timeout, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise unavailable(error) from error
    opened = False
    try:
        _set_up(connection, max_bytes, busy_timeout)
        opened = True
    except sqlite3.Error as error:
        raise unavailable(error) from error
    finally:
        if not opened:
            connection.close()
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """Return a connection for reading. :func:`open_file` must have created the tables.

    Raises:
        MemoryUnavailable: The file cannot be opened.
    """
    try:
        connection = sqlite3.connect(path, timeout=1, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA temp_store=MEMORY")
        # A view of the words in the search index, for typing mistakes in queries. It stores nothing.
        connection.execute("CREATE VIRTUAL TABLE temp.search_words USING fts5vocab(main, search, row)")
        connection.execute("PRAGMA query_only=ON")
    except sqlite3.Error as error:
        raise unavailable(error) from error
    return connection


def unavailable(error: Exception) -> MemoryUnavailable:
    """Return an error with the reason why the file cannot be used."""
    if isinstance(error, OSError):
        return MemoryUnavailable(f"the memory file cannot be opened: {error.strerror or type(error).__name__}")
    name = getattr(error, "sqlite_errorname", "")
    for prefix, problem in _PROBLEMS:
        if name.startswith(prefix):
            return MemoryUnavailable(f"the memory file {problem} ({name})")
    return MemoryUnavailable(f"the memory file cannot be used: {error}")


def is_busy(error: Exception) -> bool:
    """Return whether another process holds a lock, so that a retry may succeed."""
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


_PROBLEMS: Final = (
    ("SQLITE_FULL", "is as large as it may become, or the disk is full"),
    ("SQLITE_BUSY", "is kept locked by another process; try again"),
    ("SQLITE_LOCKED", "is kept locked; try again"),
    ("SQLITE_READONLY", "cannot be written; expected a file, in a folder, that this user may write"),
    ("SQLITE_PERM", "cannot be opened: permission denied"),
    ("SQLITE_CANTOPEN", "cannot be opened; expected a file, in a folder, that this user may write"),
    ("SQLITE_NOTADB", "is damaged, or not an SQLite database; move it away to begin with an empty one"),
    ("SQLITE_CORRUPT", "is damaged; move it away to begin with an empty one"),
    ("SQLITE_IOERR", "cannot be read or written"),
)


def _create_file(path: Path) -> None:
    """Create the file, readable only by the owner. SQLite gives its log the same permissions.

    Source: sqlite.org/howtocorrupt.html, section 2.2.
    """
    # Only SQLite may open an existing file: closing another descriptor of it would release SQLite's locks.
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise MemoryUnavailable("expected a regular file as the memory file, got a directory or device") from None
        if os.name == "posix" and status.st_mode & 0o077:
            logger.warning("%s: other users may open it (mode %o)", path, stat.S_IMODE(status.st_mode))


def _set_up(connection: sqlite3.Connection, max_bytes: int, busy_timeout: float) -> None:
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("BEGIN")
    _schema_version(connection)
    connection.execute("ROLLBACK")
    mode = _execute_when_free(connection, "PRAGMA journal_mode=WAL", busy_timeout)
    if mode != "wal":
        raise MemoryUnavailable(f"expected a file system that can share memory (wal), got journal mode {mode!r}")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(f"PRAGMA journal_size_limit={_LOG_BYTES}")
    connection.execute(f"PRAGMA max_page_count={max(1, max_bytes // _PAGE_BYTES)}")
    connection.execute("PRAGMA temp_store=MEMORY")
    connection.execute("BEGIN IMMEDIATE")
    if _schema_version(connection) == 0:
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={_SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _schema_version(connection: sqlite3.Connection) -> int:
    """Return the version of the schema; 0 for an empty file.

    Must be called in a transaction, because another process may be creating the tables.
    """
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    schema: int = connection.execute("PRAGMA user_version").fetchone()[0]
    is_empty = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None
    if is_empty and application == schema == 0:
        return 0
    if application != _APPLICATION_ID:
        raise MemoryUnavailable("expected a memory file or a new one, got the database of another program")
    if schema > _SCHEMA_VERSION:
        raise MemoryUnavailable(
            f"expected schema {_SCHEMA_VERSION} in the memory file, got {schema}, which a newer version has created"
        )
    return schema


def _execute_when_free(connection: sqlite3.Connection, statement: str, seconds: float) -> object:
    """Return the statement's value; repeat it while another process holds a lock.

    SQLite does not apply its own timeout when two processes change the journal mode at the same time.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return connection.execute(statement).fetchone()[0]
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.02)
