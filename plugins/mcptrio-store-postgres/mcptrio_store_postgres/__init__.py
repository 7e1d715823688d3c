"""Sessions, events, effects, replays and quotas of mcptrio in PostgreSQL, shared by many replicas.

:func:`mcptrio.stores.open_stores` finds :func:`open_postgres_stores` by the schemes ``postgresql`` and ``postgres``.
The other names are for distributions that have their own tables, with the same rules for URLs, connections and
migrations.
"""

from mcptrio_store_postgres.address import Address as Address
from mcptrio_store_postgres.address import read_address as read_address
from mcptrio_store_postgres.failures import is_lost as is_lost
from mcptrio_store_postgres.failures import store_failed as store_failed
from mcptrio_store_postgres.links import Connection as Connection
from mcptrio_store_postgres.links import PostgresLink as PostgresLink
from mcptrio_store_postgres.links import cut_late as cut_late
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
    "cut_late",
    "is_lost",
    "migrate_tables",
    "open_postgres_stores",
    "read_address",
    "run_in_thread",
    "store_failed",
    "wait_for_engine",
]
