"""Side effects that happen at most once. The key of an effect has the claim of a replica, or the result."""

from __future__ import annotations

import secrets
from typing import Final

import trio

from mcptrio.abc import EffectClaim, EffectState
from mcptrio_store_redis.commands import command, run
from mcptrio_store_redis.engine import RedisEngine
from mcptrio_store_redis.scripts import CLAIM, FINISH, RELEASE

__all__ = ["RedisEffectStore"]

# Milliseconds for which a result is usually kept, and after which a claim expires unless it is renewed.
_RESULT_LIFETIME_MS: Final = 3_600_000
# Seconds after which the claim of an effect that still runs is renewed.
_KEEP_AFTER_SECONDS: Final = 600.0
# Claims that are released once the engine answers again. Further ones are held until this replica ends.
_MAX_PENDING: Final = 10_000
# Seconds. The engine accepts no much later expiry.
_MAX_KEEP_SECONDS: Final = 1e9


class RedisEffectStore:
    """Implements :class:`mcptrio.abc.EffectStore`."""

    def __init__(self, engine: RedisEngine) -> None:
        self._engine = engine
        # The keys of this replica's claims, and the Trio clock times at which they were last renewed.
        self._held: dict[str, float] = {}
        # Keys and claims that could not be released.
        self._pending: dict[tuple[str, str], None] = {}

    async def claim(self, call: str, key: str) -> EffectClaim:
        name = self._engine.keys.effect(call, key)
        # With a token, so that releasing a claim that got no answer cannot release a later one.
        claim = f"{self._engine.replica} {secrets.token_hex(8)}"
        answered = False
        try:
            state, *rest = await self._engine.write(run(CLAIM, name, claim, _RESULT_LIFETIME_MS))
            answered = True
        finally:
            if not answered:
                self._note_pending(name, claim)
        if state == 1:
            self._held[name] = trio.current_time()
            return EffectClaim(EffectState.CLAIMED)
        if state == 2:
            return EffectClaim(EffectState.DONE, rest[0])
        holder = rest[0].decode()
        # The leases remove a replica only after it has been missing for a whole lease.
        replicas = self._engine.keys.replicas
        is_known = await self._engine.read(command(replicas, "ZSCORE", replicas, holder)) is not None
        return EffectClaim(EffectState.RUNNING if is_known else EffectState.LOST)

    async def finish(self, call: str, key: str, result: bytes, keep: float = _RESULT_LIFETIME_MS / 1000) -> None:
        name = self._engine.keys.effect(call, key)
        lifetime = max(1, round(min(keep, _MAX_KEEP_SECONDS) * 1000))
        await self._engine.write(run(FINISH, name, self._engine.replica, lifetime, result))
        self._held.pop(name, None)

    async def release(self, call: str, key: str) -> None:
        name = self._engine.keys.effect(call, key)
        self._held.pop(name, None)
        released = False
        try:
            await self._engine.write(run(RELEASE, name, self._engine.replica))
            released = True
        finally:
            if not released:
                self._note_pending(name, self._engine.replica)

    # Called by the leases

    async def retry_releases(self) -> None:
        """Release the claims whose release failed before.

        Raises:
            StoreFailed: The engine does not answer.
        """
        while self._pending:
            name, claim = next(iter(self._pending))
            await self._engine.write(run(RELEASE, name, claim))
            self._pending.pop((name, claim), None)

    async def keep_claims(self) -> None:
        """Renew the claims of effects that run for long.

        Raises:
            StoreFailed: The engine does not answer.
        """
        now = trio.current_time()
        for name in [each for each, kept in self._held.items() if now - kept > _KEEP_AFTER_SECONDS]:
            await self._engine.write(command(name, "PEXPIRE", name, _RESULT_LIFETIME_MS))
            if name in self._held:
                self._held[name] = now

    def _note_pending(self, name: str, claim: str) -> None:
        if len(self._pending) < _MAX_PENDING:
            self._pending[name, claim] = None
