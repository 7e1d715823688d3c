"""Claims and results of side effects in memory, for several servers in one process.

:func:`mcptrio.stores.memory.memory_stores` makes it. None of its methods waits.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import trio

from mcptrio.abc import EffectClaim, EffectState

__all__ = ["EFFECT_SECONDS", "MemoryEffectStore"]

EFFECT_SECONDS: Final = 3600.0
"""Seconds for which a result is kept: as long as a sealed ``requestState`` is accepted."""
_MAX_RESULTS: Final = 10_000
# Bytes of all results. Beyond either bound the oldest result is dropped, but never the newest.
_MAX_BYTES: Final = 64 * 1024 * 1024


class MemoryEffectStore:
    """Effects in dicts. A claim is never lost: it ends with the process, as the store does."""

    def __init__(self) -> None:
        self._claimed: set[tuple[str, str]] = set()
        # Expiry and result, in the order of expiry.
        self._results: OrderedDict[tuple[str, str], tuple[float, bytes]] = OrderedDict()
        self._bytes = 0

    async def claim(self, call: str, key: str) -> EffectClaim:
        name = call, key
        if name in self._claimed:
            return EffectClaim(EffectState.RUNNING)
        kept = self._results.get(name)
        if kept is not None and kept[0] > trio.current_time():
            return EffectClaim(EffectState.DONE, kept[1])
        self._claimed.add(name)
        return EffectClaim(EffectState.CLAIMED)

    async def finish(self, call: str, key: str, result: bytes) -> None:
        name, now = (call, key), trio.current_time()
        self._claimed.discard(name)
        self._drop(name)
        self._results[name] = now + EFFECT_SECONDS, result
        self._bytes += len(result)
        while len(self._results) > 1 and self._is_too_much(now):
            self._drop(next(iter(self._results)))

    async def release(self, call: str, key: str) -> None:
        self._claimed.discard((call, key))

    def _is_too_much(self, now: float) -> bool:
        oldest, _ = next(iter(self._results.values()))
        return oldest <= now or len(self._results) > _MAX_RESULTS or self._bytes > _MAX_BYTES

    def _drop(self, name: tuple[str, str]) -> None:
        kept = self._results.pop(name, None)
        if kept is not None:
            self._bytes -= len(kept[1])
