"""Verifies the credentials of open exchanges again: WebSockets, SSE sessions and event streams.

``HTTPApp`` owns it. One task watches all open exchanges, and ends an exchange when the guard no longer accepts its
credentials.

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
"""Ended exchanges that may stay in the queue, in addition to half of its entries."""
_UNVERIFIED_TIMEOUT: Final = 60.0
"""Seconds for which an exchange stays open while the guard cannot verify its credentials."""

_log = logging.getLogger("mcptrio.http.guard")


class AdmittedExchange:
    """An exchange that a guard has admitted. Its credentials are verified again after :meth:`watch`."""

    __slots__ = ("_end", "_reauthorization", "is_queued", "principal", "request", "unverified_since")

    def __init__(self, keeper: Reauthorization, request: RequestHead, principal: Principal) -> None:
        self._reauthorization = keeper
        self._end: Callable[[], None] | None = None
        self.request = request
        self.principal = principal
        self.unverified_since: float | None = None
        self.is_queued = False
        """True while the queue of the :class:`Reauthorization` has an entry for the exchange."""

    @property
    def is_open(self) -> bool:
        return self._end is not None

    def watch(self, end: Callable[[], None]) -> None:
        """Watch the exchange from now on.

        Args:
            end: Ends the exchange, without waiting. It is called once, when the credentials are no longer valid. It
                replaces the function of an earlier call.
        """
        is_first = self._end is None
        self._end = end
        if is_first:
            self._reauthorization.schedule(self)

    def forget(self) -> None:
        """Forget the exchange after its end."""
        was_open = self.is_open
        self._end = None
        if was_open and self.is_queued:
            self._reauthorization.forget_ended()

    def end(self) -> None:
        """End the exchange, because its credentials are no longer accepted."""
        end, self._end = self._end, None
        if end is not None:
            end()


class Reauthorization:
    """Verifies the credentials of all exchanges that stay open. :meth:`run` must be running."""

    def __init__(self, engine: Engine, guard: Guard) -> None:
        self._engine = engine
        self._guard = guard
        self._due: list[tuple[float, int, AdmittedExchange]] = []
        self._ended_count = 0
        """The number of queued exchanges that have ended."""
        self._tie_breakers = count()
        self._due_changed = trio.Event()
        self._limiter = trio.CapacityLimiter(_MAX_CONCURRENT_CHECKS)

    def admit(self, request: RequestHead, principal: Principal) -> AdmittedExchange:
        """Return an entry for an exchange that was admitted and may stay open."""
        return AdmittedExchange(self, request, principal)

    def schedule(self, admitted: AdmittedExchange, after: float | None = None) -> None:
        """Verify the credentials of an open exchange again, after ``after`` seconds or when the guard requires it."""
        if not admitted.is_open:
            return
        seconds = self._guard.recheck_after(admitted.principal) if after is None else after
        admitted.is_queued = True
        # The number decides between equal times, because entries cannot be compared.
        heappush(self._due, (trio.current_time() + seconds, next(self._tie_breakers), admitted))
        if self._due[0][2] is admitted:
            # run() sleeps until the entry that was first before this one.
            self._due_changed.set()

    def forget_ended(self) -> None:
        """Count a queued exchange that has ended, and remove ended ones from the queue when there are too many."""
        # Removing from a heap takes linear time, so ended entries stay until they are due or make up half of the
        # queue. So a client that opens and closes streams cannot fill the queue.
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
                    admitted.is_queued = False
                    if admitted.is_open:
                        # In its own task, because the introspection of an opaque token is a request to another server.
                        nursery.start_soon(self._recheck_guarded, admitted)
                    else:
                        self._ended_count -= 1
                self._due_changed = trio.Event()
                with trio.move_on_at(self._due[0][0] if self._due else inf):
                    await self._due_changed.wait()

    async def _recheck_guarded(self, admitted: AdmittedExchange) -> None:
        await self._engine.run_guarded(partial(self._recheck, admitted), "verifying the token of an open connection")
        # _recheck() has refused the credentials, or has failed. In both cases the exchange ends.
        if not admitted.is_queued:
            admitted.end()

    async def _recheck(self, admitted: AdmittedExchange) -> None:
        try:
            async with self._limiter:
                admitted.principal = await self._guard.recheck(admitted.request, admitted.principal)
        except AuthorizationError as error:
            _log.info(
                "connection closed, its credentials are no longer accepted: client=%s: %s",
                admitted.request.address or "unknown",
                error,
            )
        except Overloaded as error:
            now = trio.current_time()
            # The authorization server may be down for a moment, which must not end every stream at once.
            if admitted.unverified_since is None:
                admitted.unverified_since = now
            if now - admitted.unverified_since < _UNVERIFIED_TIMEOUT:
                self.schedule(admitted, min(error.retry_after, _UNVERIFIED_TIMEOUT))
            else:
                _log.warning(
                    "connection closed, its credentials are no longer accepted: client=%s: %s",
                    admitted.request.address or "unknown",
                    error,
                )
        else:
            admitted.unverified_since = None
            self.schedule(admitted)
