"""The resources a session is subscribed to, each once for all subscriptions that want it.

Used by the client's subscriber in the handshake revisions.

Source: MCP 2025-11-25, server/resources, "Subscriptions".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import trio
from attrs import define, field

from mcptrio.errors import MCPError

__all__ = ["SessionURIs"]


@define(eq=False)
class _Held:
    holders: int = 0
    is_subscribed: bool = False
    may_be_subscribed: bool = False
    """Whether the server was asked, even if its answer did not come."""
    lock: trio.Lock = field(factory=trio.Lock)
    """Held while the server is asked, so that one subscription's end never overtakes another one's beginning."""


class SessionURIs:
    """
    Args:
        subscribe: asks the server to report changes of a resource.
        unsubscribe: asks it to stop. Does not raise.
        start_soon: starts a task that unsubscribes, so that no subscription waits for that when it ends.
    """

    def __init__(
        self,
        subscribe: Callable[[str], Awaitable[None]],
        unsubscribe: Callable[[str], Awaitable[None]],
        start_soon: Callable[[Callable[[], Awaitable[None]]], None],
    ) -> None:
        self._subscribe = subscribe
        self._unsubscribe = unsubscribe
        self._start_soon = start_soon
        self._held: dict[str, _Held] = {}

    @asynccontextmanager
    async def held(self, uris: Sequence[str]) -> AsyncIterator[None]:
        """Be subscribed to these resources for as long as the context lasts. Raises what ``subscribe`` does."""
        taken: dict[str, _Held] = {}
        try:
            for uri in uris:
                held = taken[uri] = self._held.setdefault(uri, _Held())
                held.holders += 1
                async with held.lock:
                    if not held.is_subscribed:
                        await self._begin(uri, held)
            yield
        finally:
            for held in taken.values():
                held.holders -= 1
            if any(not held.holders for held in taken.values()):
                self._start_soon(partial(self._release, taken))

    async def _begin(self, uri: str, held: _Held) -> None:
        held.may_be_subscribed = True
        try:
            await self._subscribe(uri)
        except MCPError:
            held.may_be_subscribed = False
            raise
        held.is_subscribed = True

    async def _release(self, taken: dict[str, _Held]) -> None:
        for uri, held in taken.items():
            async with held.lock:
                if held.holders:
                    continue
                held.is_subscribed = False
                if held.may_be_subscribed:
                    await self._unsubscribe(uri)
                    held.may_be_subscribed = False
                if not held.holders and self._held.get(uri) is held:
                    del self._held[uri]
