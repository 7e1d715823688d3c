"""Stores of mcptrio in PostgreSQL, for servers on several machines.

:func:`mcptrio.stores.open_stores` finds :func:`open_postgres_stores` by the schemes ``postgresql`` and ``postgres``.
The other names are for distributions with their own tables, which use the same URLs, connections and migrations.
"""

from mcptrio_store_postgres.address import Address as Address
from mcptrio_store_postgres.address import read_address as read_address
from mcptrio_store_postgres.failures import is_connection_lost as is_connection_lost
from mcptrio_store_postgres.failures import store_failed as store_failed
from mcptrio_store_postgres.links import Connection as Connection
from mcptrio_store_postgres.links import PostgresLink as PostgresLink
from mcptrio_store_postgres.links import enforce_deadlines as enforce_deadlines
from mcptrio_store_postgres.opening import open_postgres_stores as open_postgres_stores
from mcptrio_store_postgres.opening import wait_for_engine as wait_for_engine
from mcptrio_store_postgres.tools import run_in_thread as run_in_thread
from mcptrio_store_postgres.versions import Tables as Tables
from mcptrio_store_postgres.versions import check_version as check_version
from mcptrio_store_postgres.versions import migrate_tables as migrate_tables

__all__ = [
    "Address",
    "Connection",
    "PostgresLink",
    "Tables",
    "check_version",
    "enforce_deadlines",
    "is_connection_lost",
    "migrate_tables",
    "open_postgres_stores",
    "read_address",
    "run_in_thread",
    "store_failed",
    "wait_for_engine",
]
