"""A connection for one call: opened, bounded, watched, closed.

Called in a child, for one job. The one rule: a connection lives for one call, so no call finds a lock, a temporary
table or a setting of another.

A call is stopped by the handler that SQLite calls every few thousand steps, and by ``sqlite3_interrupt``; see
``Watch``. What neither reaches is the server's affair, which kills the child.

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

from .config import Config
from .databases import DatabaseFile
from .errors import explain, is_busy, is_interrupted
from .policy import SQLitePolicy
from .values import Parameters, bound, decoded_text, readable
from .watching import STEPS, Watch

__all__ = ["Opened", "open_database"]

_LOCK_TIMEOUT: Final = 0.05
"""Seconds that SQLite waits for a lock before this module looks at whether the call is to stop, and tries again."""

# What a statement may cost to compile, well below what SQLite puts up with by itself.
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
_VIRTUAL_TABLES: Final = 1_000

_T = TypeVar("_T")


@define(eq=False)
class Opened:
    """An open database."""

    connection: sqlite3.Connection
    database: DatabaseFile
    policy: SQLitePolicy
    watch: Watch
    statement: str = field(init=False, default="")
    """What the model wrote, for the errors."""
    _cursors: list[sqlite3.Cursor] = field(init=False, factory=list)

    def execute(self, sql: str, parameters: Parameters | None = None, *, prefix: str = "") -> sqlite3.Cursor:
        """Run what the model wrote: one statement.

        Args:
            prefix: comes before it, such as ``EXPLAIN``.

        Raises:
            ToolError: the text or a parameter is none that SQLite could take.
            sqlite3.Error: it does not work; :func:`open_database` translates.
        """
        self.statement = sql
        values = bound(parameters)
        try:
            return self._run(prefix + sql, values)
        except (ValueError, OverflowError) as error:  # a NUL, half a surrogate pair, an integer of more than 64 bits
            raise ToolError(f"the statement or a parameter is none that SQLite could take: {error}") from error

    def ask(self, sql: str, *values: object) -> list[Any]:
        """Run a statement of this plugin's own. A text that is not UTF-8 comes with escapes."""
        self.statement = ""
        return [tuple(map(readable, row)) for row in self._run(sql, values).fetchall()]

    def patiently(self, work: Callable[[], _T]) -> _T:
        """Do it again as long as another connection holds the lock, until the call is to stop."""
        while True:
            try:
                return work()
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
            self.watch.check()

    def close(self) -> None:
        """Close the connection, which also rolls back. Its cursors go first: as long as one is there, and a traceback
        may hold one, SQLite keeps the file open."""
        for cursor in self._cursors:
            cursor.close()
        self.connection.close()

    def _run(self, sql: str, values: Any) -> sqlite3.Cursor:
        cursor = self.patiently(lambda: self.connection.execute(sql, values))
        self._cursors.append(cursor)
        return cursor


@contextmanager
def open_database(database: DatabaseFile, policy: SQLitePolicy, config: Config, watch: Watch) -> Iterator[Opened]:
    """Open a connection, and close it again.

    Raises:
        ToolError: the file cannot be opened, or what the body asked for does not work.
        Stopped: the call is to stop.
    """
    opened: Opened | None = None
    try:
        connection = sqlite3.connect(_uri(database, policy), uri=True, timeout=_LOCK_TIMEOUT, isolation_level=None)
        opened = Opened(connection, database, policy, watch)
        watch.connection = connection
        watch.check()  # who was told to stop before has interrupted nothing
        connection.set_progress_handler(watch.step, STEPS)
        _prepare(opened, config)
        yield opened
    except (sqlite3.Error, sqlite3.Warning) as error:
        if isinstance(error, sqlite3.Error) and is_interrupted(error):
            watch.check()  # raises
        sql = opened.statement if opened is not None else ""
        tables = _tables(opened) if opened is not None and "no such table" in str(error) else ()
        raise explain(error, database=database, policy=policy, sql=sql, tables=tables) from error
    finally:
        if opened is not None:
            if policy.access.writes:
                watch.turn()
            watch.connection = None
            opened.close()


def _uri(database: DatabaseFile, policy: SQLitePolicy) -> str:
    if not policy.access.writes:
        mode = "ro"
    elif database.is_configured:
        mode = "rwc"
    else:
        mode = "rw"  # a file of the folder that has gone since is not made anew
    return f"{database.path.as_uri()}?mode={mode}&cache=private"


def _prepare(opened: Opened, config: Config) -> None:
    """Settings and limits. The authorizer comes last: it would refuse these statements."""
    connection, writes = opened.connection, opened.policy.access.writes
    connection.text_factory = decoded_text
    for limit, value in _LIMITS.items():
        connection.setlimit(limit, value)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, config.max_query_bytes)
    opened.ask("PRAGMA trusted_schema = OFF")
    opened.ask("PRAGMA cell_size_check = ON")
    if sys.version_info >= (3, 12):
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
    if writes:
        opened.ask(f"PRAGMA foreign_keys = {'ON' if config.foreign_keys else 'OFF'}")
        [(page_size,)] = opened.ask("PRAGMA page_size")
        opened.ask(f"PRAGMA max_page_count = {max(1, config.max_database_bytes // page_size)}")
    else:
        opened.ask("PRAGMA query_only = ON")
    _connect_virtual_tables(opened)
    if opened.policy.deny:
        shadows = opened.ask("SELECT lower(name) FROM pragma_table_list WHERE type = 'shadow'")
        opened.policy.shadows = frozenset(name for (name,) in shadows)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, config.max_value_bytes)
    connection.set_authorizer(opened.policy)


def _connect_virtual_tables(opened: Opened) -> None:
    """Use every virtual table once. R-trees prepare their own writing then, even if nobody writes; the authorizer, that
    cannot know who asks, would refuse it."""
    names = opened.ask(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%' LIMIT ?",
        _VIRTUAL_TABLES,
    )
    for (name,) in names:
        quoted = str(name).replace('"', '""')
        try:
            opened.connection.execute(f'SELECT 1 FROM "{quoted}" LIMIT 0').close()
        except sqlite3.Error as error:
            if is_interrupted(error):
                raise
            # Its module is not here. Whoever asks for it is told so.


def _tables(opened: Opened) -> list[str]:
    try:
        rows = opened.connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite~_%' ESCAPE '~' "
            "ORDER BY name LIMIT 1000"
        ).fetchall()
    except sqlite3.Error:
        return []  # only a suggestion
    return [name for (name,) in rows if not opened.policy.hides(name)]
