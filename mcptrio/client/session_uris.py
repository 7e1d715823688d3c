"""The resources a session is subscribed to, each once for all subscriptions that want it.

Used by the client's subscriber in the handshake revisions.

Source: MCP 2025-11-25, server/resources, "Subscriptions".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import trio
from attrs import define, field

__all__ = ["SessionURIs"]

GOODBYE = 1.0
"""Seconds for unsubscribing."""


@define(eq=False)
class _Held:
    holders: int = 0
    is_subscribed: bool = False
    lock: trio.Lock = field(factory=trio.Lock)
    """Held while the server is asked, so that one subscription's end never overtakes another one's beginning."""


class SessionURIs:
    """
    Args:
        subscribe: asks the server to report changes of a resource.
        unsubscribe: asks it to stop. Does not raise.
    """

    def __init__(
        self, subscribe: Callable[[str], Awaitable[None]], unsubscribe: Callable[[str], Awaitable[None]]
    ) -> None:
        self._subscribe = subscribe
        self._unsubscribe = unsubscribe
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
                        await self._subscribe(uri)
                        held.is_subscribed = True
            yield
        finally:
            for held in taken.values():
                held.holders -= 1
            with trio.move_on_after(GOODBYE, shield=True):
                for uri, held in taken.items():
                    async with held.lock:
                        if held.is_subscribed and not held.holders:
                            held.is_subscribed = False
                            await self._unsubscribe(uri)
            # After a timeout the server may still be subscribed to some. The next holder asks it again.
            for uri, held in taken.items():
                if not held.holders and self._held.get(uri) is held:
                    del self._held[uri]
