"""The transaction of a statement that writes, and its results.

Jobs call it in a child process. Each call is one transaction, which other connections cannot see before COMMIT.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

from attrs import frozen

from .connections import OpenDatabase
from .policy import SQLitePolicy
from .rows import RowPage
from .values import Cell

__all__ = ["ChangeResult", "CreateTableResult", "CreatedTable", "Written", "notes_on", "transact"]

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
    created: Annotated[bool, "False if it already existed, or with dry_run."]
    sql: Annotated[str, "The statement as stored by SQLite."]
    dry_run: bool = False


@frozen(kw_only=True)
class ChangeResult:
    """The result of a statement that writes, and the tables whose schema the statement changed."""

    written: Written
    altered: tuple[str, ...]


@frozen(kw_only=True)
class CreateTableResult:
    """The result of a CREATE TABLE, and the tables whose schema the statement changed."""

    created: CreatedTable
    altered: tuple[str, ...]


def transact(opened: OpenDatabase, work: Callable[[OpenDatabase], _T], *, keep: bool) -> _T:
    """Run ``work`` in a transaction; commit it if ``keep`` is true, else roll it back."""
    connection, policy = opened.connection, opened.policy
    connection.set_authorizer(None)
    # IMMEDIATE takes the write lock before the first read, so that no other connection writes in between. If an
    # exception leaves this function, closing the connection rolls back.
    opened.retry_while_busy(lambda: connection.execute("BEGIN IMMEDIATE"))
    connection.set_authorizer(policy)
    result = work(opened)
    connection.set_authorizer(None)
    # The statement may have ended before SQLite checked whether the call was stopped.
    opened.monitor.check()
    opened.monitor.report_statement_ended()
    if keep:
        opened.retry_while_busy(lambda: connection.execute("COMMIT"))
    else:
        connection.execute("ROLLBACK")
    return result


def notes_on(page: RowPage, policy: SQLitePolicy) -> tuple[str, ...]:
    """Return the notes of a page, with a note on the tables that the statement may change if there are several."""
    tables = sorted(policy.written)
    if len(tables) > 1:
        return (*page.notes, f"tables that the statement may change, its triggers included: {', '.join(tables[:20])}")
    return page.notes
