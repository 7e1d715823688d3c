"""What a statement that writes has changed, and the transaction it runs in.

Called in a child. The one rule: a call is one transaction, and until COMMIT nothing of it is seen from outside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

from attrs import frozen

from .connections import Opened
from .policy import SQLitePolicy
from .rows import RowPage
from .values import Cell

__all__ = ["Changed", "CreatedTable", "Made", "Written", "notes_on", "transact"]

_T = TypeVar("_T")


@frozen(kw_only=True)
class Written:
    """What a statement has changed."""

    database: str
    affected_rows: Annotated[int, "Rows that the statement inserted, updated or deleted."]
    total_changes: Annotated[int, "The same with those of triggers and foreign key actions."]
    last_insert_rowid: Annotated[Cell, "The rowid of the last row inserted; null if none was."]
    columns: Annotated[tuple[str, ...], "The names of the columns of RETURNING."] = ()
    items: Annotated[tuple[tuple[Cell, ...], ...], "The rows of RETURNING."] = ()
    truncated: Annotated[bool, "RETURNING had more rows; they were changed all the same."] = False
    dry_run: Annotated[bool, "Everything was undone."] = False
    notes: tuple[str, ...] = ()


@frozen(kw_only=True)
class CreatedTable:
    """What became of a CREATE TABLE."""

    database: str
    table: str
    created: Annotated[bool, "False where it existed already, or with dry_run."]
    sql: Annotated[str, "The statement as SQLite keeps it."]
    dry_run: bool = False


@frozen(kw_only=True)
class Changed:
    """The same, and the tables whose schema is another now."""

    written: Written
    altered: tuple[str, ...]


@frozen(kw_only=True)
class Made:
    """The same, and the tables whose schema is another now."""

    created: CreatedTable
    altered: tuple[str, ...]


def transact(opened: Opened, work: Callable[[Opened], _T], *, keep: bool) -> _T:
    """Do it in a transaction; ``keep`` or undo it.

    The lock is taken first, so nobody else's writing comes between; until COMMIT nothing is seen from outside, and
    whatever is raised before leaves the transaction to the closing of the connection, which undoes it.
    """
    connection, policy = opened.connection, opened.policy
    connection.set_authorizer(None)
    opened.patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
    connection.set_authorizer(policy)
    result = work(opened)
    connection.set_authorizer(None)
    # The end of a statement may come before SQLite has looked whether it is to stop.
    opened.watch.check()
    opened.watch.turn()
    if keep:
        opened.patiently(lambda: connection.execute("COMMIT"))
    else:
        connection.execute("ROLLBACK")
    return result


def notes_on(page: RowPage, policy: SQLitePolicy) -> tuple[str, ...]:
    """The notes of a page, and which other tables there are."""
    others = sorted(policy.written)
    if len(others) > 1:
        return (*page.notes, f"tables that the statement may change, its triggers included: {', '.join(others[:20])}")
    return page.notes
