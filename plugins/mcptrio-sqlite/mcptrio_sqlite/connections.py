"""Opens a connection for one call, with its limits and its authorizer.

The child process opens one for each job. A connection serves a single call, so a call never finds a lock, a temporary
table or a setting of an earlier one. ``CallMonitor`` stops a call with the progress handler and ``sqlite3_interrupt``.
If neither stops it in time, the server kills the child.

Source: sqlite.org/uri.html, sqlite.org/security.html ("Untrusted SQL Inputs", "Untrusted SQLite Database Files"),
sqlite.org/limits.html.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from attrs import define, field

from mcptrio import ToolError

from .call_monitor import STEPS_PER_CHECK, CallMonitor
from .config import Config
from .databases import DatabaseFile
from .errors import explain, is_busy, is_interrupted
from .policy import SQLitePolicy
from .values import Parameters, decoded_text, escaped_text, to_sqlite

__all__ = ["OpenDatabase", "open_database"]

_LOCK_TIMEOUT: Final = 0.05
"""Seconds that SQLite waits for a lock. Then this module checks whether the call was stopped, and tries again."""

# Limits for a statement, below SQLite's defaults: a hostile statement must not exhaust the stack or the memory.
_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 1_000,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 250_000,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_MAX_VIRTUAL_TABLES: Final = 1_000

_T = TypeVar("_T")


@define(eq=False)
class OpenDatabase:
    """An open database."""

    connection: sqlite3.Connection
    database: DatabaseFile
    policy: SQLitePolicy
    monitor: CallMonitor
    statement: str = field(init=False, default="")
    """The model's SQL, in which errors are located; empty while the plugin's own SQL runs."""
    _cursors: list[sqlite3.Cursor] = field(init=False, factory=list)

    def execute(self, sql: str, parameters: Parameters | None = None, *, prefix: str = "") -> sqlite3.Cursor:
        """Run the model's SQL, which must be one statement.

        Args:
            prefix: Text to put before the statement, such as ``EXPLAIN``.

        Raises:
            ToolError: SQLite cannot accept the text or a parameter.
            sqlite3.Error: The statement failed; :func:`open_database` translates the error.
        """
        self.statement = sql
        values = to_sqlite(parameters)
        try:
            return self._run(prefix + sql, values)
        # sqlite3 raises these for a NUL, a lone surrogate, and an integer of more than 64 bits.
        except (ValueError, OverflowError) as error:
            raise ToolError(f"SQLite cannot accept the statement or a parameter: {error}") from error

    def fetch_all(self, sql: str, *values: object) -> list[Any]:
        """Run a statement of the plugin and return its rows. Text that is not UTF-8 is returned with escapes."""
        self.statement = ""
        return [tuple(map(escaped_text, row)) for row in self._run(sql, values).fetchall()]

    def retry_while_busy(self, work: Callable[[], _T]) -> _T:
        """Repeat ``work`` while another connection holds the lock, until the call is stopped."""
        while True:
            try:
                return work()
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
            self.monitor.check()

    def close(self) -> None:
        """Close the connection, which rolls back an open transaction."""
        # SQLite keeps the file open while a cursor exists, and a traceback may hold one.
        for cursor in self._cursors:
            cursor.close()
        self.connection.close()

    def _run(self, sql: str, values: Any) -> sqlite3.Cursor:
        cursor = self.retry_while_busy(lambda: self.connection.execute(sql, values))
        self._cursors.append(cursor)
        return cursor


@contextmanager
def open_database(
    database: DatabaseFile, policy: SQLitePolicy, config: Config, monitor: CallMonitor
) -> Iterator[OpenDatabase]:
    """Open a connection inside the context.

    Raises:
        ToolError: The file cannot be opened, or the body failed in SQLite.
        CallStopped: The call was stopped.
    """
    opened: OpenDatabase | None = None
    try:
        # isolation_level=None: the sqlite3 module must not start transactions on its own; transact() does.
        connection = sqlite3.connect(_uri(database, policy), uri=True, timeout=_LOCK_TIMEOUT, isolation_level=None)
        opened = OpenDatabase(connection, database, policy, monitor)
        monitor.connection = connection
        # stop() may have been called before there was a connection to interrupt.
        monitor.check()
        connection.set_progress_handler(monitor.on_progress, STEPS_PER_CHECK)
        _prepare(opened, config)
        yield opened
    except (sqlite3.Error, sqlite3.Warning) as error:
        if isinstance(error, sqlite3.Error) and is_interrupted(error):
            monitor.check()  # raises CallStopped
        sql = opened.statement if opened is not None else ""
        tables = _table_names(opened) if opened is not None and "no such table" in str(error) else ()
        raise explain(error, database=database, policy=policy, sql=sql, tables=tables) from error
    finally:
        if opened is not None:
            # Rolling back and closing may take longer than STOP_TIMEOUT. This message makes the server wait for them.
            if policy.access.writes:
                monitor.report_statement_ended()
            monitor.connection = None
            opened.close()


def _uri(database: DatabaseFile, policy: SQLitePolicy) -> str:
    if not policy.access.writes:
        mode = "ro"
    elif database.is_configured:
        mode = "rwc"
    else:
        mode = "rw"  # a file of the folder that was removed meanwhile must not be created again
    return f"{database.path.as_uri()}?mode={mode}&cache=private"


def _prepare(opened: OpenDatabase, config: Config) -> None:
    """Apply settings and limits."""
    connection, writes = opened.connection, opened.policy.access.writes
    # Text that is not UTF-8 must not make the query fail.
    connection.text_factory = decoded_text
    for limit, value in _LIMITS.items():
        connection.setlimit(limit, value)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, config.max_query_bytes)
    # A database file may come from an attacker: its schema must not call functions with side effects.
    opened.fetch_all("PRAGMA trusted_schema = OFF")
    opened.fetch_all("PRAGMA cell_size_check = ON")
    if sys.version_info >= (3, 12):
        # Prevents SQL from corrupting the file, for example through writable_schema.
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
    if writes:
        opened.fetch_all(f"PRAGMA foreign_keys = {'ON' if config.foreign_keys else 'OFF'}")
        # SQLite limits the number of pages, not of bytes.
        [(page_size,)] = opened.fetch_all("PRAGMA page_size")
        opened.fetch_all(f"PRAGMA max_page_count = {max(1, config.max_database_bytes // page_size)}")
    else:
        # mode=ro already prevents writes; this prevents them if that should fail.
        opened.fetch_all("PRAGMA query_only = ON")
    _connect_virtual_tables(opened)
    if opened.policy.deny:
        # Shadow tables contain the data of virtual tables under other names, which deny must hide as well.
        shadow_tables = opened.fetch_all("SELECT lower(name) FROM pragma_table_list WHERE type = 'shadow'")
        opened.policy.shadow_tables = frozenset(name for (name,) in shadow_tables)
    # Set last, because the authorizer would refuse the plugin's own statements above.
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, config.max_value_bytes)
    connection.set_authorizer(opened.policy)


def _connect_virtual_tables(opened: OpenDatabase) -> None:
    """Use every virtual table once, before the authorizer is set."""
    # R-trees prepare their writing statements at the first use, even for reading. The authorizer cannot tell them from
    # the model's statements and would refuse them.
    names = opened.fetch_all(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%' LIMIT ?",
        _MAX_VIRTUAL_TABLES,
    )
    for (name,) in names:
        quoted = str(name).replace('"', '""')
        try:
            opened.connection.execute(f'SELECT 1 FROM "{quoted}" LIMIT 0').close()
        except sqlite3.Error as error:
            if is_interrupted(error):
                raise
            # The module of this table is not available. A query that uses the table reports that.


def _table_names(opened: OpenDatabase) -> list[str]:
    try:
        rows = opened.connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite~_%' ESCAPE '~' "
            "ORDER BY name LIMIT 1000"
        ).fetchall()
    except sqlite3.Error:
        return []  # needed only for a suggestion
    return [name for (name,) in rows if not opened.policy.is_denied(name)]
