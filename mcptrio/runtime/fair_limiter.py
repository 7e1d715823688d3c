"""Places that calls wait for, which clients get in turns: many calls of one client do not hold up those of another.

Tools, plugins and threads are limited by it. :class:`trio.CapacityLimiter` serves in the order of arrival, and cannot
be subclassed.
"""

from __future__ import annotations

from collections.abc import Hashable

import trio

from mcptrio.ground.waiter import Waiter
from mcptrio.runtime.current import CURRENT

__all__ = ["FairLimiter"]

_Client = tuple[Hashable, bool]
"""The client, and whether it came over HTTP, where clients share."""


class FairLimiter:
    """
    Args:
        places: taken at the same time.
        spares: whether a client over HTTP may only hold as many as are free, which is half of them for the first one.
            So others need not wait until a slow call of it has ended.
    """

    def __init__(self, places: int, *, spares: bool = False) -> None:
        self.total_tokens = places
        self._spares = spares
        self._borrowers: dict[object, _Client] = {}
        self._held: dict[_Client, int] = {}
        self._waiting: dict[_Client, dict[object, Waiter[None]]] = {}
        """The client whose turn is next comes first, unless it holds more places than another."""

    @property
    def borrowed_tokens(self) -> int:
        return len(self._borrowers)

    @property
    def available_tokens(self) -> int:
        return self.total_tokens - len(self._borrowers)

    async def __aenter__(self) -> None:
        await self.acquire_on_behalf_of(trio.lowlevel.current_task())

    async def __aexit__(self, *_: object) -> None:
        self.release_on_behalf_of(trio.lowlevel.current_task())

    def acquire_on_behalf_of_nowait(self, borrower: object) -> None:
        """
        Raises:
            trio.WouldBlock: the client has to wait.
        """
        client = _client()
        if borrower in self._borrowers:
            raise RuntimeError("this borrower has a place already")
        if client in self._waiting or not self._has_room_for(client):
            raise trio.WouldBlock
        self._grant(borrower, client)

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            self.acquire_on_behalf_of_nowait(borrower)
        except trio.WouldBlock:
            await self._wait(borrower, _client())
        else:
            await trio.lowlevel.cancel_shielded_checkpoint()

    def release_on_behalf_of(self, borrower: object) -> None:
        client = self._borrowers.pop(borrower)
        self._held[client] -= 1
        if not self._held[client]:
            del self._held[client]
        while self._waiting:
            ready = [each for each in self._waiting if self._has_room_for(each)]
            if not ready:
                return
            self._serve(min(ready, key=lambda each: self._held.get(each, 0)))

    # Private

    async def _wait(self, borrower: object, client: _Client) -> None:
        waiter = self._waiting.setdefault(client, {})[borrower] = Waiter()
        try:
            await waiter.wait()
        except trio.Cancelled:
            # It may have been served meanwhile, in vain.
            waiting = self._waiting.get(client, {})
            waiting.pop(borrower, None)
            if not waiting:
                self._waiting.pop(client, None)
            raise

    def _serve(self, client: _Client) -> None:
        waiting = self._waiting.pop(client)
        borrower = next(iter(waiting))
        if waiting.pop(borrower).set(None):
            self._grant(borrower, client)
        if waiting:
            self._waiting[client] = waiting

    def _grant(self, borrower: object, client: _Client) -> None:
        self._borrowers[borrower] = client
        self._held[client] = self._held.get(client, 0) + 1

    def _has_room_for(self, client: _Client) -> bool:
        free = self.total_tokens - len(self._borrowers)
        is_sharing = client[1] and self._spares
        return free > 0 and (not is_sharing or self._held.get(client, 0) <= free)


def _client() -> _Client:
    working = CURRENT.get()
    if working is None:
        return None, False
    owner = working.scope.request.owner
    return (working.scope.session, False) if owner is None else (owner, True)
