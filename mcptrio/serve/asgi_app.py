"""A server as an ASGI application, for mounting in another application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from mcptrio.errors import PluginError
from mcptrio.ground.expected import expect
from mcptrio.ground.nurseries import first_exception
from mcptrio.serve.http_options import HTTPOptions, make_http_app
from mcptrio.server import Server

__all__ = ["ServerApp", "asgi_app"]


def asgi_app(server: Server, options: HTTPOptions | None = None) -> ServerApp:
    """Return the server as an ASGI application, for mounting in another application on Trio.

    The server must be open while the application is used: either the HTTP server runs ASGI's lifespan protocol with it,
    or the surrounding application enters ``async with app.running():``.

    Args:
        options: Paths, limits and authentication of the endpoint.
    """
    expect(server, Server, "asgi_app: server")
    return ServerApp(server, expect(options or HTTPOptions(), HTTPOptions, "asgi_app: options"))


class ServerApp:
    """The ASGI application of a server. Made by :func:`asgi_app`."""

    def __init__(self, server: Server, options: HTTPOptions) -> None:
        self._server = server
        self._options = options
        # Responds while the server is not open: 503, not ready.
        self._closed = make_http_app(server, options)
        self._app = self._closed

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ServerApp]:
        """Open the server, and keep its HTTP sessions alive during the block."""
        app = make_http_app(self._server, self._options)
        async with self._server.open(), trio.open_nursery() as nursery:
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
        except* PluginError as group:
            # Only a strict server raises PluginError. ASGI takes an exception for "no lifespan support", and the HTTP
            # server would continue without the server.
            await send({"type": "lifespan.startup.failed", "message": str(first_exception(group))})
        else:
            await send({"type": "lifespan.shutdown.complete"})
