"""Claims and results of side effects in memory, for several servers in one process.

:func:`mcptrio.stores.memory.memory_stores` makes it. None of its methods waits.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import Final

import trio

from mcptrio.abc import EffectClaim, EffectState

__all__ = ["EFFECT_SECONDS", "MemoryEffectStore"]

EFFECT_SECONDS: Final = 3600.0
"""Seconds for which a result is usually kept: as long as a sealed ``requestState`` is accepted."""
_MAX_RESULTS: Final = 10_000
# Bytes of all results. Above either limit, the result that expires first is dropped, except the newest one.
_MAX_BYTES: Final = 64 * 1024 * 1024


class MemoryEffectStore:
    """Effects in dicts. The state LOST does not occur, because the store ends with the process."""

    def __init__(self) -> None:
        self._claimed: set[tuple[str, str]] = set()
        # The number, expiry and bytes of each result.
        self._results: dict[tuple[str, str], tuple[int, float, bytes]] = {}
        # A heap of expiry, number and name. A result that was stored again has two entries.
        self._expiring: list[tuple[float, int, tuple[str, str]]] = []
        self._numbers = count()
        self._bytes = 0

    async def claim(self, call: str, key: str) -> EffectClaim:
        name = call, key
        if name in self._claimed:
            return EffectClaim(EffectState.RUNNING)
        stored_result = self._results.get(name)
        if stored_result is not None and stored_result[1] > trio.current_time():
            return EffectClaim(EffectState.DONE, stored_result[2])
        self._claimed.add(name)
        return EffectClaim(EffectState.CLAIMED)

    async def finish(self, call: str, key: str, result: bytes, keep: float = EFFECT_SECONDS) -> None:
        name, now = (call, key), trio.current_time()
        self._claimed.discard(name)
        self._drop(name)
        # Before the new result is added, so that it is not dropped.
        while self._expiring and self._is_too_much(now, len(result)):
            _, number, oldest = heappop(self._expiring)
            if oldest in self._results and self._results[oldest][0] == number:
                self._drop(oldest)
        number = next(self._numbers)
        self._results[name] = number, now + keep, result
        heappush(self._expiring, (now + keep, number, name))
        self._bytes += len(result)

    async def release(self, call: str, key: str) -> None:
        self._claimed.discard((call, key))

    def _is_too_much(self, now: float, size: int) -> bool:
        is_over = len(self._results) >= _MAX_RESULTS or self._bytes + size > _MAX_BYTES
        return is_over or self._expiring[0][0] <= now or len(self._expiring) > 2 * _MAX_RESULTS

    def _drop(self, name: tuple[str, str]) -> None:
        stored_result = self._results.pop(name, None)
        if stored_result is not None:
            self._bytes -= len(stored_result[2])
