"""Effects that happen at most once: a key for each, with the claim of a replica or the result."""

from __future__ import annotations

import secrets
from typing import Final

import trio

from mcptrio.abc import EffectClaim, EffectState
from mcptrio_store_redis.commands import command, run
from mcptrio_store_redis.engine import RedisEngine
from mcptrio_store_redis.scripts import CLAIM, FINISH, RELEASE

__all__ = ["RedisEffectStore"]

# Milliseconds for which a result is usually kept, and a claim after it was last kept.
_RESULT_LIFETIME_MS: Final = 3_600_000
# Seconds after which the claim of an effect that still runs is kept for another hour.
_KEEP_AFTER: Final = 600.0
# Claims to give back once the engine answers again. Further effects stay claimed until this replica ends.
_OWED: Final = 10_000
# Seconds. The engine has no times much later.
_MAX_KEEP: Final = 1e9


class RedisEffectStore:
    def __init__(self, engine: RedisEngine) -> None:
        self._engine = engine
        # The keys of claims of this replica, and when they were last kept.
        self._held: dict[str, float] = {}
        # Keys, and the claims that have to be given back.
        self._owed: dict[tuple[str, str], None] = {}

    async def claim(self, call: str, key: str) -> EffectClaim:
        name = self._engine.keys.effect(call, key)
        # A token, so that a claim without an answer can be given back without taking a later one away.
        claim = f"{self._engine.replica} {secrets.token_hex(8)}"
        answered = False
        try:
            state, *rest = await self._engine.change(run(CLAIM, name, claim, _RESULT_LIFETIME_MS))
            answered = True
        finally:
            if not answered:
                self._owe(name, claim)
        if state == 1:
            self._held[name] = trio.current_time()
            return EffectClaim(EffectState.CLAIMED)
        if state == 2:
            return EffectClaim(EffectState.DONE, rest[0])
        holder = rest[0].decode()
        # The leases remove a replica once it has been missing for a whole lease, and never before.
        replicas = self._engine.keys.replicas
        is_known = await self._engine.ask(command(replicas, "ZSCORE", replicas, holder)) is not None
        return EffectClaim(EffectState.RUNNING if is_known else EffectState.LOST)

    async def finish(self, call: str, key: str, result: bytes, keep: float = _RESULT_LIFETIME_MS / 1000) -> None:
        name = self._engine.keys.effect(call, key)
        lifetime = max(1, round(min(keep, _MAX_KEEP) * 1000))
        await self._engine.change(run(FINISH, name, self._engine.replica, lifetime, result))
        self._held.pop(name, None)

    async def release(self, call: str, key: str) -> None:
        name = self._engine.keys.effect(call, key)
        self._held.pop(name, None)
        released = False
        try:
            await self._engine.change(run(RELEASE, name, self._engine.replica))
            released = True
        finally:
            if not released:
                self._owe(name, self._engine.replica)

    # Called by the leases

    async def release_owed(self) -> None:
        """Give back the claims for which that failed before.

        Raises:
            StoreFailed: The engine does not answer.
        """
        while self._owed:
            name, claim = next(iter(self._owed))
            await self._engine.change(run(RELEASE, name, claim))
            self._owed.pop((name, claim), None)

    async def keep_claims(self) -> None:
        """Keep the claims of effects that run for long.

        Raises:
            StoreFailed: The engine does not answer.
        """
        now = trio.current_time()
        for name in [each for each, kept in self._held.items() if now - kept > _KEEP_AFTER]:
            await self._engine.change(command(name, "PEXPIRE", name, _RESULT_LIFETIME_MS))
            if name in self._held:
                self._held[name] = now

    def _owe(self, name: str, claim: str) -> None:
        if len(self._owed) < _OWED:
            self._owed[name, claim] = None
