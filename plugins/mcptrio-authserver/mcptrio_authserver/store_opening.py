"""Opens the store that the settings name: a database if replicas share it, otherwise a file.

:class:`.authorization_server.AuthorizationServer` and the commands of the operator use it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from mcptrio.errors import ConfigError

from .config import LedgerSettings
from .ledger import Store
from .user_directory import FileUserDirectory, RecordUserDirectory, UserDirectory

__all__ = ["migrate_store", "open_store", "user_directory"]


@asynccontextmanager
async def open_store(
    folder: Path, ledger: LedgerSettings | None, *, clock: Callable[[], float] = time.time
) -> AsyncIterator[Store]:
    """Open the store.

    Args:
        folder: The folder of ``state.db``, which is created if it is missing.
        ledger: The database that is used instead.
        clock: Returns seconds since 1970.

    Raises:
        ConfigError: The settings of the database are invalid, or its library is not installed.
        StoreFailed: The file or the database cannot be used.
    """
    # Each engine is imported when it is used: psycopg is an extra.
    if ledger is None:
        from .sqlite_store import open_sqlite_store

        async with open_sqlite_store(folder / "state.db", clock=clock) as store:
            yield store
    else:
        try:
            from .postgres_store import open_postgres_store
        except ImportError as error:
            raise _missing_extra(error) from error
        async with open_postgres_store(ledger, clock=clock) as store:
            yield store


def user_directory(folder: Path, ledger: LedgerSettings | None, store: Store) -> UserDirectory:
    """Return the users of a server: in the folder, or in the same database as its records."""
    return FileUserDirectory(folder / "users") if ledger is None else RecordUserDirectory(store)


async def migrate_store(ledger: LedgerSettings) -> list[str]:
    """Create the table of a database or bring it up to date; return the changes in words.

    Raises:
        ConfigError: The settings are invalid, or the library is not installed.
        StoreFailed: The database cannot be reached, or refuses a change.
    """
    try:
        from .postgres_store import migrate_postgres_store
    except ImportError as error:
        raise _missing_extra(error) from error
    return await migrate_postgres_store(ledger)


def _missing_extra(error: ImportError) -> ConfigError:
    return ConfigError(
        f"ledger: expected the extra for PostgreSQL: pip install 'mcptrio-authserver[postgres]' ({error})"
    )
