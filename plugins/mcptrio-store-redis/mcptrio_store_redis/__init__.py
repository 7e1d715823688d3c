"""Stores of mcptrio in Redis or Valkey, for servers on several machines.

``mcptrio.stores.open_stores("redis://…")`` finds :func:`open_redis_stores` through its entry point.
"""

from mcptrio_store_redis.opening import open_redis_stores

__all__ = ["open_redis_stores"]
