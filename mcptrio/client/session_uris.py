"""Reference counts of the resources that a session is subscribed to.

The Subscriber uses it in the handshake revisions, where a session subscribes to each URI once for all local
subscriptions.

Source: MCP 2025-11-25, server/resources, "Subscriptions".
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import trio
from attrs import define, field

from mcptrio.client.consent import with_consent
from mcptrio.client.session import ClientSession
from mcptrio.errors import MCPError, MCPTrioError
from mcptrio.protocol.model.resources import SubscribeParams, UnsubscribeParams

__all__ = ["SessionURIs"]

_log = logging.getLogger("mcptrio.client.session_uris")

UNSUBSCRIBE_TIMEOUT = 1.0
"""Seconds for the server to answer an unsubscribe. A new subscription to the same resource waits for it."""


@define(eq=False)
class _Held:
    holders: int = 0
    is_subscribed: bool = False
    # True once the server was asked, even without an answer: it may have subscribed nevertheless.
    may_be_subscribed: bool = False
    # Held during requests to the server, so that an unsubscribe never overtakes the next subscribe.
    lock: trio.Lock = field(factory=trio.Lock)


class SessionURIs:
    """Subscribes to each URI when the first local subscription needs it, and unsubscribes after the last.

    Args:
        is_current: Returns whether the client still uses the session.
    """

    def __init__(self, session: ClientSession, is_current: Callable[[], bool]) -> None:
        self._session = session
        self._is_current = is_current
        self._held: dict[str, _Held] = {}

    @asynccontextmanager
    async def held(self, uris: Sequence[str]) -> AsyncIterator[None]:
        """Keep these resources subscribed inside the context. Raises as :meth:`ClientSession.request` does."""
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
                # In a task, so that leaving a subscription does not wait for the server.
                self._session.start_soon(self._release, taken)

    async def _begin(self, uri: str, held: _Held) -> None:
        held.may_be_subscribed = True
        try:
            await with_consent(partial(self._session.request, "resources/subscribe", SubscribeParams(uri=uri)))
        except MCPError:
            # The server refused, so it has nothing to unsubscribe.
            held.may_be_subscribed = False
            raise
        held.is_subscribed = True

    async def _release(self, taken: dict[str, _Held]) -> None:
        for uri, held in taken.items():
            async with held.lock:
                # Another subscription took the URI while this task waited for the lock.
                if held.holders:
                    continue
                held.is_subscribed = False
                if held.may_be_subscribed:
                    await self._unsubscribe(uri)
                    held.may_be_subscribed = False
                if not held.holders and self._held.get(uri) is held:
                    del self._held[uri]

    async def _unsubscribe(self, uri: str) -> None:
        if self._session.link.closed or not self._is_current():
            return
        try:
            params = UnsubscribeParams(uri=uri)
            await self._session.request("resources/unsubscribe", params, timeout=UNSUBSCRIBE_TIMEOUT)
        except MCPTrioError as error:
            _log.debug("%s: %s is still subscribed to: %s", self._session.link.name, uri, error)
