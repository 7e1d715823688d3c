"""Verifies the credentials of open exchanges again: WebSockets, SSE sessions and event streams.

``HTTPApp`` owns it. One task watches all of them, like :mod:`mcptrio.http.server.keepalives`, and ends an exchange
when the guard no longer accepts its credentials.

Source: MCP 2026-07-28, basic/authorization, "Token Handling"; RFC 9700 section 4.10.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Final

import trio

from mcptrio.abc import Engine, Guard, Principal, RequestHead
from mcptrio.errors import AuthorizationError, Overloaded

__all__ = ["AdmittedExchange", "Reauthorization"]

_MAX_CONCURRENT_CHECKS: Final = 20
"""Credentials that are verified at the same time."""
_MAX_ENDED_ITEMS: Final = 100
"""Ended exchanges that may admitted queued, in addition to one for each open one."""
_UNSURE_TIMEOUT: Final = 60.0
"""Seconds for which a connection stays open while the guard cannot verify its credentials."""

_log = logging.getLogger("mcptrio.http.guard")


class AdmittedExchange:
    """One exchange that a guard has admitted. Nothing happens before :meth:`begin`."""

    __slots__ = ("_end", "_keeper", "is_kept", "principal", "request", "unsure_since")

    def __init__(self, keeper: Reauthorization, request: RequestHead, principal: Principal) -> None:
        self._keeper = keeper
        self._end: Callable[[], None] | None = None
        self.request = request
        self.principal = principal
        self.unsure_since: float | None = None
        self.is_kept = False
        """Whether it is in the keeper's queue."""

    @property
    def is_open(self) -> bool:
        return self._end is not None

    def begin(self, end: Callable[[], None]) -> None:
        """Watch the exchange from now on.

        Args:
            end: Ends it, without waiting; called once, when the credentials are no longer valid. Replaces the function
                of an earlier call.
        """
        is_first = self._end is None
        self._end = end
        if is_first:
            self._keeper.keep(self)

    def forget(self) -> None:
        """Forget the exchange after its end."""
        was_open = self.is_open
        self._end = None
        if was_open and self.is_kept:
            self._keeper.forget_ended()

    def end(self) -> None:
        """End the exchange, because its credentials are no longer accepted."""
        end, self._end = self._end, None
        if end is not None:
            end()


class Reauthorization:
    """All exchanges that admitted open. :meth:`run` must be running."""

    def __init__(self, engine: Engine, guard: Guard) -> None:
        self._engine = engine
        self._guard = guard
        self._due: list[tuple[float, int, AdmittedExchange]] = []
        self._ended_count = 0
        """Entries of the queue whose exchange has ended."""
        self._numbers = count()
        self._sooner = trio.Event()
        self._turns = trio.CapacityLimiter(_MAX_CONCURRENT_CHECKS)

    def admit(self, request: RequestHead, principal: Principal) -> AdmittedExchange:
        """Return the entry for an exchange that was admitted and may admitted open."""
        return AdmittedExchange(self, request, principal)

    def keep(self, admitted: AdmittedExchange, after: float | None = None) -> None:
        """Verify it again after this many seconds, by default when the guard wants it, unless it has ended."""
        if not admitted.is_open:
            return
        seconds = self._guard.recheck_after(admitted.principal) if after is None else after
        admitted.is_kept = True
        # The number decides between equal times: entries themselves cannot be compared.
        heappush(self._due, (trio.current_time() + seconds, next(self._numbers), admitted))
        if self._due[0][2] is admitted:
            # run() sleeps until what was the first entry before.
            self._sooner.set()

    def forget_ended(self) -> None:
        """Count a queued exchange that has ended, and clean the queue when there are too many."""
        # Removing from a heap is linear, so ended entries admitted until they are due or make up half of the queue. A
        # client that opens and closes streams cannot fill it.
        self._ended_count += 1
        if self._ended_count > _MAX_ENDED_ITEMS + len(self._due) // 2:
            self._due = [each for each in self._due if each[2].is_open]
            heapify(self._due)
            self._ended_count = 0

    def __len__(self) -> int:
        return len(self._due)

    async def run(self) -> None:
        """Verify credentials as they become due, until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                while self._due and self._due[0][0] <= trio.current_time():
                    admitted = heappop(self._due)[2]
                    admitted.is_kept = False
                    if admitted.is_open:
                        # In its own task: introspection of an opaque token is a request to another server.
                        nursery.start_soon(self._recheck_guarded, admitted)
                    else:
                        self._ended_count -= 1
                self._sooner = trio.Event()
                with trio.move_on_at(self._due[0][0] if self._due else inf):
                    await self._sooner.wait()

    async def _recheck_guarded(self, admitted: AdmittedExchange) -> None:
        await self._engine.run_guarded(partial(self._recheck, admitted), "verifying the token of an open connection")
        # _recheck() has refused it, or has failed: fail closed.
        if not admitted.is_kept:
            admitted.end()

    async def _recheck(self, admitted: AdmittedExchange) -> None:
        try:
            async with self._turns:
                admitted.principal = await self._guard.recheck(admitted.request, admitted.principal)
        except AuthorizationError as error:
            _log.info("%s: a connection ends: %s", admitted.request.address or "a client", error)
        except Overloaded as error:
            now = trio.current_time()
            # The authorization server may be down for a moment. That must not end every stream at once.
            if admitted.unsure_since is None:
                admitted.unsure_since = now
            if now - admitted.unsure_since < _UNSURE_TIMEOUT:
                self.keep(admitted, min(error.retry_after, _UNSURE_TIMEOUT))
            else:
                _log.warning("%s: a connection ends: %s", admitted.request.address or "a client", error)
        else:
            admitted.unsure_since = None
            self.keep(admitted)
