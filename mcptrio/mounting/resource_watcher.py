"""Reports changes to a mounted server's resources to the subscribers of this server.

The mount runs this. While a client of this server is subscribed to a mounted resource, the watcher is subscribed to it
on the mounted server.

Source: MCP 2025-11-25, server/resources, "Subscriptions"; MCP 2026-07-28, basic/patterns/subscriptions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from mcptrio.capabilities.catalog import Catalog
from mcptrio.client.client import Client
from mcptrio.errors import ConnectionClosed, MCPTrioError
from mcptrio.ground.backoff import Backoff
from mcptrio.ground.guarded import Failure, run_guarded
from mcptrio.mounting.upstream import Upstream

__all__ = ["ResourceWatcher"]

_log = logging.getLogger("mcptrio.mounting.resource_watcher")

MAX_WATCHED = 256
"""Resources of one mount that are watched at the same time. Changes to further ones are not reported."""
_FIRST_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 5.0
"""Seconds before a subscription that has ended or was refused is tried again. The pause doubles after each failure, up
to the maximum."""


class ResourceWatcher:
    """Watches resources of a mounted server while clients of this server are subscribed to them.

    Args:
        catalog: The catalog of the server whose clients subscribe.
        has: Returns whether a resource belongs to the mounted server.
    """

    def __init__(self, name: str, catalog: Catalog, upstream: Upstream, has: Callable[[str], bool]) -> None:
        self._name = name
        self._catalog = catalog
        self._upstream = upstream
        self._has = has
        self._watched: dict[str, trio.CancelScope] = {}

    async def run(self) -> None:
        """Watch the subscribed resources. Runs until cancelled."""
        await self._upstream.until_listed()
        subscriptions = self._catalog.subscriptions
        async with trio.open_nursery() as nursery:
            while True:
                uris = {uri for uri in subscriptions.watched() if self._has(uri)}
                # Cancelled before new ones are added, because the number is limited.
                for uri in self._watched.keys() - uris:
                    self._watched.pop(uri).cancel()
                # Sorted, so that the same resources are watched after a restart if there are too many.
                for uri in sorted(uris - self._watched.keys())[: MAX_WATCHED - len(self._watched)]:
                    scope = self._watched[uri] = trio.CancelScope()
                    nursery.start_soon(self._watch, uri, scope)
                await subscriptions.wait_changed()

    # Private

    async def _watch(self, uri: str, scope: trio.CancelScope) -> None:
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS)
        has_subscribed = False

        async def follow(client: Client) -> None:
            nonlocal has_subscribed
            async with client.subscribe([uri]) as changes:
                if has_subscribed:
                    # Changes since the previous subscription ended were not reported.
                    self._catalog.subscriptions.updated(uri)
                has_subscribed = True
                backoff.reset()
                async for change in changes:
                    if change.uri is not None:
                        self._catalog.subscriptions.updated(change.uri)

        with scope:
            while True:
                outcome = await run_guarded(self._upstream.ask, follow)
                # An exception of our own code is a bug, and is not retried.
                if isinstance(outcome, Failure) and not isinstance(outcome.error, MCPTrioError):
                    raise outcome.error
                if isinstance(outcome, Failure) and not isinstance(outcome.error, ConnectionClosed):
                    _log.info("%s: subscription to %s failed: %s", self._name, uri, outcome.error)
                # The request itself waits for the connection, so this pause only limits the retries after a refusal.
                await trio.sleep(backoff.next_pause())
