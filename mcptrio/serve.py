"""Serving: a server on stdio, over HTTP, or as an ASGI application; signals turned into an orderly end.

Called by the command line and by embedders.
The one rule: the first signal asks for an end, which is bounded; the second one is the end.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
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
    server: Server | Callable[[], Server],
    *,
    limits: MessageLimits = DEFAULT,
    shutdown: trio.Event | None = None,
    restore: bool = True,
) -> None:
    """Serve the process's standard input and output until the input ends. Opens the server.

    Args:
        server: or what makes it, called once nothing that is printed can reach standard output any more.
        shutdown: set it for an orderly end before that.
        restore: give standard input and output back afterwards; ``False`` in a process that ends then.
    """
    from mcptrio.transports.stdio import open_stdio

    async with open_stdio(limits=limits, restore=restore) as channel:
        made = server if isinstance(server, Server) else server()
        async with trio.open_nursery() as nursery:
            if shutdown is not None:
                nursery.start_soon(_stop_after, shutdown, made, nursery.cancel_scope)
            async with made.open():
                await made.serve(channel)
            nursery.cancel_scope.cancel()


async def _stop_after(shutdown: trio.Event, server: Server, scope: trio.CancelScope) -> None:
    await shutdown.wait()
    if server.is_open:
        await server.supervisor.drain()
    else:
        # A lifespan that is still being entered may take its time; those that are open are left in their order.
        scope.cancel()


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
    async with trio.open_nursery() as stopping:
        stopping.start_soon(_close_after, shutdown, server, closing, stopping.cancel_scope)
        async with server.open(), trio.open_nursery() as nursery:
            await nursery.start(app.run)
            async with trio.open_nursery() as connections:
                urls = await _listen(connections, app, _bind(host, port), closing, server.settings.timeouts.shutdown)
                task_status.started([url + path for url in urls])
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
        error = _first(group)
        assert isinstance(error, OSError)
        refused = OSError(f"cannot listen on {bind}: {error.strerror or error}")
    else:
        return urls
    raise refused


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
    trio.run(_until_signalled, lambda stop: serve_stdio(make, limits=limits, shutdown=stop, restore=False))


def run_http(server: Server, *, ready: Callable[[list[str]], None], options: dict[str, Any]) -> None:
    """Serve HTTP in a process of one's own: returns after a signal.

    Args:
        ready: called with the endpoint's URLs.
    """
    trio.run(_until_signalled, lambda stop: serve_http(server, shutdown=stop, task_status=_Ready(ready), **options))


class _Ready(trio.TaskStatus[list[str]]):
    """Calls a function where a nursery's ``start`` would return."""

    def __init__(self, ready: Callable[[list[str]], None]) -> None:
        self._ready = ready

    def started(self, value: list[str] | None = None) -> None:
        self._ready(value or [])


async def _until_signalled(serve: Callable[[trio.Event], Awaitable[None]]) -> None:
    stop = trio.Event()
    with _stopped_by_signals(stop):
        await serve(stop)


@contextmanager
def _stopped_by_signals(stop: trio.Event) -> Iterator[None]:
    """The first signal sets ``stop``.

    Trio's own receiver hears a signal when the event loop gets round to it. The second one is there for the case that
    it does not: a plugin that blocks it, or an end that hangs in a shielded wait.
    """
    token = trio.lowlevel.current_trio_token()
    asked: list[int] = []

    def receive(number: int, _frame: object) -> None:
        if asked:
            os._exit(128 + number)
        asked.append(number)
        token.run_sync_soon(ask, number)

    def ask(number: int) -> None:
        _log.info("%s: stopping", signal.Signals(number).name)
        stop.set()

    before = {number: signal.signal(number, receive) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
        bus=server.bus,
        path=path,
        hosts=HostPolicy.for_bind(host, allow_hosts),
        origins=OriginPolicy.with_loopback(allow_origins),
        limits=limits,
        authenticate=authenticate,
    )
