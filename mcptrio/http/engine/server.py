"""HTTP/1.1 and WebSocket on Trio: serves any ASGI application on sockets, and outlives what is sent to it.

Called by whoever serves HTTP. Here are the listeners, the workers, the limits, the deadlines and the end; a connection
is in :mod:`mcptrio.http.engine.connection`.
The one rule: a connection can only harm itself.

A request costs one switch of tasks: its connection reads on, a worker that served another request before runs the
application. Deadlines are looked at a few times a second by one task, instead of being set and cleared for each read.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextvars import Context, copy_context
from email.utils import formatdate
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import trio
from attrs import frozen

from mcptrio.abc import ASGIApp
from mcptrio.ground.context_runner import ContextRunner
from mcptrio.ground.waiter import Waiter
from mcptrio.http.client_address import Proxies
from mcptrio.http.engine.access_log import AccessLog, shown_client
from mcptrio.http.engine.admission import Admission
from mcptrio.http.engine.connection import HTTPConnection
from mcptrio.http.engine.exchange import EngineExchange, status_line
from mcptrio.http.engine.lifespan import open_lifespan
from mcptrio.http.engine.limits import LOG, ConnectionLimits
from mcptrio.http.engine.request_parser import MalformedRequest
from mcptrio.http.engine.tls import tls_extension
from mcptrio.http.engine.wire import PlainWire, TLSWire, Wire
from mcptrio.transports.accepting import Accepted, Accepting
from mcptrio.transports.sockets import ListeningSockets, listen
from mcptrio.transports.sparing_log import SparingLog

if TYPE_CHECKING:
    from mcptrio.http.engine.websocket import WebSocketExchange

__all__ = ["ConnectionLimits", "HTTP2Handler", "HTTPEngine", "ServedRequest", "run_engine", "serve_asgi"]


_MAX_IDLE_WORKERS: Final = 256
"""Workers that stay when there is nothing to do; more are done for."""
_POLL_INTERVAL: Final = 1.0
"""Seconds between two looks at the deadlines; less where a limit is shorter."""


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
    """Serve an ASGI application until ``shutdown`` is set, then let what is running finish.

    Args:
        bind: ``HOST:PORT``, ``unix:PATH`` or ``fd:NUMBER``; several of them listen on several addresses.
        shutdown: set it for an orderly end. Cancelling this call ends it at once, without the lifespan's shutdown.
        shutdown_timeout: seconds that running requests get after ``shutdown``; then their connections are cut.
        access_log: whether each request is told to the log ``mcptrio.http.access``, at level INFO.
        task_status: started with the URLs, in the order of ``bind``.

    Raises:
        OSError: an address cannot be bound.
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
    """Serve as :func:`serve_asgi` does, beside other processes, behind proxies, or with HTTP/2.

    Args:
        leaving: set it some time before ``shutdown`` where others accept from the same sockets: nothing more is
            accepted here, and each connection is closed after its next response.
        pause: from the number of connections there are to the seconds for which the next one is left to others that
            accept from the same sockets.
        proxies: have no share of the connections, since many clients are behind them.
        http2: serves the connections whose TLS handshake has chosen HTTP/2 (ALPN ``h2``). ``tls`` has to offer it.

    Raises:
        OSError: an address cannot be bound.
    """
    leaving = trio.Event() if leaving is None else leaving
    shutdown = trio.Event() if shutdown is None else shutdown
    owner = HTTPEngine(app, limits or ConnectionLimits(), tls, access_log=access_log)
    owner.pause = pause
    owner.http2 = http2
    owner.admission = Admission(owner.limits, proxies or Proxies())
    listening: list[ListeningSockets] = []
    try:
        for address in [bind] if isinstance(bind, str) else bind:
            # One by one: where the second is refused, the first is bound already.
            listening += [listen(address.replace("fd://", "fd:"))]
        async with open_lifespan(app, owner.state):
            ends = _Ends(leaving=leaving, shutdown=shutdown, timeout=shutdown_timeout)
            await owner.run(listening, ends, task_status)
    finally:
        owner.finish_logs()
        for each in listening:
            each.close()


HTTP2Handler: TypeAlias = Callable[[HTTPConnection], Awaitable[None]]
"""Serves a connection until it ends. It raises nothing that the connection could have caused."""


class ServedRequest(Protocol):
    """A request as the server runs the application for it."""

    gone: bool
    """Whether the client has left."""
    is_kept_open: bool
    """Whether the response goes on without the application."""
    refusal: int
    """The status to answer with if the application does not, since the request turned out to be invalid."""

    @property
    def is_complete(self) -> bool:
        """Whether the response has been written."""
        ...

    @property
    def is_uploading(self) -> bool: ...

    def scope(self) -> dict[str, Any]: ...

    async def receive(self) -> MutableMapping[str, Any]: ...

    async def send(self, event: MutableMapping[str, Any]) -> None: ...

    async def refuse(self, status: int) -> None:
        """Answer with this status if nothing has been answered, or end the response as failed."""
        ...


@frozen
class _Ends:
    """When to end, and how long that may take."""

    leaving: trio.Event
    shutdown: trio.Event
    timeout: float

    async def begun(self) -> None:
        """Wait until either is set."""
        async with trio.open_nursery() as nursery:

            async def watch(event: trio.Event) -> None:
                await event.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch, self.leaving)
            nursery.start_soon(watch, self.shutdown)


class HTTPEngine:
    """The server as its connections see it."""

    def __init__(self, app: ASGIApp, limits: ConnectionLimits, tls: ssl.SSLContext | None, *, access_log: bool) -> None:
        self.limits = limits
        self.pause: Callable[[int], float] | None = None
        self.http2: HTTP2Handler | None = None
        self.admission = Admission(limits, Proxies())
        self._sparing = SparingLog(LOG, per_key=10, total=100)
        self.state: dict[str, Any] = {}
        self.access_log = AccessLog(wanted=access_log)
        self.draining = False
        """Whether each connection is to end with its next response."""
        self.ending = False
        """Whether it is to end with the one it is at."""
        self._app = app
        self._tls = tls
        self._connections: set[HTTPConnection] = set()
        self._empty = trio.Event()
        self._context: Context = copy_context()
        self._idle: list[Waiter[tuple[EngineExchange | WebSocketExchange, HTTPConnection]]] = []
        self._nursery: trio.Nursery
        self._dated: tuple[int, bytes] = (0, b"")

    async def run(
        self,
        listening: Sequence[ListeningSockets],
        ends: _Ends,
        task_status: trio.TaskStatus[list[str]],
    ) -> None:
        scheme = "https" if self._tls else "http"
        urls = [f"{scheme}://{name}" for each in listening for name in each.names]
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._look)
            async with trio.open_nursery() as accepting:
                sockets = [
                    Accepting(sock, LOG, wait_turn=self._wait_turn, make_room=self.admission.make_room)
                    for each in listening
                    for sock in each.sockets
                ]
                accepting.start_soon(partial(trio.serve_listeners, self._handle, sockets, handler_nursery=nursery))
                for url in urls:
                    LOG.info("serving on %s", url)
                task_status.started(urls)
                await ends.begun()
                accepting.cancel_scope.cancel()
            for each in listening:
                each.close()
            # From now on a connection ends with its next response; one that is silent meanwhile waits for the end.
            self.draining = True
            await ends.shutdown.wait()
            await self._drain(ends.timeout)
            nursery.cancel_scope.cancel()

    def finish_logs(self) -> None:
        """Write what is left for the logs."""
        self.access_log.write()
        self._sparing.flush(now=True)

    # What connections need

    def date(self) -> bytes:
        """The Date header and the end of a head, formatted once a second."""
        now = int(time())
        if now != self._dated[0]:
            self._dated = (now, b"date: %b\r\n\r\n" % formatdate(now, usegmt=True).encode("ascii"))
        return self._dated[1]

    def error(self, status: int, body: bytes = b"") -> bytes:
        """A response to what is no request; the connection ends with it."""
        lines = b"%bcontent-length: %d\r\nconnection: close\r\n" % (status_line(status), len(body))
        return lines + self.date() + body

    def describe_tls(self, stream: trio.SSLStream[trio.SocketStream]) -> dict[str, Any]:
        """What the scopes of a connection say of it."""
        return {"tls": tls_extension(stream)}

    def log_handshake(self, client: Any, error: ssl.SSLError) -> None:
        """Log why a TLS handshake failed. A client that just closes says nothing, as health checks do."""
        if not isinstance(error, ssl.SSLEOFError):
            # Its text names a line of OpenSSL's source; the reason and what it says of a certificate are enough.
            reason = (error.reason or str(error)).lower().replace("_", " ")
            if isinstance(error, ssl.SSLCertVerificationError):
                reason = f"{reason}: {error.verify_message}"
            self._log(logging.INFO, client, "TLS handshake with %s failed: %s", shown_client(client), reason)

    def log_refusal(self, client: object, refused: MalformedRequest) -> None:
        LOG.debug("%s was refused with %d: %s", client, refused.status, refused.why)

    def start_soon(self, function: Callable[..., Awaitable[object]], *args: Any) -> None:
        """Run a task of a connection; what it raises is logged."""
        self._nursery.start_soon(self._contained, function, args)

    def start(self, exchange: EngineExchange | WebSocketExchange, connection: HTTPConnection) -> None:
        """Have a request served."""
        while self._idle:
            if self._idle.pop().set((exchange, connection)):
                return
        self._nursery.start_soon(self._work, exchange, connection)

    async def call(self, request: ServedRequest, client: Any) -> None:
        """Run the application for one request. It has been answered, or the client has left, when this returns."""
        try:
            await self._app(request.scope(), request.receive, request.send)
            if request.is_complete or request.is_kept_open:
                return
            if not request.gone:
                self._log(logging.ERROR, client, "the application has ended without completing its response")
                await request.refuse(500)
            elif request.refusal or request.is_uploading:
                await request.refuse(request.refusal or 400)
        except Exception:  # whatever the application raises: it must not reach the other connections
            self._log(logging.ERROR, client, "the application failed", exc_info=True)
            await request.refuse(500)

    def log_failure(self, client: Any) -> None:
        """Log the exception that is being handled, which has ended one connection."""
        self._log(logging.ERROR, client, "a connection was closed after an error", exc_info=True)

    # Private

    def _log(self, level: int, client: Any, message: str, *args: object, exc_info: bool = False) -> None:
        """Log what a client can cause at will; a few lines a minute for one address."""
        self._sparing.write(level, self.admission.owner_of(client) or "", message, *args, exc_info=exc_info)

    async def _contained(self, function: Callable[..., Awaitable[object]], args: tuple[Any, ...]) -> None:
        try:
            await function(*args)
        except Exception:  # a fault of ours must not reach the other connections
            LOG.exception("a task of a connection failed")

    async def _wait_turn(self) -> None:
        """There is a connection to be accepted. Leave it to others, where they have fewer."""
        if self.pause is not None and (seconds := self.pause(len(self._connections))):
            await trio.sleep(seconds)

    async def _work(self, exchange: EngineExchange | WebSocketExchange, connection: HTTPConnection) -> None:
        while True:
            following: EngineExchange | WebSocketExchange | None = exchange
            while following is not None:
                await ContextRunner(self._context.copy(), self.call(following, connection.client))
                following = connection.next(following)
                if following is not None:
                    # Requests that came together may each be served without a pause, and other clients wait.
                    await trio.lowlevel.checkpoint()
            if len(self._idle) >= _MAX_IDLE_WORKERS:
                return
            waiter: Waiter[tuple[EngineExchange | WebSocketExchange, HTTPConnection]] = Waiter()
            self._idle.append(waiter)
            exchange, connection = await waiter.wait()

    async def _look(self) -> None:
        """Give up what is over its deadline, and write the access log."""
        limits = self.limits
        shortest = min(
            *(limits.header_timeout, limits.body_timeout, limits.keepalive_timeout, limits.write_timeout),
            *(limits.tls_timeout, limits.ping_interval),
        )
        pause = min(_POLL_INTERVAL, shortest / 4)
        while True:
            await trio.sleep(pause)
            now = trio.current_time()
            for connection in tuple(self._connections):
                try:
                    connection.expire(now)
                except Exception:  # as above
                    LOG.exception("a connection was closed after an error")
                    connection.cut()
            self.access_log.write()
            self._sparing.flush()

    async def _drain(self, timeout: float) -> None:
        """Wait until the last connection has closed, at most ``timeout`` seconds; then cut what is left."""
        self.draining = self.ending = True
        for connection in tuple(self._connections):
            connection.end_if_idle()
        if self._connections:
            with trio.move_on_after(timeout):
                await self._empty.wait()
        for connection in tuple(self._connections):
            connection.cut()

    async def _handle(self, accepted: Accepted) -> None:
        try:
            await self._connect(accepted)
        except Exception:  # a fault of ours must not reach the other connections
            self.log_failure(_address(accepted.peer))

    async def _connect(self, accepted: Accepted) -> None:
        sock = accepted.sock
        wire: Wire = PlainWire(sock) if self._tls is None else TLSWire(sock, self._tls)
        try:
            address = sock.getsockname()
        except OSError:  # the client has left again
            wire.cut()
            return
        client = _address(accepted.peer)
        owner = self.admission.owner_of(client)
        if not self.admission.has_room(owner):
            if self._tls is None:
                wire.send_now(self.error(503))
                wire.half_close()
            wire.cut()
            return
        connection = HTTPConnection(self, wire, client, _address(address))
        self._connections.add(connection)
        self.admission.enter(connection, owner)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)
            self.admission.leave(connection)
            if self.draining and not self._connections:
                self._empty.set()


def _address(name: Any) -> tuple[str, int] | tuple[str, None] | None:
    """As ASGI has it: host and port, or the path of a Unix socket; ``None`` where it has none."""
    if isinstance(name, tuple):
        return (name[0], name[1])
    return (name, None) if isinstance(name, str) and name else None
