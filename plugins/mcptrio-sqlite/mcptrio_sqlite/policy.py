"""The authorizer: decides which actions a statement may contain.

The child process creates one for each job, and SQLite calls it for every action while it compiles a statement. Actions
that are not listed are refused. The SQL text is not inspected, so comments, ``WITH`` or several statements cannot
circumvent the policy. In addition, files are opened read-only for calls that only read.

Source: sqlite.org/c3ref/set_authorizer.html, sqlite.org/c3ref/c_alter_table.html, sqlite.org/security.html.
"""

from __future__ import annotations

import re
import sqlite3
from enum import Enum
from fnmatch import translate
from functools import cached_property
from typing import Final

from attrs import define, field

__all__ = ["SCHEMA_TABLES", "AccessMode", "SQLitePolicy"]

SCHEMA_TABLES: Final = frozenset({"sqlite_master", "sqlite_schema"})
"""Names of the schema table."""


class AccessMode(Enum):
    """The actions that a call may perform."""

    READ = "read"
    EXPLAIN = "explain"
    """Compile statements that read or write, without running them."""
    CHANGE = "change"
    """Insert, update and delete rows."""
    CREATE = "create"
    """Create one table."""
    SCHEMA = "schema"
    """Change rows and the schema."""

    @property
    def writes(self) -> bool:
        """True if the file is opened for writing."""
        return self in (AccessMode.CHANGE, AccessMode.CREATE, AccessMode.SCHEMA)


_READ_ACTIONS: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_ROW_ACTIONS: Final = {
    sqlite3.SQLITE_INSERT: "INSERT into",
    sqlite3.SQLITE_UPDATE: "UPDATE of",
    sqlite3.SQLITE_DELETE: "DELETE from",
}
_SCHEMA_ACTIONS: Final = {
    sqlite3.SQLITE_CREATE_TABLE: "CREATE TABLE",
    sqlite3.SQLITE_CREATE_INDEX: "CREATE INDEX",
    sqlite3.SQLITE_CREATE_VIEW: "CREATE VIEW",
    sqlite3.SQLITE_CREATE_TRIGGER: "CREATE TRIGGER",
    sqlite3.SQLITE_CREATE_VTABLE: "CREATE VIRTUAL TABLE",
    sqlite3.SQLITE_DROP_TABLE: "DROP TABLE",
    sqlite3.SQLITE_DROP_INDEX: "DROP INDEX",
    sqlite3.SQLITE_DROP_VIEW: "DROP VIEW",
    sqlite3.SQLITE_DROP_TRIGGER: "DROP TRIGGER",
    sqlite3.SQLITE_DROP_VTABLE: "DROP TABLE",
    sqlite3.SQLITE_ALTER_TABLE: "ALTER TABLE",
    sqlite3.SQLITE_REINDEX: "REINDEX",
    sqlite3.SQLITE_ANALYZE: "ANALYZE",
}
# Actions that rename tables and columns, or compute with a column (generated columns, indexes over expressions). SQLite
# does not ask whether such a column may be read.
_UNCHECKED_COLUMN_ACTIONS: Final = frozenset({sqlite3.SQLITE_ALTER_TABLE, sqlite3.SQLITE_CREATE_INDEX})
_FORBIDDEN_ACTIONS: Final = {
    sqlite3.SQLITE_ATTACH: "ATTACH or VACUUM",
    sqlite3.SQLITE_DETACH: "DETACH",
    sqlite3.SQLITE_TRANSACTION: "BEGIN, COMMIT or ROLLBACK",
    sqlite3.SQLITE_SAVEPOINT: "SAVEPOINT",
    sqlite3.SQLITE_CREATE_TEMP_TABLE: "CREATE TEMP TABLE",
    sqlite3.SQLITE_CREATE_TEMP_VIEW: "CREATE TEMP VIEW",
    sqlite3.SQLITE_CREATE_TEMP_TRIGGER: "CREATE TEMP TRIGGER",
    sqlite3.SQLITE_CREATE_TEMP_INDEX: "CREATE TEMP INDEX",
}

# Functions that access files or load code. Python's SQLite usually has only the first one.
_FORBIDDEN_FUNCTIONS: Final = frozenset(
    {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "zipfile"}
)

# If SQLite was built with this table, it gives access to the raw pages of the file.
_PAGE_TABLES: Final = frozenset({"sqlite_dbpage"})

# PRAGMAs that never change anything. database_list is omitted, because it reveals the path.
_READ_ONLY_PRAGMAS: Final = frozenset(
    {
        "collation_list",
        "compile_options",
        "foreign_key_check",
        "foreign_key_list",
        "function_list",
        "index_info",
        "index_list",
        "index_xinfo",
        "integrity_check",
        "module_list",
        "pragma_list",
        "quick_check",
        "table_info",
        "table_list",
        "table_xinfo",
    }
)

# PRAGMAs that change nothing unless a value follows.
_READABLE_PRAGMAS: Final = frozenset(
    {
        "application_id",
        "auto_vacuum",
        "data_version",
        "encoding",
        "foreign_keys",
        "freelist_count",
        "journal_mode",
        "page_count",
        "page_size",
        "recursive_triggers",
        "schema_version",
        "user_version",
    }
)


@define(eq=False)
class SQLitePolicy:
    """The authorizer of one call, and its findings."""

    access: AccessMode
    deny: tuple[str, ...] = ()
    """Globs of tables and of ``table.column``."""
    shadow_tables: frozenset[str] = frozenset()
    """Shadow tables, which contain the data of virtual tables; set if anything is denied."""

    refusal: str | None = field(init=False, default=None)
    """The first action that was refused."""
    written: set[str] = field(init=False, factory=set)
    """Tables whose rows the statement or its triggers may change."""
    created: str | None = field(init=False, default=None)
    """The table that the statement creates."""
    altered: set[str] = field(init=False, factory=set)
    """Tables whose schema the statement changes."""

    def __call__(
        self, action: int, first: str | None, second: str | None, schema: str | None, trigger: str | None
    ) -> int:
        """Return SQLITE_OK or SQLITE_DENY. Must not raise."""
        refused = self._refusal(action, first or "", second)
        if refused is None:
            return sqlite3.SQLITE_OK
        # SQLite may ask about further actions after a refusal; the first one explains the error.
        if self.refusal is None:
            self.refusal = refused
        return sqlite3.SQLITE_DENY

    def is_denied(self, table: str, column: str = "") -> bool:
        """Return whether the configuration denies this table or column."""
        if table.lower() in _PAGE_TABLES:
            return True
        if table.lower() in self.shadow_tables:
            # texts_content contains the data of the virtual table texts, under other column names.
            virtual = table.rpartition("_")[0]
            if any(by_table.match(virtual) for by_table, _ in self._patterns):
                return True
        return any(
            by_table.match(table) and (by_column is None or by_column.match(column))
            for by_table, by_column in self._patterns
        )

    def _has_denied_column(self, table: str) -> bool:
        """Return whether the configuration denies any column of this table."""
        return any(by_table.match(table) for by_table, _ in self._patterns)

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], re.Pattern[str] | None]]:
        patterns: list[tuple[re.Pattern[str], re.Pattern[str] | None]] = []
        for glob in self.deny:
            table, dot, column = glob.partition(".")
            patterns.append((_glob(table), _glob(column) if dot else None))
        if patterns:
            # The statistics of ANALYZE contain values of all columns.
            patterns.append((_glob("sqlite_stat[34]"), None))
        return patterns

    def _refusal(self, action: int, first: str, second: str | None) -> str | None:
        """Return the refused action, for the model; ``None`` if it is allowed."""
        if action in _READ_ACTIONS:
            if action == sqlite3.SQLITE_READ and self.is_denied(first, second or ""):
                # SQLite passes no column if the statement uses none of the table, for example count(*).
                return f"reading {first}.{second}" if second else f"reading {first}"
            return None
        if action == sqlite3.SQLITE_FUNCTION:
            return f"the function {second}" if (second or "").lower() in _FORBIDDEN_FUNCTIONS else None
        if action == sqlite3.SQLITE_PRAGMA:
            return None if _is_read_only_pragma(first, second) else f"PRAGMA {first}"
        if action in _ROW_ACTIONS:
            return self._row_refusal(action, first, second)
        if action in _SCHEMA_ACTIONS:
            return self._schema_refusal(action, first, second or "")
        # Actions that a newer SQLite adds are refused as well.
        return _FORBIDDEN_ACTIONS.get(action, f"this (action {action} of SQLite)")

    def _row_refusal(self, action: int, table: str, column: str | None) -> str | None:
        if table.lower() in SCHEMA_TABLES:
            # SQLite itself refuses an UPDATE of the schema table. It asks about this action when a query first uses a
            # virtual table such as json_each or pragma_table_info, without writing anything.
            is_needed = action == sqlite3.SQLITE_UPDATE or self.access in (
                AccessMode.CREATE,
                AccessMode.SCHEMA,
                AccessMode.EXPLAIN,
            )
            return None if is_needed else "a change of the schema"
        what = f"{_ROW_ACTIONS[action]} {table}"
        if self.is_denied(table, column or ""):
            return what
        if self.access in (AccessMode.READ, AccessMode.CREATE):
            return what
        self.written.add(table)
        return None

    def _schema_refusal(self, action: int, name: str, table: str) -> str | None:
        if action == sqlite3.SQLITE_ALTER_TABLE:
            name = table  # the first argument is the database
        what = f"{_SCHEMA_ACTIONS[action]} {name}"
        # For an index or a trigger, table is the table that it belongs to.
        if self.is_denied(name) or self.is_denied(table):
            return what
        if action in _UNCHECKED_COLUMN_ACTIONS and self._has_denied_column(table):
            return what
        if self.access in (AccessMode.SCHEMA, AccessMode.EXPLAIN):
            self.altered.add(table or name)
            return None
        if self.access is AccessMode.CREATE:
            if action == sqlite3.SQLITE_CREATE_TABLE:
                if name != "sqlite_sequence":  # created together with the first AUTOINCREMENT
                    self.created = name
                self.altered.add(name)
                return None
            # SQLite creates these indexes for UNIQUE and PRIMARY KEY.
            if action == sqlite3.SQLITE_CREATE_INDEX and name.startswith("sqlite_autoindex_"):
                return None
        return what


def _is_read_only_pragma(pragma: str, value: str | None) -> bool:
    pragma = pragma.lower()
    return pragma in _READ_ONLY_PRAGMAS or (pragma in _READABLE_PRAGMAS and value is None)


def _glob(text: str) -> re.Pattern[str]:
    # SQLite ignores the case of names.
    return re.compile(translate(text.strip()), re.IGNORECASE)
