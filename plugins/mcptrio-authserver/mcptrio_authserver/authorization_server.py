"""The authorization server as an ASGI application and as part of the plugin.

The plugin hooks register it; it also runs alone on any ASGI server: ``async with server.open(): ...``. While it is not
open, it answers every request with 503.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import trio

from mcptrio import PluginSetup, hookimpl, lifespan
from mcptrio.abc import ASGIApp, Fetch
from mcptrio.errors import StoreFailed

from .config import Config

if TYPE_CHECKING:
    from .ledger import Store

__all__ = ["AuthorizationServer"]

# Seconds between two deletions of expired records.
_EXPIRY_INTERVAL: Final = 60.0

_log = logging.getLogger("mcptrio.authserver")


class AuthorizationServer:
    """The authorization server.

    Args:
        config: The settings, with an issuer.
        fetch: Sends requests to other servers; by default with protection against requests to internal addresses
            (SSRF).
        clock: Returns seconds since 1970.
    """

    def __init__(self, config: Config, *, fetch: Fetch | None = None, clock: Callable[[], float] = time.time) -> None:
        if not config.issuer:
            raise ValueError("issuer: expected the URL of this server, got none")
        self.config = config
        self._fetch = fetch
        self._clock = clock
        self._app: ASGIApp | None = None
        self._store: Store | None = None

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        """Register the routes, and the background task that deletes expired records."""
        for path in self.config.addresses.routes:
            server.add_route(path, self)
        server.add_background(self.delete_expired)

    @lifespan
    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Open the store and create the application.

        Raises:
            StoreFailed: The file or the database cannot be used.
            ConfigError: The file of users cannot be read, or the settings of the database are invalid.
        """
        from .outgoing_requests import OutgoingRequests
        from .service import Service
        from .store_opening import open_store, user_directory
        from .web import make_app

        async with open_store(self.config.folder, self.config.ledger, clock=self._clock) as store:
            directory = user_directory(self.config.folder, self.config.ledger, store)
            await directory.users()
            outgoing = OutgoingRequests(
                self.config,
                store,
                fetch=self._fetch or _make_fetch(self.config),
                fetch_named=self._fetch or _make_fetch(self.config, named=True),
                clock=self._clock,
            )
            service = Service(self.config, store, directory, outgoing, self._clock)
            # In a thread, because importing Quart and its dependencies takes a third of a second.
            self._app = await trio.to_thread.run_sync(make_app, service)
            self._store = store
            try:
                yield
            finally:
                self._app = self._store = None

    async def delete_expired(self) -> None:
        """Delete expired records once a minute, until cancelled."""
        while True:
            await trio.sleep(_EXPIRY_INTERVAL)
            if self._store is not None:
                try:
                    while await self._store.delete_expired():
                        pass
                except StoreFailed as error:
                    _log.error("%s", error)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle an ASGI request."""
        app = self._app
        if app is None:
            body = b'{"error":"temporarily_unavailable","error_description":"the server is not open"}'
            headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store"), (b"retry-after", b"5")]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return
        await app(scope, receive, send)


def _make_fetch(config: Config, *, named: bool = False) -> Fetch:
    """Return a Fetch that is limited to allowed addresses.

    Args:
        named: True to allow the URLs that the operator configured, wherever they are.
    """
    from mcptrio.net import AddressPolicy, Fetcher

    origins: list[str] = []
    if named:
        for trusted in config.trusted_issuers.values():
            origins += [trusted.issuer, *([trusted.jwks_uri] if trusted.jwks_uri is not None else [])]
        origins += [client.jwks_uri for client in config.clients.values() if client.jwks_uri is not None]
        origins += [config.upstream.issuer] if config.upstream is not None else []
    local = not config.addresses.is_https
    return Fetcher(AddressPolicy(loopback=local, private=config.private_networks, origins=frozenset(origins)))
