"""Sessions, events, effects, replays and quotas of mcptrio in PostgreSQL, shared by many replicas.

:func:`mcptrio.stores.open_stores` finds :func:`open_postgres_stores` by the schemes ``postgresql`` and ``postgres``.
"""

from mcptrio_store_postgres.opening import open_postgres_stores as open_postgres_stores

__all__ = ["open_postgres_stores"]
