"""A server as an ASGI application inside somebody else's.

Called by embedders.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from mcptrio.errors import PluginError, StoreFailed
from mcptrio.ground.expected import expect
from mcptrio.ground.nurseries import first_of
from mcptrio.serve.http_options import HTTPOptions, make_http_app, open_http_app
from mcptrio.server import Server

__all__ = ["ServerApp", "asgi_app"]


def asgi_app(server: Server, options: HTTPOptions | None = None) -> ServerApp:
    """The server as an ASGI application, to be mounted inside another one on Trio.

    It must run while it is used: either whoever serves it speaks ASGI's lifespan protocol with it, or the application
    around it enters ``async with app.running():``.
    """
    expect(server, Server, "asgi_app: server")
    return ServerApp(server, expect(options or HTTPOptions(), HTTPOptions, "asgi_app: options"))


class ServerApp:
    """What :func:`asgi_app` returns."""

    def __init__(self, server: Server, options: HTTPOptions) -> None:
        self._server = server
        self._options = options
        self._closed = make_http_app(server, options)
        """Answers while the server is not open: that it is not ready."""
        self._app = self._closed

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ServerApp]:
        """The server open, and its HTTP sessions alive.

        Raises:
            StoreFailed: the store of the options cannot be opened.
        """
        async with (
            open_http_app(self._server, self._options) as app,
            self._server.open(),
            trio.open_nursery() as nursery,
        ):
            await nursery.start(app.run)
            self._app = app
            try:
                yield self
            finally:
                self._app = self._closed
            nursery.cancel_scope.cancel()

    async def __call__(
        self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return
        await receive()
        try:
            async with self.running():
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except* (PluginError, StoreFailed) as group:
            # A plugin's only where the server is strict. An exception would mean "no lifespan here", and be served
            # without us.
            await send({"type": "lifespan.startup.failed", "message": str(first_of(group))})
        else:
            await send({"type": "lifespan.shutdown.complete"})
