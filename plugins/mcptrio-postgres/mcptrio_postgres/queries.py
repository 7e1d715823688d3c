"""Runs the work of the tools and resources: with a connection, a transaction, a deadline and progress reports.

When a call is cancelled or times out, the server ends its statement, and its transaction is rolled back.
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
from .connection import ConnectionLost, PostgresConnection, ServerRefused
from .errors import UNDEFINED_TABLE, explain_refusal
from .pool import DatabasePools

__all__ = ["MARK", "ConfiguredDatabase", "PostgresAccess", "PostgresQueries", "Record", "rows_of"]

MARK: Final = "/* mcptrio */"
"""A comment in the statements of the plugin, so that ``slow_queries`` can leave them out."""

_MARGIN: Final = 1000
"""Milliseconds after the deadline of a call at which the server ends its statement if this process has not."""
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
    """The transactions in which statements run."""

    OWN = "statements that read nothing but the catalogs"
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
        """Run work in a transaction, which is rolled back unless the work commits it.

        Args:
            sql: The model's statement, for the position of an error.

        Raises:
            ToolError: The work failed or took too long, or the database cannot be reached.
        """
        done: list[_T] = []
        refused: ServerRefused | None = None
        try:
            with trio.move_on_after(self.config.query_timeout):
                async with self.pools.by_name[database.name].connection() as connection:
                    await connection.run(self._begin(connection, access))
                    done.append(await work(connection))
        except ConnectionLost as error:
            raise ToolError(f"the database {database.name}: {error}") from None
        except ServerRefused as error:
            refused = error
        if refused is not None:
            raise explain_refusal(refused, sql, await self._tables_for(database, refused)) from None
        if done:  # also if the deadline passed during the rollback
            return done[0]
        what = ", and nothing was changed" if access is PostgresAccess.WRITE else ""
        raise ToolError(
            f"stopped after {self.config.query_timeout:g} seconds{what}; restrict the query or add an index "
            "({tool:explain_query} shows what is slow)"
        )

    async def ask(self, database: ConfiguredDatabase, sql: str, *parameters: str | None) -> list[Record]:
        """Run one statement of the plugin and return its rows."""
        return await self.run(database, PostgresAccess.OWN, lambda connection: rows_of(connection, sql, *parameters))

    async def tables(self, database: ConfiguredDatabase, *, limit: int) -> list[str]:
        """Return names of tables and views, with their schemas."""
        return [row[0] or "" for row in await self.ask(database, f"{_TABLES} {limit}")]

    def _database(self, name: str) -> ConfiguredDatabase:
        return ConfiguredDatabase(name=name, is_writable=ALL in self.config.writable or name in self.config.writable)

    def _begin(self, connection: PostgresConnection, access: PostgresAccess) -> str:
        milliseconds = math.ceil(self.config.query_timeout * 1000) + _MARGIN
        statements = [
            f"BEGIN READ {'WRITE' if access is PostgresAccess.WRITE else 'ONLY'}",
            f"SET LOCAL statement_timeout = {milliseconds}",
            f"SET LOCAL idle_in_transaction_session_timeout = {milliseconds}",
            # The tokens of a statement are read with this setting.
            "SET LOCAL standard_conforming_strings = on",
            # Ends a statement whose client has gone; servers on other systems refuse the setting.
            f"SELECT set_config('client_connection_check_interval', '1s', true) WHERE version() ~ 'linux' {MARK}",
        ]
        if access is PostgresAccess.READ and connection.is_superuser:
            # A superuser may read files and run programs of the server's machine in a read-only transaction.
            statements.append("SET LOCAL ROLE pg_read_all_data")
        return "; ".join(statements)

    async def _tables_for(self, database: ConfiguredDatabase, refused: ServerRefused) -> list[str]:
        if refused.code != UNDEFINED_TABLE:
            return []
        with suppress(ToolError):
            return await self.tables(database, limit=_MAX_SUGGESTED_TABLES)
        return []


async def rows_of(connection: PostgresConnection, sql: str, *parameters: str | None) -> list[Record]:
    """Run one statement of the plugin on a connection and return its rows."""
    result = await connection.ask(f"{sql} {MARK}", parameters)
    columns = range(result.nfields)
    return [tuple(_text(result.get_value(number, column)) for column in columns) for number in range(result.ntuples)]


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")
