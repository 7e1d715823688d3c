"""Translates errors of SQLite for the model.

``open_database`` calls :func:`explain` for each error of a statement. A message contains SQLite's text, the position in
the SQL and a hint, but never the path of a file.
"""

from __future__ import annotations

import difflib
import re
import sqlite3
from collections.abc import Iterable
from typing import Final

from mcptrio import ToolError

from .databases import DatabaseFile
from .policy import AccessMode, SQLitePolicy
from .positions import locate

__all__ = ["explain", "is_busy", "is_interrupted"]

_MISSING_TABLE: Final = re.compile(r"no such table: (?:main\.)?(?P<name>\S+)")
_BINDINGS: Final = re.compile(r"Incorrect number of bindings supplied\. .* uses (\d+), and there are (\d+) supplied")
_MAX_LISTED_NAMES: Final = 15
_HINTS: Final = {
    AccessMode.READ: "this tool only reads",
    AccessMode.EXPLAIN: "this tool explains statements that read or change tables",
    AccessMode.CHANGE: (
        "{tool:write_query} changes rows of tables; schema_changes = true in the configuration allows more"
    ),
    AccessMode.CREATE: "this tool takes one CREATE TABLE statement",
    AccessMode.SCHEMA: "{tool:write_query} changes rows and the schema",
}
_TOO_BIG: Final = "; leave that column out, or ask for length() of it"


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection holds the lock, so that a retry may succeed."""
    # The low byte of an extended result code is the primary code.
    return _code(error) & 0xFF == sqlite3.SQLITE_BUSY


def is_interrupted(error: sqlite3.Error) -> bool:
    return _code(error) == sqlite3.SQLITE_INTERRUPT


def explain(
    error: sqlite3.Error | sqlite3.Warning,
    *,
    database: DatabaseFile,
    policy: SQLitePolicy,
    sql: str = "",
    tables: Iterable[str] = (),
) -> ToolError:
    """Return an error that a model can act on.

    Args:
        sql: The statement as the model wrote it.
        tables: Existing tables, for a suggestion if a name is unknown.
    """
    # SQLite itself only reports "not authorized".
    if policy.refusal is not None:
        return ToolError(f"not allowed: {policy.refusal}; {_HINTS[policy.access]}")
    message = str(error)
    if message.startswith("You can only execute one statement"):
        return ToolError("expected one statement, got several; call the tool once for each")
    if match := _BINDINGS.match(message):
        return ToolError(f"params: expected a list of {match[1]}, a value for each `?` of the SQL, got {match[2]}")
    code = _code(error)
    if code == sqlite3.SQLITE_CANTOPEN:
        hint = ": its file does not exist yet; the first write creates it" if _will_be_created(database) else ""
        return ToolError(f"the database {database.name} cannot be opened{hint}")
    if code == sqlite3.SQLITE_NOTADB:
        return ToolError(f"the file of {database.name} is not an SQLite database, or it is encrypted")
    if code & 0xFF == sqlite3.SQLITE_READONLY:
        return ToolError(f"{message}: {database.name} is read-only here")
    if code == sqlite3.SQLITE_IOERR_WRITE:  # the result of RLIMIT_FSIZE
        limit = "max_temp_bytes or max_database_bytes" if policy.access.writes else "max_temp_bytes"
        return ToolError(f"{message}: a file has reached {limit} of the configuration; sort and group fewer rows")
    if code == sqlite3.SQLITE_FULL:
        return ToolError(f"{message}: the disk is full, or max_database_bytes of the configuration is reached")
    if message == "query string is too large":
        return ToolError("the SQL is longer than max_query_bytes of the configuration")
    if code == sqlite3.SQLITE_TOOBIG:
        return ToolError(f"{message}: larger than max_value_bytes of the configuration{_TOO_BIG}")
    if code & 0xFF == sqlite3.SQLITE_BUSY:
        return ToolError(f"{message}: another program holds a lock on {database.name}; try again")
    position = locate(sql, message) if sql else None
    return ToolError(message + (f" at {position}" if position else "") + _suggestion(message, tables))


def _suggestion(message: str, tables: Iterable[str]) -> str:
    match = _MISSING_TABLE.match(message)
    if not match:
        return ""
    names = list(tables)
    if near := difflib.get_close_matches(match["name"], names, 1):
        return f"; did you mean `{near[0]}`?"
    if not names:
        return "; there are no tables"
    more = f" and {len(names) - _MAX_LISTED_NAMES} more" if len(names) > _MAX_LISTED_NAMES else ""
    return f"; there are {', '.join(names[:_MAX_LISTED_NAMES])}{more}"


def _will_be_created(database: DatabaseFile) -> bool:
    return database.is_writable and database.is_configured and not database.path.exists()


def _code(error: BaseException) -> int:
    # Errors that the sqlite3 module itself raises have no result code.
    return getattr(error, "sqlite_errorcode", None) or sqlite3.SQLITE_ERROR
