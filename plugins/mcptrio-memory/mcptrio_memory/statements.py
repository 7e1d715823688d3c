"""Runs SQL statements in a thread until the caller is cancelled.

The database creates a ``Statements`` for each function that it runs in a thread. This module does not import sqlite3,
which would take 2 ms of each start; it is imported when the file is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from mcptrio.errors import ToolError

if TYPE_CHECKING:
    import sqlite3

__all__ = ["CallCancelled", "MemoryUnavailable", "Statements", "Work"]

T = TypeVar("T")


class MemoryUnavailable(ToolError):
    """The file cannot be used. The message has the reason, but not the path, because models read it."""


class CallCancelled(Exception):
    """The caller was cancelled."""


class Statements:
    """Executes SQL statements in one thread; :meth:`stop` may be called from another."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._is_stopped = False

    def execute(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> sqlite3.Cursor:
        """Run one statement.

        Raises:
            CallCancelled: The caller was cancelled before the statement was run.
            sqlite3.Error: The statement failed or was interrupted.
        """
        if self._is_stopped:
            raise CallCancelled
        return self._connection.execute(statement, values)

    def fetch_value(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """Return the first value of the first row; ``None`` if there are no rows."""
        row = self.execute(statement, values).fetchone()
        return row[0] if row is not None else None

    def roll_back(self) -> None:
        """Roll back the transaction, even after a stop. After some errors, SQLite has already done so."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def stop(self) -> None:
        """Interrupt the current statement, and make further ones raise. Called in the Trio thread."""
        self._is_stopped = True
        self._connection.interrupt()

    @property
    def stopped(self) -> bool:
        return self._is_stopped


Work: TypeAlias = Callable[[Statements], T]
"""A function that runs in a thread, possibly several times. Earlier attempts are rolled back."""
