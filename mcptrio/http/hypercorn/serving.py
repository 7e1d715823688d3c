"""Hypercorn on Trio, hardened: serves any ASGI application on sockets, and outlives what is sent to it.

Called by whoever serves HTTP; knows nothing of MCP. Stock Hypercorn 0.18 lets an exception of one connection end the
server (five single malformed inputs do it), blocks for ever on a peer that stops reading, speaks HTTP/2 to anybody who
asks on the plain port, and starts a task for each idle timeout. The connection itself is in
:mod:`mcptrio.http.hypercorn.connection`; here are the listeners, the limits and the end.
The one rule: a connection can only harm itself.

Source: hypercorn 0.18 ``trio/run.py``; its issues #225, #310, #329, #361.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.lifespan import Lifespan
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ASGIFramework, LifespanState
from hypercorn.utils import repr_socket_addr

from mcptrio.abc import ASGIApp
from mcptrio.http.engine.limits import LOG, ConnectionLimits
from mcptrio.http.hypercorn.config import ServerConfig
from mcptrio.http.hypercorn.connection import Connection
from mcptrio.transports.accepting import StreamAccepting
from mcptrio.transports.descriptor_limit import max_connections

__all__ = ["ConnectionLimits", "serve_asgi"]


_BACKLOG: Final = 1024
_OVERLOADED: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)


async def serve_asgi(
    app: ASGIApp,
    *,
    bind: str | Sequence[str] = "127.0.0.1:8000",
    tls: ssl.SSLContext | None = None,
    leaving: trio.Event | None = None,
    shutdown: trio.Event | None = None,
    shutdown_timeout: float = 3.0,
    limits: ConnectionLimits | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve an ASGI application until ``shutdown`` is set, then let what is running finish.

    Args:
        bind: ``host:port`` (port 0 takes a free one), ``[v6]:port``, ``unix:/path`` or ``fd://N``; several for several.
        leaving: set it some time before ``shutdown``: nothing more is accepted, and connections end with their next
            response.
        shutdown: set it for an orderly end. Cancelling this call ends it at once, without the lifespan's shutdown.
        shutdown_timeout: seconds that running requests get after ``shutdown``; then their connections are cut.
        task_status: started with the URLs, in the order of ``bind``.

    Raises:
        OSError: an address cannot be bound.
    """
    limits = limits or ConnectionLimits()
    config = ServerConfig(limits)
    config.bind = [bind] if isinstance(bind, str) else list(bind)
    server = _Server(cast(AppWrapper, ASGIWrapper(cast(ASGIFramework, app))), config, limits, tls)
    server.leaving = leaving
    await server.run(trio.Event() if shutdown is None else shutdown, shutdown_timeout, task_status)


class _Lifespan(Lifespan):
    """An application that returns from its lifespan at once has none; stock Hypercorn crashes on it."""

    async def wait_for_startup(self) -> None:
        if not self.startup.is_set():
            await super().wait_for_startup()

    async def wait_for_shutdown(self) -> None:
        if not self.shutdown.is_set():
            await super().wait_for_shutdown()


class _Server:
    def __init__(self, app: AppWrapper, config: Config, limits: ConnectionLimits, tls: ssl.SSLContext | None) -> None:
        self._app = app
        self._config = config
        self._limits = limits
        self._tls = tls
        self._max = max_connections(limits.connections)
        self._context = WorkerContext(None)
        self._state: LifespanState = {}
        self._connections: set[Connection] = set()
        self._draining = False
        self._empty = trio.Event()
        self.leaving: trio.Event | None = None

    async def run(self, shutdown: trio.Event, timeout: float, task_status: trio.TaskStatus[list[str]]) -> None:
        lifespan = _Lifespan(self._app, self._config, self._state)
        async with trio.open_nursery() as lifespan_nursery:
            await lifespan_nursery.start(lifespan.handle_lifespan)
            await lifespan.wait_for_startup()
            await self._serve(shutdown, timeout, task_status)
            await lifespan.wait_for_shutdown()
            lifespan_nursery.cancel_scope.cancel()

    async def _serve(self, shutdown: trio.Event, timeout: float, task_status: trio.TaskStatus[list[str]]) -> None:
        listeners, urls = self._listen()
        try:
            async with trio.open_nursery() as connections:
                try:
                    async with trio.open_nursery() as accepting:
                        accepting.start_soon(
                            partial(trio.serve_listeners, self._handle, listeners, handler_nursery=connections)
                        )
                        for url in urls:
                            LOG.info("serving on %s", url)
                        task_status.started(urls)
                        await self._until(shutdown)
                        accepting.cancel_scope.cancel()
                    await self._context.terminated.set()
                    await shutdown.wait()
                finally:
                    if not shutdown.is_set():
                        # Cancelled from outside. Cancellation does not reach a write in its shield; this does.
                        self._cut()
                await self._drain(timeout)
                connections.cancel_scope.cancel()
        finally:
            for path in self._unix_paths():
                path.unlink(missing_ok=True)

    async def _until(self, shutdown: trio.Event) -> None:
        """Wait until no more is to be accepted."""
        if self.leaving is None:
            await shutdown.wait()
            return
        async with trio.open_nursery() as nursery:

            async def watch(event: trio.Event) -> None:
                await event.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch, shutdown)
            nursery.start_soon(watch, self.leaving)

    async def _drain(self, timeout: float) -> None:
        """Wait until the last connection has closed, at most ``timeout`` seconds; then cut what is left."""
        self._draining = True
        try:
            await self._context.terminated.set()
            for connection in tuple(self._connections):
                connection.end_if_idle()
            if self._connections:
                with trio.move_on_after(timeout):
                    await self._empty.wait()
        finally:
            # Cancelled as well, or a peer that does not read would hold its write, and the end, up.
            self._cut()

    def _cut(self) -> None:
        for connection in tuple(self._connections):
            connection.cut()

    def _unix_paths(self) -> list[Path]:
        return [Path(bind.removeprefix("unix:")) for bind in self._config.bind if bind.startswith("unix:")]

    def _listen(self) -> tuple[list[trio.abc.Listener[Any]], list[str]]:
        listeners: list[trio.abc.Listener[Any]] = []
        urls = []
        for sock in self._config.create_sockets().insecure_sockets:
            sock.listen(_BACKLOG)
            sock.setblocking(False)
            plain = StreamAccepting(sock, LOG)
            listeners.append(trio.SSLListener(plain, self._tls, https_compatible=True) if self._tls else plain)
            scheme = "https" if self._tls else "http"
            urls.append(f"{scheme}://{repr_socket_addr(sock.family, sock.getsockname())}")
        return listeners, urls

    async def _handle(self, stream: Any) -> None:
        if len(self._connections) >= self._max:
            await self._turn_away(stream)
            return
        connection = Connection(self._app, self._config, self._context, self._state, stream, self._limits)
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)
            if self._draining and not self._connections:
                self._empty.set()

    async def _turn_away(self, stream: trio.abc.Stream) -> None:
        """Past the limit: say so, if that can be said at once."""
        with trio.move_on_after(1.0):
            try:
                if not self._tls:
                    await stream.send_all(_OVERLOADED)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
        await trio.aclose_forcefully(stream)
