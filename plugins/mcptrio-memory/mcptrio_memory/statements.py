"""Runs SQL statements for one function, until it is cancelled.

The database makes it for each function that it runs in a thread. It does not import sqlite3, which takes 2 ms of every
start and is imported when the file is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from mcptrio.errors import ToolError

if TYPE_CHECKING:
    import sqlite3

__all__ = ["CallAbandoned", "MemoryUnavailable", "Statements", "Work"]

T = TypeVar("T")


class MemoryUnavailable(ToolError):
    """The file cannot be used; the message has the reason, without the path, because models read it."""


class CallAbandoned(Exception):
    """The caller was cancelled."""


class Statements:
    """Executes SQL statements in one thread; :meth:`stop` may be called from another."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._stopped = False

    def execute(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> sqlite3.Cursor:
        """Run one statement.

        Raises:
            Stopped: before it was run.
            sqlite3.Error: it failed, or was stopped.
        """
        if self._stopped:
            raise CallAbandoned
        return self._connection.execute(statement, values)

    def one(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """The first value of the first row; ``None`` without one."""
        row = self.execute(statement, values).fetchone()
        return row[0] if row is not None else None

    def abandon(self) -> None:
        """Roll the transaction back, even after a stop. Some errors have undone all of it already."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def stop(self) -> None:
        """Called in the Trio thread, while the function runs in another."""
        self._stopped = True
        self._connection.interrupt()

    @property
    def stopped(self) -> bool:
        return self._stopped


Work: TypeAlias = Callable[[Statements], T]
"""Runs in a thread, possibly more than once (earlier attempts are rolled back)."""
