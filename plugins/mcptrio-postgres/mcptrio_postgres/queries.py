"""Runs the work of the tools and resources with a connection, in a transaction, and within a deadline.

When a call is cancelled or times out, its statement is cancelled on the server, and its transaction is rolled back.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from typing import Final, TypeVar

import trio
from attrs import define, field, frozen

from mcptrio import ToolError

from .config import ALL, Config
from .connection import ConnectionLost, PostgresConnection, StatementFailed
from .errors import UNDEFINED_TABLE, explain_error
from .pool import DatabasePools

__all__ = ["OWN_STATEMENT_MARK", "ConfiguredDatabase", "PostgresAccess", "PostgresQueries", "Record", "fetch_rows"]

OWN_STATEMENT_MARK: Final = "/* mcptrio */"
"""A comment in the statements of the plugin, by which ``slow_queries`` recognises and omits them."""

_MARGIN_MS: Final = 1000
"""Milliseconds after the deadline of a call at which PostgreSQL itself ends a statement that was not cancelled."""
_MAX_SHOWN_NAMES: Final = 20
_MAX_SUGGESTED_TABLES: Final = 2000
_TABLES: Final = """
    SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    ORDER BY 1 LIMIT
"""

_T = TypeVar("_T")
Record = tuple[str | None, ...]
"""A row of the plugin's own statements."""


class PostgresAccess(Enum):
    """The kinds of transactions in which statements run."""

    OWN = "statements of the plugin that read only the catalogs"
    READ = "a statement of the model that only reads"
    WRITE = "a statement of the model that may write"


@frozen(kw_only=True)
class ConfiguredDatabase:
    """A database of the configuration."""

    name: str
    is_writable: bool


@define(eq=False)
class PostgresQueries:
    """Runs work on databases."""

    config: Config
    pools: DatabasePools = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.pools = DatabasePools(self.config)

    def all(self) -> list[ConfiguredDatabase]:
        """Return all databases in order of name."""
        return [self._database(name) for name in sorted(self.config.databases)]

    def find(self, name: str = "") -> ConfiguredDatabase:
        """Return the database with this name; without a name, the only one.

        Raises:
            ToolError: No database has this name, or there are several and no name.
        """
        names = sorted(self.config.databases)
        if name in self.config.databases:
            return self._database(name)
        if not names:
            raise ToolError(
                'no database is configured: set databases = { main = "postgresql://USER@HOST/DATABASE" } in '
                "[plugins.postgres] of mcptrio.toml"
            )
        if not name and len(names) == 1:
            return self._database(names[0])
        more = f" and {len(names) - _MAX_SHOWN_NAMES} more" if len(names) > _MAX_SHOWN_NAMES else ""
        listed = ", ".join(names[:_MAX_SHOWN_NAMES]) + more
        if not name:
            raise ToolError(f"expected database, one of {listed}, got none")
        near = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean `{near[0]}`?" if near else f"expected one of {listed}"
        raise ToolError(f"no such database: `{name[:64]}`; {hint}")

    async def run(
        self,
        database: ConfiguredDatabase,
        access: PostgresAccess,
        work: Callable[[PostgresConnection], Awaitable[_T]],
        *,
        sql: str = "",
    ) -> _T:
        """Run ``work`` in a transaction. It is rolled back unless ``work`` commits it.

        Args:
            sql: The model's statement, in which errors are located.

        Raises:
            ToolError: The work failed or took too long, or the database cannot be reached.
        """
        results: list[_T] = []
        refused: StatementFailed | None = None
        try:
            with trio.move_on_after(self.config.query_timeout):
                async with self.pools.by_name[database.name].connection() as connection:
                    await connection.run(self._begin(connection, access))
                    results.append(await work(connection))
        except ConnectionLost as error:
            raise ToolError(f"the database {database.name}: {error}") from None
        except StatementFailed as error:
            refused = error
        if refused is not None:
            raise explain_error(refused, sql, await self._tables_for(database, refused)) from None
        # There is a result even after the deadline if it passed during the rollback.
        if results:
            return results[0]
        unchanged = ", and nothing was changed" if access is PostgresAccess.WRITE else ""
        raise ToolError(
            f"stopped after {self.config.query_timeout:g} seconds{unchanged}; restrict the query or add an index "
            "({tool:explain_query} shows what is slow)"
        )

    async def fetch_all(self, database: ConfiguredDatabase, sql: str, *parameters: str | None) -> list[Record]:
        """Run one statement of the plugin and return its rows."""
        return await self.run(database, PostgresAccess.OWN, lambda connection: fetch_rows(connection, sql, *parameters))

    async def tables(self, database: ConfiguredDatabase, *, limit: int) -> list[str]:
        """Return names of tables and views, with their schemas."""
        return [row[0] or "" for row in await self.fetch_all(database, f"{_TABLES} {limit}")]

    def _database(self, name: str) -> ConfiguredDatabase:
        return ConfiguredDatabase(name=name, is_writable=ALL in self.config.writable or name in self.config.writable)

    def _begin(self, connection: PostgresConnection, access: PostgresAccess) -> str:
        milliseconds = math.ceil(self.config.query_timeout * 1000) + _MARGIN_MS
        statements = [
            f"BEGIN READ {'WRITE' if access is PostgresAccess.WRITE else 'ONLY'}",
            f"SET LOCAL statement_timeout = {milliseconds}",
            f"SET LOCAL idle_in_transaction_session_timeout = {milliseconds}",
            # The tokenizer in statements.py assumes this setting.
            "SET LOCAL standard_conforming_strings = on",
            # PostgreSQL then ends a statement whose client has disconnected. Only servers on Linux accept the setting.
            "SELECT set_config('client_connection_check_interval', '1s', true) WHERE version() ~ 'linux' "
            f"{OWN_STATEMENT_MARK}",
        ]
        if access is PostgresAccess.READ and connection.is_superuser:
            # Even in a read-only transaction, a superuser could read files and run programs on the server's machine.
            statements.append("SET LOCAL ROLE pg_read_all_data")
        return "; ".join(statements)

    async def _tables_for(self, database: ConfiguredDatabase, refused: StatementFailed) -> list[str]:
        if refused.code != UNDEFINED_TABLE:
            return []
        with suppress(ToolError):
            return await self.tables(database, limit=_MAX_SUGGESTED_TABLES)
        return []


async def fetch_rows(connection: PostgresConnection, sql: str, *parameters: str | None) -> list[Record]:
    """Run one statement of the plugin on a connection and return its rows."""
    result = await connection.execute(f"{sql} {OWN_STATEMENT_MARK}", parameters)
    columns = range(result.nfields)
    return [tuple(_text(result.get_value(number, column)) for column in columns) for number in range(result.ntuples)]


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")
