"""Results of ``ctx.once``, shared by all deliveries of the same request.

A client may send a retry of 2026-07-28 twice, for example after its connection broke. Both deliveries carry the same
``requestState``, so neither contains the results of the other. The first delivery runs the effect, and the others wait
for its result. Without a shared store, results are kept in this process only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import trio

from mcptrio.runtime.shared_effects import REPORT_SECONDS, SharedEffects

__all__ = ["Effects"]

MAX_RESULTS = 10_000
MAX_BYTES = 16 * 1024 * 1024
"""Bytes of all results. When a bound is exceeded, the oldest results are evicted, but never the newest."""


def _default_keep() -> float | None:
    return None


class Effects:
    """The results of ``ctx.once``, shared by all deliveries of a request.

    Args:
        lifetime: Seconds for which a result is kept: as long as a sealed state is accepted.
    """

    def __init__(self, lifetime: float) -> None:
        self.shared: SharedEffects | None = None
        """The effects of all replicas; ``None`` if the server shares none."""
        self._lifetime = lifetime
        self._running: dict[tuple[str, str], trio.Event] = {}
        self._results: OrderedDict[tuple[str, str], tuple[float, bytes]] = OrderedDict()
        """Expiry and result as JSON, in the order of expiry."""
        self._bytes = 0

    async def once(
        self,
        call: str,
        key: str,
        effect: Callable[[], Awaitable[Any]],
        *,
        repeatable: bool = False,
        keep: Callable[[], float | None] = _default_keep,
    ) -> Any:
        """Return the result of an effect. Run it unless another delivery of the call has run it or is running it.

        An effect that fails or is cancelled leaves no result, so the next delivery runs it again.

        Args:
            call: Identifies the call over all its rounds.
            key: Identifies the effect within the call.
            effect: The function; its result is a JSON value.
            repeatable: Whether it may run again if the replica that ran it has ended.
            keep: Returns the seconds for which the shared store keeps the result of a call that outlives its request,
                and ``None`` for any other call.

        Raises:
            Overloaded: The shared store failed before the effect was run. (A call that outlives its request waits
                until the store works again.)
            InternalError: Another replica has ended while it ran the effect.
        """
        name = (call, key)
        while name not in self._results:
            running = self._running.get(name)
            if running is None:
                return await self._run(name, effect, repeatable, keep)
            await running.wait()
        return orjson.loads(self._results[name][1])

    async def _run(
        self,
        name: tuple[str, str],
        effect: Callable[[], Awaitable[Any]],
        repeatable: bool,
        keep: Callable[[], float | None],
    ) -> Any:
        ended = self._running[name] = trio.Event()
        shared, (call, key) = self.shared, name
        try:
            if shared is not None:
                key, stored = await shared.claim(call, key, repeatable=repeatable, waits=lambda: keep() is not None)
                if stored is not None:
                    self._keep(name, stored)
                    return orjson.loads(stored)
            is_done = False
            try:
                value = await effect()
                # Raises TypeError for a value that JSON cannot express, and so cannot be kept for the next round.
                result = orjson.dumps(value)
                is_done = True
            finally:
                if shared is not None and not is_done:
                    with trio.move_on_after(REPORT_SECONDS, shield=True):
                        await shared.release(call, key)
            self._keep(name, result)
            if shared is not None:
                with trio.move_on_after(REPORT_SECONDS, shield=True):
                    await shared.finish(call, key, result, keep())
            return value
        finally:
            del self._running[name]
            ended.set()

    def _keep(self, name: tuple[str, str], result: bytes) -> None:
        now = trio.current_time()
        self._results[name] = now + self._lifetime, result
        self._bytes += len(result)
        # The newest result is never evicted, whatever its size: other deliveries may be waiting for it.
        while len(self._results) > 1 and self._must_evict(now):
            _, (_, evicted) = self._results.popitem(last=False)
            self._bytes -= len(evicted)

    def _must_evict(self, now: float) -> bool:
        oldest, _ = next(iter(self._results.values()))
        return oldest < now or len(self._results) > MAX_RESULTS or self._bytes > MAX_BYTES
