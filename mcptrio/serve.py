"""Serving: a server on stdio, over HTTP, or as an ASGI application; signals turned into an orderly end.

Called by the command line and by embedders.
The one rule: the first signal asks for an end, which is bounded; the second one is the end.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from mcptrio.abc import EventStore, SessionStore
from mcptrio.errors import PluginError
from mcptrio.protocol.jsonrpc import DEFAULT
from mcptrio.protocol.jsonrpc import Limits as MessageLimits
from mcptrio.server import Server

if TYPE_CHECKING:
    from mcptrio.transports.http.app import Authenticate, HTTPApp
    from mcptrio.transports.http.exchange import HTTPLimits

__all__ = ["asgi_app", "run_http", "run_stdio", "serve_http", "serve_stdio"]

_log = logging.getLogger("mcptrio.serve")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
HTTP_GRACE = 1.0
"""Seconds the HTTP server gets after the requests have ended, for closing its connections."""


async def serve_stdio(
    server: Server | Callable[[], Server], *, limits: MessageLimits = DEFAULT, shutdown: trio.Event | None = None
) -> None:
    """Serve the process's standard input and output until the input ends. Opens the server.

    Args:
        server: or what makes it, called once nothing that is printed can reach standard output any more.
        shutdown: set it for an orderly end before that.
    """
    from mcptrio.transports.stdio import open_stdio

    async with open_stdio(limits=limits) as channel:
        made = server if isinstance(server, Server) else server()
        async with made.open(), trio.open_nursery() as nursery:
            if shutdown is not None:
                nursery.start_soon(_drain_after, shutdown, made)
            await made.serve(channel)
            nursery.cancel_scope.cancel()


async def _drain_after(shutdown: trio.Event, server: Server) -> None:
    await shutdown.wait()
    await server.supervisor.drain()


async def serve_http(
    server: Server,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    path: str = "/mcp",
    allow_hosts: Sequence[str] = (),
    allow_origins: Sequence[str] = (),
    limits: HTTPLimits | None = None,
    sessions: SessionStore | None = None,
    events: EventStore | None = None,
    shutdown: trio.Event | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve HTTP until ``shutdown`` is set or the caller is cancelled. Opens the server.

    Args:
        port: 0 takes a free one.
        allow_hosts: names that ``Host`` may carry beside those of this machine; ``*`` for any.
        allow_origins: web pages that may call; ``*`` for any.
        task_status: started with the URLs of the endpoint.

    Raises:
        OSError: the address cannot be bound.
    """
    from mcptrio.transports.http.hypercorn import serve

    shutdown = trio.Event() if shutdown is None else shutdown
    app = _http_app(
        server,
        host=host,
        path=path,
        allow_hosts=allow_hosts,
        allow_origins=allow_origins,
        limits=limits,
        sessions=sessions,
        events=events,
        authenticate=None,
    )
    closing = trio.Event()
    grace = server.settings.timeouts.shutdown + HTTP_GRACE
    async with server.open(), trio.open_nursery() as nursery:
        await nursery.start(app.run)
        async with trio.open_nursery() as connections:
            urls: list[str] = await connections.start(
                partial(serve, app, bind=_bind(host, port), shutdown=closing, shutdown_timeout=grace)
            )
            task_status.started([url + path for url in urls])
            await shutdown.wait()
            closing.set()
            await server.supervisor.drain()
            connections.cancel_scope.deadline = trio.current_time() + HTTP_GRACE
        nursery.cancel_scope.cancel()


def asgi_app(
    server: Server,
    *,
    path: str = "/mcp",
    allow_hosts: Sequence[str] = (),
    allow_origins: Sequence[str] = (),
    limits: HTTPLimits | None = None,
    sessions: SessionStore | None = None,
    events: EventStore | None = None,
    authenticate: Authenticate | None = None,
) -> Mounted:
    """The server as an ASGI application, to be mounted inside another one on Trio.

    It must run while it is used: either whoever serves it speaks ASGI's lifespan protocol with it, or the application
    around it enters ``async with app.running():``.

    Args:
        authenticate: from a request's headers to its principal.
    """
    app = _http_app(
        server,
        host="127.0.0.1",
        path=path,
        allow_hosts=allow_hosts,
        allow_origins=allow_origins,
        limits=limits,
        sessions=sessions,
        events=events,
        authenticate=authenticate,
    )
    return Mounted(server, app)


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
            await send({"type": "lifespan.startup.failed", "message": str(_first(group))})
        else:
            await send({"type": "lifespan.shutdown.complete"})


def run_stdio(make: Callable[[], Server], *, limits: MessageLimits = DEFAULT) -> None:
    """Serve stdio in a process of one's own: returns at the end of the input, or after a signal.

    Args:
        make: makes the server, once the descriptors are guarded: what plugins print while they are imported must not
            end up among the messages.
    """
    trio.run(_until_signalled, lambda stop: serve_stdio(make, limits=limits, shutdown=stop))


def run_http(server: Server, *, ready: Callable[[list[str]], None], options: dict[str, Any]) -> None:
    """Serve HTTP in a process of one's own: returns after a signal.

    Args:
        ready: called with the endpoint's URLs.
    """

    async def serve(stop: trio.Event) -> None:
        async with trio.open_nursery() as nursery:
            ready(await nursery.start(_started_http, server, stop, options))

    trio.run(_until_signalled, serve)


async def _started_http(
    server: Server, stop: trio.Event, options: dict[str, Any], *, task_status: trio.TaskStatus[list[str]]
) -> None:
    await serve_http(server, shutdown=stop, task_status=task_status, **options)


async def _until_signalled(serve: Callable[[trio.Event], Awaitable[None]]) -> None:
    stop = trio.Event()
    with trio.open_signal_receiver(*_SIGNALS) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch, signals, stop)
            await serve(stop)
            nursery.cancel_scope.cancel()


async def _watch(signals: AsyncIterator[int], stop: trio.Event) -> None:
    asked = False
    async for number in signals:
        if asked:
            # Whatever holds the orderly end up, a shielded wait included, is not waited for a second time.
            os._exit(128 + number)
        asked = True
        _log.info("%s: stopping", signal.Signals(number).name)
        stop.set()


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _bind(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _http_app(
    server: Server,
    *,
    host: str,
    path: str,
    allow_hosts: Sequence[str],
    allow_origins: Sequence[str],
    limits: HTTPLimits | None,
    sessions: SessionStore | None,
    events: EventStore | None,
    authenticate: Authenticate | None,
) -> HTTPApp:
    from mcptrio.stores.memory import MemoryEventStore, MemorySessionStore
    from mcptrio.transports.http.app import HTTPApp
    from mcptrio.transports.http.origins import HostPolicy, OriginPolicy

    return HTTPApp(
        server.supervisor,
        sessions=sessions or MemorySessionStore(),
        events=events or MemoryEventStore(),
        path=path,
        hosts=HostPolicy.for_bind(host, allow_hosts),
        origins=OriginPolicy.with_loopback(allow_origins),
        limits=limits,
        authenticate=authenticate,
    )
