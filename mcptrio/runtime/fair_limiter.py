"""A limiter that gives places to clients in turn, so that many calls of one client do not delay those of another.

It limits tools, plugins and threads. :class:`trio.CapacityLimiter` cannot replace it, because it serves calls in the
order of arrival and cannot be subclassed.
"""

from __future__ import annotations

from collections.abc import Hashable

import trio

from mcptrio.ground.waiter import Waiter
from mcptrio.runtime.current import CURRENT

__all__ = ["FairLimiter"]

_Client = tuple[Hashable, bool]
"""The client, and whether it is connected over HTTP, where clients share places."""


class FairLimiter:
    """A limiter with a number of places that clients take in turn.

    Args:
        places: Number of places.
        limits_share: Whether a client over HTTP may hold at most as many places as are free. A single client thus holds
            about half of the places, and other clients need not wait for its slow calls.
    """

    def __init__(self, places: int, *, limits_share: bool = False) -> None:
        self.total_tokens = places
        self._limits_share = limits_share
        self._borrowers: dict[object, _Client] = {}
        self._borrowed: dict[_Client, int] = {}
        self._waiting: dict[_Client, dict[object, Waiter[None]]] = {}
        """Waiting borrowers by client, in the order of turns. Among clients with equally many places, the first is
        next."""

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
        """Take a place for a borrower without waiting.

        Raises:
            trio.WouldBlock: The client has to wait.
        """
        client = _client()
        if borrower in self._borrowers:
            raise RuntimeError("this borrower already has a place")
        # A new call must not overtake the waiting calls of the same client.
        if client in self._waiting or not self._has_room_for(client):
            raise trio.WouldBlock
        self._grant(borrower, client)

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        # As in trio.CapacityLimiter: always a checkpoint, and a cancelled call holds no place.
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            self.acquire_on_behalf_of_nowait(borrower)
        except trio.WouldBlock:
            await self._wait(borrower, _client())
        else:
            await trio.lowlevel.cancel_shielded_checkpoint()

    def release_on_behalf_of(self, borrower: object) -> None:
        client = self._borrowers.pop(borrower)
        self._borrowed[client] -= 1
        if not self._borrowed[client]:
            del self._borrowed[client]
        while self._waiting:
            ready = [each for each in self._waiting if self._has_room_for(each)]
            if not ready:
                return
            # The client with the fewest places is first; the dict keeps the order of turns among equals.
            self._serve(min(ready, key=lambda each: self._borrowed.get(each, 0)))

    # Private

    async def _wait(self, borrower: object, client: _Client) -> None:
        waiter = self._waiting.setdefault(client, {})[borrower] = Waiter()
        try:
            await waiter.wait()
        except trio.Cancelled:
            # _serve() may already have removed the waiter.
            waiting = self._waiting.get(client, {})
            waiting.pop(borrower, None)
            if not waiting:
                self._waiting.pop(client, None)
            raise

    def _serve(self, client: _Client) -> None:
        waiting = self._waiting.pop(client)
        borrower = next(iter(waiting))
        # set() returns False if that task was cancelled; then the place stays free.
        if waiting.pop(borrower).set(None):
            self._grant(borrower, client)
        if waiting:
            # Moved to the end, so that the other clients have their turn first.
            self._waiting[client] = waiting

    def _grant(self, borrower: object, client: _Client) -> None:
        self._borrowers[borrower] = client
        self._borrowed[client] = self._borrowed.get(client, 0) + 1

    def _has_room_for(self, client: _Client) -> bool:
        free = self.total_tokens - len(self._borrowers)
        is_sharing = client[1] and self._limits_share
        return free > 0 and (not is_sharing or self._borrowed.get(client, 0) <= free)


def _client() -> _Client:
    working = CURRENT.get()
    if working is None:
        return None, False
    owner = working.scope.request.owner
    return (working.scope.session, False) if owner is None else (owner, True)
