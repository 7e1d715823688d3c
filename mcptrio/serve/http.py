"""A server over HTTP, on sockets of its own.

Called by the command line and by embedders.
The one rule: whatever happens, the end takes no longer than the server's shutdown timeout and :data:`HTTP_GRACE`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from mcptrio.runtime.nurseries import first_of
from mcptrio.serve.http_options import HTTPOptions, make_http_app
from mcptrio.server import Server

if TYPE_CHECKING:
    from mcptrio.transports.http.app import HTTPApp

__all__ = ["HTTP_GRACE", "serve_http"]

HTTP_GRACE = 1.0
"""Seconds the HTTP server gets after the requests have ended, for closing its connections."""


async def serve_http(
    server: Server,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    options: HTTPOptions | None = None,
    shutdown: trio.Event | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve HTTP until ``shutdown`` is set or the caller is cancelled. Opens the server.

    Args:
        port: 0 takes a free one.
        task_status: started with the URLs of the endpoint.

    Raises:
        OSError: the address cannot be bound.
    """
    options = options or HTTPOptions()
    shutdown = trio.Event() if shutdown is None else shutdown
    app = make_http_app(server, options, host=host)
    closing = trio.Event()
    async with trio.open_nursery() as stopping:
        stopping.start_soon(_close_after, shutdown, server, closing, stopping.cancel_scope)
        async with server.open(), trio.open_nursery() as nursery:
            await nursery.start(app.run)
            async with trio.open_nursery() as connections:
                urls = await _listen(connections, app, _bind(host, port), closing, server.settings.timeouts.shutdown)
                task_status.started([url + options.path for url in urls])
                await closing.wait()
                await server.supervisor.drain()
                connections.cancel_scope.deadline = trio.current_time() + HTTP_GRACE
            nursery.cancel_scope.cancel()
        stopping.cancel_scope.cancel()


async def _close_after(shutdown: trio.Event, server: Server, closing: trio.Event, scope: trio.CancelScope) -> None:
    await shutdown.wait()
    closing.set()
    if not server.is_open:
        scope.cancel()


async def _listen(
    connections: trio.Nursery, app: HTTPApp, bind: str, closing: trio.Event, shutdown_timeout: float
) -> list[str]:
    """Start accepting. Returns the URLs.

    Raises:
        OSError: the address cannot be bound.
    """
    from mcptrio.transports.http.hypercorn import serve

    accept = partial(serve, app, bind=bind, shutdown=closing, shutdown_timeout=shutdown_timeout + HTTP_GRACE)
    try:
        urls: list[str] = await connections.start(accept)
    except* OSError as group:
        error = first_of(group)
        assert isinstance(error, OSError)
        refused = OSError(f"cannot listen on {bind}: {error.strerror or error}")
    else:
        return urls
    raise refused


def _bind(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
