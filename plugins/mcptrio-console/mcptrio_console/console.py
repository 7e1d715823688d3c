"""The console of a server as an ASGI application, which is opened and closed with the server."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import trio

from mcptrio import Server
from mcptrio.abc import ASGIApp
from mcptrio.serving import ConsoleOptions

from .access import ConsoleAccess
from .log_records import LogRecords
from .samples import Samples

__all__ = ["ServerConsole", "make_console"]


def make_console(server: Server, options: ConsoleOptions) -> ServerConsole:
    """Return the console of a server."""
    return ServerConsole(server, options)


class ServerConsole:
    """An ASGI application for ``/console`` and the paths below it. Until it is open, each response is a 503."""

    def __init__(self, server: Server, options: ConsoleOptions) -> None:
        self._server = server
        self._options = options
        self._app: ASGIApp | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Watch the server, collect its log records, and answer requests during the block."""
        options = self._options
        access = ConsoleAccess(lambda token: options.announce(f"/console/?token={token}"), options.guard, options.scope)
        samples = Samples()
        records = LogRecords(options.request_of)
        with ExitStack() as stack:
            root = logging.getLogger()
            root.addHandler(records)
            stack.callback(root.removeHandler, records)
            stack.callback(self._server.add_observer(samples))
            async with trio.open_nursery() as nursery:
                # In a thread, because importing Quart takes a third of a second.
                make_web = await trio.to_thread.run_sync(_import_web)
                self._app, run = make_web(self._server, options, access, samples, records)
                nursery.start_soon(run)
                access.renew_link()
                try:
                    yield
                finally:
                    self._app = None
                    nursery.cancel_scope.cancel()

    async def __call__(self, scope: Any, receive: Any, send: Any, /) -> None:
        """Answer a request."""
        app = self._app
        if app is None:
            headers = [(b"content-type", b"text/plain"), (b"retry-after", b"1")]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body", "body": b"the console is not open"})
            return
        await app(scope, receive, send)


def _import_web() -> Any:
    from .assembly import assemble

    return assemble
