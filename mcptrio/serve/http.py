"""A server over HTTP on its own sockets.

The command line and embedding programs call it.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio
from attrs import frozen

from mcptrio.abc import Engine
from mcptrio.ground.expected import expect
from mcptrio.ground.nurseries import first_exception, open_hidden_nursery, require_trio
from mcptrio.serve.http_options import HTTPOptions, make_http_app
from mcptrio.serve.transport import CLOSE_TIMEOUT, serve_transport, serving_block
from mcptrio.server import Server

if TYPE_CHECKING:
    from mcptrio.http.server.app import HTTPApp

__all__ = ["HTTPSockets", "over_http", "serve_http"]


@frozen(kw_only=True)
class HTTPSockets:
    """The sockets of an HTTP server that needs more than a host and a port.

    Args:
        bind: Addresses in place of host and port: ``host:port``, ``[v6]:port``, ``unix:/path``, ``fd://N``.
        tls: A context for HTTPS, for example from :class:`mcptrio.serve.tls.Certificates`.
        leaving: Set it some time before ``shutdown`` if other processes accept from the same sockets. Then the server
            accepts no more connections, still serves requests, and closes each connection after its next response.
        pause: A function called with the number of connections. It returns the seconds to wait before accepting the
            next one, so that other processes can accept it from the same sockets.
    """

    bind: Sequence[str] = ()
    tls: ssl.SSLContext | None = None
    leaving: trio.Event | None = None
    pause: Callable[[int], float] | None = None


@asynccontextmanager
async def over_http(
    server: Server, *, host: str = "127.0.0.1", port: int = 8000, options: HTTPOptions | None = None
) -> AsyncIterator[list[str]]:
    """Open the server and serve it over HTTP during the block.

    At the end of the block, the server accepts no more connections. Requests in flight have the server's shutdown
    timeout; a second later the connections are closed.

    Args:
        host: The address to listen on, which is also accepted in ``Host``.
        port: The port, up to 65535; 0 selects a free one.
        options: Paths, limits and authentication of the endpoint.

    Returns:
        The URLs of the endpoint.

    Raises:
        OSError: The address cannot be bound.
    """
    require_trio("over_http")
    expect(server, Server, "over_http: server")
    expect(options or HTTPOptions(), HTTPOptions, "over_http: options")
    async with serving_block(partial(serve_http, server, host=host, port=port, options=options)) as urls:
        yield urls


async def serve_http(
    server: Server,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    sockets: HTTPSockets | None = None,
    options: HTTPOptions | None = None,
    shutdown: trio.Event | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve HTTP until ``shutdown`` is set or the caller is cancelled. Opens the server.

    Shutting down takes at most the server's shutdown timeout, a second for closing, and ``shutdown_delay``.

    Args:
        host: A name of this server, accepted in ``Host`` even if ``sockets`` has other addresses.
        port: The port, up to 65535; 0 selects a free one.
        sockets: The sockets, if host and port are not enough.
        options: Paths, limits and authentication of the endpoint.
        shutdown: Set it to stop.
        task_status: Started with the URLs of the endpoint.

    Raises:
        OSError: The address cannot be bound.
    """
    require_trio("serve_http")
    options = options or HTTPOptions()
    sockets = sockets or HTTPSockets()
    shutdown = trio.Event() if shutdown is None else shutdown
    bind = list(sockets.bind) or [_bind(host, port)]
    closing = trio.Event()

    async def serve(engine: Engine, *, stopping: trio.Event, task_status: trio.TaskStatus[list[str]]) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(app.run)
            nursery.start_soon(_report_unready, app, shutdown)
            async with trio.open_nursery() as connections:
                timeout = server.settings.timeouts.shutdown
                urls = await _listen(connections, app, bind, sockets, stopping, options, timeout)
                task_status.started([url + options.path for url in urls])
            nursery.cancel_scope.cancel()

    async with open_hidden_nursery() as nursery:
        nursery.start_soon(_close_after, shutdown, server, closing, options.shutdown_delay, sockets.leaving)
        app = make_http_app(server, options, host=host)
        await serve_transport(server, serve, shutdown=closing, task_status=task_status)
        nursery.cancel_scope.cancel()


async def _close_after(
    shutdown: trio.Event, server: Server, closing: trio.Event, delay: float, leaving: trio.Event | None
) -> None:
    await shutdown.wait()
    # A worker that is being replaced needs no delay: its successor accepts from the same socket.
    if server.is_open and not (leaving is not None and leaving.is_set()):
        # During the delay the server still serves and reports that it is not ready, so load balancers stop sending
        # requests.
        await trio.sleep(delay)
    closing.set()


async def _report_unready(app: HTTPApp, shutdown: trio.Event) -> None:
    await shutdown.wait()
    app.announce_stop()


async def _listen(
    connections: trio.Nursery,
    app: HTTPApp,
    bind: list[str],
    sockets: HTTPSockets,
    closing: trio.Event,
    options: HTTPOptions,
    shutdown_timeout: float,
) -> list[str]:
    """Start accepting connections; return the URLs.

    Raises:
        OSError: The address cannot be bound.
    """
    # Imported here, so commands that do not serve HTTP start faster.
    from mcptrio.http.client_address import Proxies
    from mcptrio.http.engine.limits import ConnectionLimits
    from mcptrio.http.engine.server import HTTP2Handler, run_engine
    from mcptrio.transports.descriptor_limit import raise_limit

    http2: HTTP2Handler | None = None
    if options.http2:
        from mcptrio.http.hypercorn.connection import serve_http2 as http2
    # Each connection needs a descriptor, and the usual soft limit is 1024.
    raise_limit(options.connections)
    accept = partial(
        run_engine,
        app,
        limits=ConnectionLimits(
            connections=options.connections,
            header_bytes=options.header_bytes,
            body_timeout=options.body_timeout,
            write_timeout=options.write_timeout,
            message_bytes=options.message.bytes,
        ),
        bind=bind,
        tls=sockets.tls,
        leaving=sockets.leaving,
        shutdown=closing,
        shutdown_timeout=shutdown_timeout + CLOSE_TIMEOUT,
        access_log=options.access_log,
        pause=sockets.pause,
        proxies=Proxies.of(options.forwarded),
        http2=http2,
    )
    try:
        urls: list[str] = await connections.start(accept)
    except* OSError as group:
        error = first_exception(group)
        assert isinstance(error, OSError)
        refused = OSError(str(error))
    else:
        return urls
    raise refused


def _bind(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
