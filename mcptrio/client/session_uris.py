"""Reference counts of the resources that a session is subscribed to.

The Subscriber uses them in the handshake revisions, where a session subscribes to each URI once for all local
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
class _SharedSubscription:
    holders: int = 0
    is_subscribed: bool = False
    # True once the request was sent. Even without an answer, the server may have subscribed.
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
        self._subscriptions: dict[str, _SharedSubscription] = {}

    @asynccontextmanager
    async def subscribed(self, uris: Sequence[str]) -> AsyncIterator[None]:
        """Keep these resources subscribed during the block. Raises the exceptions of :meth:`ClientSession.request`."""
        subscriptions: dict[str, _SharedSubscription] = {}
        try:
            for uri in uris:
                shared = subscriptions[uri] = self._subscriptions.setdefault(uri, _SharedSubscription())
                shared.holders += 1
                async with shared.lock:
                    if not shared.is_subscribed:
                        await self._begin(uri, shared)
            yield
        finally:
            for shared in subscriptions.values():
                shared.holders -= 1
            if any(not shared.holders for shared in subscriptions.values()):
                # In a task, so that ending a subscription does not wait for the server.
                self._session.start_soon(self._release, subscriptions)

    async def _begin(self, uri: str, shared: _SharedSubscription) -> None:
        shared.may_be_subscribed = True
        try:
            await with_consent(partial(self._session.request, "resources/subscribe", SubscribeParams(uri=uri)))
        except MCPError:
            # The server refused, so it has nothing to unsubscribe.
            shared.may_be_subscribed = False
            raise
        shared.is_subscribed = True

    async def _release(self, subscriptions: dict[str, _SharedSubscription]) -> None:
        for uri, shared in subscriptions.items():
            async with shared.lock:
                # Another subscription may have begun while this task waited for the lock.
                if shared.holders:
                    continue
                shared.is_subscribed = False
                if shared.may_be_subscribed:
                    await self._unsubscribe(uri)
                    shared.may_be_subscribed = False
                if not shared.holders and self._subscriptions.get(uri) is shared:
                    del self._subscriptions[uri]

    async def _unsubscribe(self, uri: str) -> None:
        if self._session.link.closed or not self._is_current():
            return
        try:
            params = UnsubscribeParams(uri=uri)
            await self._session.request("resources/unsubscribe", params, timeout=UNSUBSCRIBE_TIMEOUT)
        except MCPTrioError as error:
            _log.debug("%s: %s is still subscribed to: %s", self._session.link.name, uri, error)
