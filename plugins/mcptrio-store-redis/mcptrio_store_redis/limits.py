"""Names that may be used once, and rates, over all replicas. Both use the clock of the engine."""

from __future__ import annotations

from mcptrio_store_redis.commands import command, run
from mcptrio_store_redis.engine import RedisEngine
from mcptrio_store_redis.scripts import TAKE

__all__ = ["RedisQuotaStore", "RedisReplayStore"]


class RedisReplayStore:
    """Implements :class:`mcptrio.abc.ReplayStore`."""

    def __init__(self, engine: RedisEngine) -> None:
        self._engine = engine

    async def use(self, name: str, seconds: float) -> bool:
        key = self._engine.keys.replay(name)
        milliseconds = max(1, round(seconds * 1000))
        return bool(await self._engine.write(command(key, "SET", key, "1", "NX", "PX", milliseconds)))


class RedisQuotaStore:
    """Implements :class:`mcptrio.abc.QuotaStore`."""

    def __init__(self, engine: RedisEngine) -> None:
        self._engine = engine

    async def take(self, name: str, *, count: int, seconds: float, burst: int) -> float:
        each = seconds * 1_000_000 / count
        early = each * (max(burst, 1) - 1)
        key = self._engine.keys.quota(name)
        wait = await self._engine.write(run(TAKE, key, f"{each:.3f}", f"{early:.3f}"))
        return int(wait) / 1_000_000
