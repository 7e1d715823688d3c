"""A server as an ASGI application inside somebody else's.

Called by embedders.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from mcptrio.errors import PluginError
from mcptrio.runtime.nurseries import first_of
from mcptrio.serve.http_options import HTTPOptions, make_http_app
from mcptrio.server import Server

if TYPE_CHECKING:
    from mcptrio.transports.http.app import HTTPApp

__all__ = ["Mounted", "asgi_app"]


def asgi_app(server: Server, options: HTTPOptions | None = None) -> Mounted:
    """The server as an ASGI application, to be mounted inside another one on Trio.

    It must run while it is used: either whoever serves it speaks ASGI's lifespan protocol with it, or the application
    around it enters ``async with app.running():``.
    """
    return Mounted(server, make_http_app(server, options or HTTPOptions()))


class Mounted:
    """What :func:`asgi_app` returns."""

    def __init__(self, server: Server, app: HTTPApp) -> None:
        self._server = server
        self._app = app

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Mounted]:
        """The server open, and its HTTP sessions alive."""
        async with self._server.open(), trio.open_nursery() as nursery:
            await nursery.start(self._app.run)
            yield self
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
            # Only where the server is strict. An exception would mean "no lifespan here", and be served without us.
            await send({"type": "lifespan.startup.failed", "message": str(first_of(group))})
        else:
            await send({"type": "lifespan.shutdown.complete"})
