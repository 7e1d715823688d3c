"""An HTTP/1.1 and WebSocket server on Trio for any ASGI application.

This module listens, checks the deadlines of connections, and shuts down. :mod:`mcptrio.http.engine.engine` has the
shared state, and :mod:`mcptrio.http.engine.connection` one connection. An error in a connection ends only that
connection.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import trio
from attrs import frozen

from mcptrio.abc import ASGIApp
from mcptrio.http.client_address import Proxies
from mcptrio.http.engine.connection import HTTPConnection
from mcptrio.http.engine.engine import HTTPEngine
from mcptrio.http.engine.lifespan import open_lifespan
from mcptrio.http.engine.limits import LOG, ConnectionLimits
from mcptrio.http.engine.wire import PlainWire, TLSWire, Wire
from mcptrio.transports.listeners import AcceptedSocket, ConnectionListener
from mcptrio.transports.sockets import ListeningSockets, listen

__all__ = ["ConnectionLimits", "HTTP2Handler", "run_engine", "serve_asgi"]


_POLL_INTERVAL: Final = 1.0
"""Seconds between two checks of the deadlines; less if a limit is shorter."""


async def serve_asgi(
    app: ASGIApp,
    *,
    bind: str | Sequence[str] = "127.0.0.1:8000",
    tls: ssl.SSLContext | None = None,
    shutdown: trio.Event | None = None,
    shutdown_timeout: float = 3.0,
    limits: ConnectionLimits | None = None,
    access_log: bool = False,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve an ASGI application until ``shutdown`` is set, then let running requests finish.

    Args:
        bind: ``HOST:PORT``, ``unix:PATH`` or ``fd:NUMBER``; several of them listen on several addresses.
        shutdown: Set this event to stop gracefully. A cancellation stops at once, without the lifespan's shutdown.
        shutdown_timeout: Seconds for running requests after ``shutdown``. Then their connections are cut.
        access_log: True if each request is logged to ``mcptrio.http.access``, at level INFO.
        task_status: Started with the URLs, in the order of ``bind``.

    Raises:
        OSError: An address cannot be bound.
    """
    await run_engine(
        app,
        bind=bind,
        tls=tls,
        shutdown=shutdown,
        shutdown_timeout=shutdown_timeout,
        limits=limits,
        access_log=access_log,
        task_status=task_status,
    )


async def run_engine(
    app: ASGIApp,
    *,
    bind: str | Sequence[str] = "127.0.0.1:8000",
    tls: ssl.SSLContext | None = None,
    leaving: trio.Event | None = None,
    pause: Callable[[int], float] | None = None,
    proxies: Proxies | None = None,
    shutdown: trio.Event | None = None,
    shutdown_timeout: float = 3.0,
    limits: ConnectionLimits | None = None,
    access_log: bool = False,
    http2: HTTP2Handler | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve like :func:`serve_asgi`, with other processes on the same sockets, behind proxies, or with HTTP/2.

    Args:
        leaving: Set this event before ``shutdown`` if other processes accept from the same sockets. Then this process
            accepts no more connections, and closes each open one after its next response.
        pause: Gets the number of open connections, and returns the seconds to wait before the next one is accepted, so
            that other processes can accept it from the same sockets.
        proxies: The proxies. Each may have more connections than the share of one address, because it has many clients.
        http2: Serves the connections whose TLS handshake has chosen HTTP/2 (ALPN ``h2``). ``tls`` must offer it.

    Raises:
        OSError: An address cannot be bound.
    """
    leaving = trio.Event() if leaving is None else leaving
    shutdown = trio.Event() if shutdown is None else shutdown
    engine = HTTPEngine(app, limits or ConnectionLimits(), proxies or Proxies(), access_log=access_log)
    engine.http2 = http2
    listening: list[ListeningSockets] = []
    try:
        for address in [bind] if isinstance(bind, str) else bind:
            # One by one, so that the first is closed if the second cannot be bound. Hypercorn and gunicorn write fd://N.
            listening += [listen(address.replace("fd://", "fd:"))]
        async with open_lifespan(app, engine.state):
            stopping = _Shutdown(leaving=leaving, shutdown=shutdown, timeout=shutdown_timeout)
            await _Server(engine, tls, pause).run(listening, stopping, task_status)
    finally:
        engine.write_logs(is_end=True)
        for each in listening:
            each.close()


HTTP2Handler: TypeAlias = Callable[[HTTPConnection], Awaitable[None]]
"""Serves a connection until it ends, and handles the exceptions that a client can cause."""


@frozen
class _Shutdown:
    """The events that stop the server, and the seconds for running requests."""

    leaving: trio.Event
    shutdown: trio.Event
    timeout: float

    async def wait_begun(self) -> None:
        """Wait until ``leaving`` or ``shutdown`` is set."""
        async with trio.open_nursery() as nursery:

            async def watch(event: trio.Event) -> None:
                await event.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch, self.leaving)
            nursery.start_soon(watch, self.shutdown)


class _Server:
    """The listeners and the connections of one engine."""

    def __init__(self, engine: HTTPEngine, tls: ssl.SSLContext | None, pause: Callable[[int], float] | None) -> None:
        self._engine = engine
        self._tls = tls
        self._pause = pause
        self._connections: set[HTTPConnection] = set()
        self._empty = trio.Event()

    async def run(
        self,
        listening: Sequence[ListeningSockets],
        stopping: _Shutdown,
        task_status: trio.TaskStatus[list[str]],
    ) -> None:
        scheme = "https" if self._tls else "http"
        urls = [f"{scheme}://{name}" for each in listening for name in each.names]
        async with trio.open_nursery() as nursery:
            self._engine.nursery = nursery
            nursery.start_soon(self._expire_connections)
            # Accepting has its own nursery, because it stops before the connections do.
            async with trio.open_nursery() as accepting:
                sockets = [
                    ConnectionListener(sock, LOG, wait_turn=self._wait_turn, make_room=self._engine.admission.make_room)
                    for each in listening
                    for sock in each.sockets
                ]
                accepting.start_soon(partial(trio.serve_listeners, self._handle, sockets, handler_nursery=nursery))
                for url in urls:
                    LOG.info("listening on %s", url)
                task_status.started(urls)
                await stopping.wait_begun()
                accepting.cancel_scope.cancel()
            for each in listening:
                # Closed before draining, so that a load balancer or another process gets the new connections.
                each.close()
            # From now on a connection ends with its next response. An idle connection stays open until `shutdown`.
            self._engine.is_draining = True
            await stopping.shutdown.wait()
            await self._drain(stopping.timeout)
            nursery.cancel_scope.cancel()

    async def _wait_turn(self) -> None:
        """Before accepting a connection, wait if other processes have fewer connections."""
        if self._pause is not None and (seconds := self._pause(len(self._connections))):
            await trio.sleep(seconds)

    async def _expire_connections(self) -> None:
        """End connections and waits whose deadline has passed, and write the access log."""
        # One task checks all connections a few times a second, which is cheaper than a deadline for every read.
        limits = self._engine.limits
        shortest = min(
            limits.header_timeout,
            limits.body_timeout,
            limits.keepalive_timeout,
            limits.write_timeout,
            limits.tls_timeout,
            limits.ping_interval,
        )
        pause = min(_POLL_INTERVAL, shortest / 4)
        while True:
            await trio.sleep(pause)
            now = trio.current_time()
            for connection in tuple(self._connections):
                try:
                    connection.expire(now)
                except Exception:  # a bug of ours must not reach the other connections
                    LOG.exception("a connection was closed after an error")
                    connection.cut()
            self._engine.write_logs()

    async def _drain(self, timeout: float) -> None:
        """Wait at most ``timeout`` seconds for the connections to close, then cut the rest."""
        self._engine.is_draining = self._engine.is_ending = True
        for connection in tuple(self._connections):
            connection.end_if_idle()
        if self._connections:
            with trio.move_on_after(timeout):
                await self._empty.wait()
        for connection in tuple(self._connections):
            connection.cut()

    def _handle(self, accepted: AcceptedSocket) -> Awaitable[object]:
        """Return the awaitable that serves a connection to its end."""
        # This function is not async, because each read would then pass through its frame.
        try:
            connection = self._connect(accepted)
        except Exception:  # a bug of ours must not reach the other connections
            self._engine.log_failure(_address(accepted.peer))
            connection = None
        if connection is None:
            return trio.lowlevel.checkpoint()  # noqa: ASYNC105 - Trio awaits it
        return self._engine.serve(connection.run, connection.client, partial(self._leave, connection))

    def _connect(self, accepted: AcceptedSocket) -> HTTPConnection | None:
        """Return the new connection; ``None`` if the server refuses it or the client has disconnected."""
        sock = accepted.sock
        wire: Wire = PlainWire(sock) if self._tls is None else TLSWire(sock, self._tls)
        try:
            address = sock.getsockname()
        except OSError:  # the client has disconnected
            wire.cut()
            return None
        client = _address(accepted.peer)
        admission = self._engine.admission
        owner = admission.owner_of(client)
        if not admission.has_room(owner):
            # Over TLS, a refusal would need a handshake, for which the server has no room.
            if self._tls is None:
                wire.send_now(self._engine.error(503))
                wire.half_close()
            wire.cut()
            return None
        connection = HTTPConnection(self._engine, wire, client, _address(address))
        self._connections.add(connection)
        admission.enter(connection, owner)
        return connection

    def _leave(self, connection: HTTPConnection) -> None:
        self._connections.discard(connection)
        self._engine.admission.leave(connection)
        if self._engine.is_draining and not self._connections:
            self._empty.set()


def _address(name: Any) -> tuple[str, int] | tuple[str, None] | None:
    """Return an address as in ASGI: host and port, or the path of a Unix socket; ``None`` if it has no name."""
    if isinstance(name, tuple):
        return (name[0], name[1])
    return (name, None) if isinstance(name, str) and name else None
