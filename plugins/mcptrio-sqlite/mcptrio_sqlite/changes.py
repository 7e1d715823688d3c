"""The transaction of a statement that writes, and its results.

Jobs use it in a child process. Each call is one transaction; other connections see nothing of it before COMMIT.
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
    """The changes that a statement made."""

    database: str
    affected_rows: Annotated[int, "Rows that the statement inserted, updated or deleted."]
    total_changes: Annotated[int, "Affected rows including those of triggers and foreign key actions."]
    last_insert_rowid: Annotated[Cell, "Rowid of the last inserted row; null if none was inserted."]
    columns: Annotated[tuple[str, ...], "Column names of RETURNING."] = ()
    items: Annotated[tuple[tuple[Cell, ...], ...], "Rows of RETURNING."] = ()
    truncated: Annotated[bool, "RETURNING had more rows; they were changed as well."] = False
    dry_run: Annotated[bool, "All changes were rolled back."] = False
    notes: tuple[str, ...] = ()


@frozen(kw_only=True)
class CreatedTable:
    """The result of a CREATE TABLE."""

    database: str
    table: str
    created: Annotated[bool, "False if it existed already, or with dry_run."]
    sql: Annotated[str, "The statement as stored by SQLite."]
    dry_run: bool = False


@frozen(kw_only=True)
class Changed:
    """The result of a statement, and the tables whose schema it changed."""

    written: Written
    altered: tuple[str, ...]


@frozen(kw_only=True)
class Made:
    """The result of a CREATE TABLE, and the tables whose schema it changed."""

    created: CreatedTable
    altered: tuple[str, ...]


def transact(opened: Opened, work: Callable[[Opened], _T], *, keep: bool) -> _T:
    """Run ``work`` in a transaction; commit it if ``keep`` is true, else roll it back."""
    connection, policy = opened.connection, opened.policy
    connection.set_authorizer(None)
    # IMMEDIATE takes the lock first, so that no other writer comes between. If an exception leaves this function,
    # closing the connection rolls back.
    opened.patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
    connection.set_authorizer(policy)
    result = work(opened)
    connection.set_authorizer(None)
    # The statement may have ended before SQLite checked whether the call was stopped.
    opened.watch.check()
    opened.watch.turn()
    if keep:
        opened.patiently(lambda: connection.execute("COMMIT"))
    else:
        connection.execute("ROLLBACK")
    return result


def notes_on(page: RowPage, policy: SQLitePolicy) -> tuple[str, ...]:
    """Return the notes of a page, and the tables that the statement may change."""
    others = sorted(policy.written)
    if len(others) > 1:
        return (*page.notes, f"tables that the statement may change, its triggers included: {', '.join(others[:20])}")
    return page.notes
