"""Tables and their versions: numbered SQL files. A command applies each file once; a server never does.

The first line of a file names the oldest version of this distribution that works with its tables, so that a new version
and the one before it can run side by side.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

import psycopg
from attrs import Factory, field, frozen
from psycopg import sql

from mcptrio.errors import StoreFailed
from mcptrio_store_postgres.address import Address
from mcptrio_store_postgres.failures import store_failed
from mcptrio_store_postgres.links import Connection

__all__ = [
    "MIN_SERVER",
    "NEWEST",
    "STORE_TABLES",
    "Tables",
    "check_version",
    "migrate_tables",
    "missing_grant",
    "stored_version",
]

_NAME: Final = re.compile(r"(\d{4})_(\w+)\.sql")
_COMPATIBLE: Final = re.compile(r"-- compatible-from: (\d+)\n")
MIN_SERVER: Final = 140_000
"""The oldest version of PostgreSQL, as a number."""
# Seconds for which a migration waits for another one, or for a lock.
_LOCK_SECONDS: Final = 60
# The tables with sessions and events, which may be unlogged.
_UNLOGGED: Final = ("sessions", "streams", "events")


@frozen
class _Migration:
    number: int
    name: str
    compatible_from: int
    text: str


@frozen
class Tables:
    """The tables of one distribution: the SQL files in the folder ``migrations`` of its package.

    Args:
        package: The name of the package with the SQL files.
        distribution: The name of the distribution that installs the package.
        command: The command that migrates the tables, without the URL of the database.
    """

    package: str
    distribution: str
    command: str
    migrations: tuple[_Migration, ...] = field(
        init=False, repr=False, default=Factory(lambda self: _migrations(self.package), takes_self=True)
    )

    @property
    def newest(self) -> int:
        """The version of the tables that this version of the distribution needs."""
        return self.migrations[-1].number


def _migrations(package: str) -> tuple[_Migration, ...]:
    migrations = []
    for file in files(package).joinpath("migrations").iterdir():
        name = _NAME.fullmatch(file.name)
        if name is not None:
            text = file.read_text(encoding="utf-8")
            compatible = _COMPATIBLE.match(text)
            assert compatible is not None, f"{file.name}: expected -- compatible-from: NUMBER in the first line"
            migrations.append(_Migration(int(name[1]), name[2], int(compatible[1]), text))
    return tuple(sorted(migrations, key=lambda each: each.number))


STORE_TABLES: Final = Tables("mcptrio_store_postgres", "mcptrio-store-postgres", "mcptrio store migrate")
"""The tables of the stores."""
NEWEST: Final = STORE_TABLES.newest
"""The version of the tables of the stores that this version of the distribution needs."""


def stored_version(connection: Connection) -> tuple[int, int]:
    """Return the version of the tables, and the oldest version that works with them; 0 and 0 if there are none."""
    try:
        row = connection.execute("SELECT max(number), max(compatible_from) FROM migrations").fetchone()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return 0, 0
    return (0, 0) if row is None or row[0] is None else (int(str(row[0])), int(str(row[1])))


def missing_grant(connection: Connection, address: Address) -> str | None:
    """Return the statement that gives the role the right to use the schema; ``None`` if it has it, or there is no
    schema."""
    row = connection.execute(
        "SELECT has_schema_privilege(oid, 'USAGE'), quote_ident(current_user) FROM pg_namespace WHERE nspname = %s",
        (address.schema,),
    ).fetchone()
    # Without the right, PostgreSQL reports the same error as without tables.
    return f"GRANT USAGE ON SCHEMA {address.schema} TO {row[1]}" if row is not None and not row[0] else None


def check_version(connection: Connection, address: Address, tables: Tables = STORE_TABLES) -> None:
    """Check that this version of the distribution works with the tables.

    Raises:
        StoreFailed: It does not. The message names the command to run.
    """
    if connection.info.server_version < MIN_SERVER:
        got = connection.info.parameter_status("server_version")
        raise StoreFailed(f"{address.label}: expected PostgreSQL 14 or later, got {got}")
    number, compatible_from = stored_version(connection)
    command = f"{tables.command} {address.url}"
    if number == 0 and (grant := missing_grant(connection, address)) is not None:
        raise StoreFailed(
            f"{address.label}: the role {connection.info.user} may not use the schema {address.schema}; run: {grant}"
        )
    if number == 0:
        raise StoreFailed(f"{address.label}: the schema {address.schema} has no tables of mcptrio: run {command}")
    if number < tables.newest:
        raise StoreFailed(
            f"{address.label}: expected version {tables.newest} of the tables in schema {address.schema}, got {number}:"
            f" run {command}"
        )
    if compatible_from > tables.newest:
        raise StoreFailed(
            f"{address.label}: the tables in schema {address.schema} have version {number}, which needs a newer"
            f" {tables.distribution}: pip install -U {tables.distribution}"
        )


def migrate_tables(
    connection: Connection, address: Address, tables: Tables = STORE_TABLES, *, unlogged: bool = False
) -> list[str]:
    """Create or change the tables, and return the changes, one line each. Several processes may call it concurrently.

    Raises:
        StoreFailed: The engine refused a statement. Earlier migrations remain applied.
    """
    changes: list[str] = []
    try:
        connection.execute(f"SET statement_timeout = 0; SET lock_timeout = '{_LOCK_SECONDS}s'".encode())
        for migration in tables.migrations:
            with connection.transaction():
                _lock(connection, address)
                changes += _prepare(connection, address)
                if stored_version_in(connection) < migration.number:
                    _apply(connection, migration)
                    changes.append(f"applied {migration.number:04} {migration.name}")
        with connection.transaction():
            _lock(connection, address)
            changes += _set_logged(connection, unlogged=unlogged)
    except psycopg.Error as error:
        raise store_failed(address, error) from error
    return changes


def stored_version_in(connection: Connection) -> int:
    """Return the version of the tables. The table ``migrations`` must exist, since an error would end a transaction."""
    row = connection.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchone()
    assert row is not None
    return int(str(row[0]))


def _lock(connection: Connection, address: Address) -> None:
    connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"mcptrio:{address.schema}",))


def _prepare(connection: Connection, address: Address) -> list[str]:
    changes: list[str] = []
    # CREATE SCHEMA IF NOT EXISTS needs the right to create one, even if it exists.
    if connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (address.schema,)).fetchone() is None:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(address.schema)))
        changes.append(f"created the schema {address.schema}")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS migrations (number integer PRIMARY KEY, name text NOT NULL,"
        " compatible_from integer NOT NULL, applied timestamptz NOT NULL DEFAULT now())"
    )
    return changes


def _apply(connection: Connection, migration: _Migration) -> None:
    connection.execute(migration.text.encode())
    connection.execute(
        "INSERT INTO migrations (number, name, compatible_from) VALUES (%s, %s, %s)",
        (migration.number, migration.name, migration.compatible_from),
    )


def _set_logged(connection: Connection, *, unlogged: bool) -> list[str]:
    """Make the tables of sessions and events logged or unlogged, according to the setting."""
    changes: list[str] = []
    rows = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname = ANY(%s)"
        " AND relkind = 'r' AND (relpersistence = 'u') <> %s ORDER BY relname",
        (list(_UNLOGGED), unlogged),
    ).fetchall()
    kind = "UNLOGGED" if unlogged else "LOGGED"
    for (table,) in rows:
        connection.execute(sql.SQL("ALTER TABLE {} SET " + kind).format(sql.Identifier(str(table))))
        changes.append(f"made the table {table} {kind.lower()}")
    return changes
