"""The shared state of one server's connections: the application, its workers, the limits and the logs.

The server makes it. An exception of the application ends only its request, and an exception of a connection ends only
that connection. Both are logged here.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import Context, copy_context
from email.utils import formatdate
from http import HTTPStatus
from time import time
from typing import Any, Final, Protocol, TypeAlias

import trio

from mcptrio.abc import ASGIApp
from mcptrio.ground.refusals import count_refusal
from mcptrio.ground.waiter import Waiter
from mcptrio.ground.workers import ContextRunner
from mcptrio.http.client_address import Proxies
from mcptrio.http.engine.access_log import AccessLog, shown_client
from mcptrio.http.engine.admission import Admission
from mcptrio.http.engine.limits import LOG, ConnectionLimits
from mcptrio.http.engine.request_parser import MalformedRequest
from mcptrio.http.engine.tls import tls_extension
from mcptrio.transports.rate_limited_log import RateLimitedLog

__all__ = ["HTTPEngine", "ServedRequest", "status_line"]

_MAX_IDLE_WORKERS: Final = 256
"""Workers that are kept while there is no request; further ones end."""
_STATUS_LINES: Final = {each.value: b"HTTP/1.1 %d %b\r\n" % (each, each.phrase.encode()) for each in HTTPStatus}

_Job: TypeAlias = tuple[Callable[[Any], Awaitable[None]], Any]
"""A function that serves requests, and the first of them."""


class ServedRequest(Protocol):
    """A request as the server runs the application for it."""

    is_gone: bool
    """True once the client has disconnected."""
    is_kept_open: bool
    """True if the response continues without the application."""
    refusal: int
    """The status of an invalid request, sent if the application has not responded; 0 if it is valid."""

    @property
    def is_complete(self) -> bool:
        """True once the response has been written."""
        ...

    @property
    def is_uploading(self) -> bool: ...

    def scope(self) -> dict[str, Any]: ...

    async def receive(self) -> MutableMapping[str, Any]: ...

    async def send(self, event: MutableMapping[str, Any]) -> None: ...

    async def refuse(self, status: int) -> None:
        """Answer with this status if nothing has been sent; otherwise end the response as failed."""
        ...


class HTTPEngine:
    """The state that all connections of one server share.

    Attributes:
        nursery: Runs the workers, and the tasks of connections. Set before the first connection.
        http2: Serves a connection that speaks HTTP/2, and contains the exceptions that a client can cause.
    """

    def __init__(self, app: ASGIApp, limits: ConnectionLimits, proxies: Proxies, *, access_log: bool) -> None:
        self.limits = limits
        self.admission = Admission(limits, proxies)
        self.state: dict[str, Any] = {}
        """The state of the application's lifespan, copied into each scope."""
        self.access_log = AccessLog(wanted=access_log)
        self.nursery: trio.Nursery
        self.http2: Callable[[Any], Awaitable[None]] | None = None
        self.is_draining = False
        """True if each connection ends with its next response."""
        self.is_ending = False
        """True if each connection ends with its current response."""
        self._sparing = RateLimitedLog(LOG, per_key=10, total=100)
        self._app = app
        self._context: Context = copy_context()
        self._idle_workers: list[Waiter[_Job]] = []
        self._cached_date: tuple[int, bytes] = (0, b"")

    def date(self) -> bytes:
        """Return the Date header and the end of a head, formatted once a second."""
        now = int(time())
        if now != self._cached_date[0]:
            self._cached_date = (now, b"date: %b\r\n\r\n" % formatdate(now, usegmt=True).encode("ascii"))
        return self._cached_date[1]

    def error(self, status: int, body: bytes = b"") -> bytes:
        """Return the response to data that is not a valid request. The connection ends with it."""
        count_refusal(status)
        lines = b"%bcontent-length: %d\r\nconnection: close\r\n" % (status_line(status), len(body))
        return lines + self.date() + body

    def describe_tls(self, stream: trio.SSLStream[trio.SocketStream]) -> dict[str, Any]:
        """Return the TLS extension for the scopes of a connection."""
        return {"tls": tls_extension(stream)}

    def log_handshake(self, client: Any, error: ssl.SSLError) -> None:
        """Log why a TLS handshake failed, unless the client only closed the connection, as health checks do."""
        if not isinstance(error, ssl.SSLEOFError):
            # The exception's text names a line of OpenSSL's source. The reason and the certificate's fault say more.
            reason = (error.reason or str(error)).lower().replace("_", " ")
            if isinstance(error, ssl.SSLCertVerificationError):
                reason = f"{reason}: {error.verify_message}"
            self._log(logging.INFO, client, "TLS handshake with %s failed: %s", shown_client(client), reason)

    def log_refusal(self, client: object, refused: MalformedRequest) -> None:
        LOG.debug("%s was refused with %d: %s", client, refused.status, refused.reason)

    def start_soon(self, function: Callable[..., Awaitable[object]], *args: Any) -> None:
        """Run a task of a connection. Its exception is logged."""
        self.nursery.start_soon(self._run_guarded, function, args)

    async def serve(self, run: Callable[[], Awaitable[None]], client: Any, on_end: Callable[[], None]) -> None:
        """Run a connection, and call ``on_end`` at its end. Its exception is logged."""
        try:
            try:
                await run()
            finally:
                on_end()
        except Exception:  # a bug of ours must not reach the other connections
            self.log_failure(client)

    def start(self, serve: Callable[[Any], Awaitable[None]], exchange: Any) -> None:
        """Have a worker serve a request, and then the pipelined ones."""
        job = (serve, exchange)
        while self._idle_workers:
            # False if that worker was cancelled while it waited.
            if self._idle_workers.pop().set(job):
                return
        self.nursery.start_soon(self._work, job)

    async def run(self, request: ServedRequest, client: Any) -> None:
        """Run the application for one request, in its own context."""
        # A worker serves many requests, which would otherwise share their context variables.
        await ContextRunner(self._context.copy(), self.call(request, client))

    async def call(self, request: ServedRequest, client: Any) -> None:
        """Run the application for one request. Afterwards it is answered, or the client has disconnected."""
        try:
            await self._app(request.scope(), request.receive, request.send)
            if request.is_complete or request.is_kept_open:
                return
            if not request.is_gone:
                self._log(logging.ERROR, client, "the application has ended without completing its response")
                await request.refuse(500)
            elif request.refusal or request.is_uploading:
                count_refusal(request.refusal or 400)
                await request.refuse(request.refusal or 400)
        except Exception:  # an application's exception must not reach the other connections
            self._log(logging.ERROR, client, "the application failed", exc_info=True)
            await request.refuse(500)

    def log_failure(self, client: Any) -> None:
        """Log the exception that is being handled, which has ended one connection."""
        self._log(logging.ERROR, client, "a connection was closed after an error", exc_info=True)

    def write_logs(self, *, is_end: bool = False) -> None:
        """Write the queued log lines."""
        self.access_log.write()
        self._sparing.flush(now=is_end)

    # Private

    def _log(self, level: int, client: Any, message: str, *args: object, exc_info: bool = False) -> None:
        # A client can cause any number of these lines, so only a few a minute are logged for one address.
        self._sparing.write(level, self.admission.owner_of(client) or "", message, *args, exc_info=exc_info)

    async def _run_guarded(self, function: Callable[..., Awaitable[object]], args: tuple[Any, ...]) -> None:
        try:
            await function(*args)
        except Exception:  # a bug of ours must not reach the other connections
            LOG.exception("a task of a connection failed")

    async def _work(self, job: _Job) -> None:
        while True:
            serve, exchange = job
            await serve(exchange)
            # Idle workers are reused because starting a task costs more than a small request.
            if len(self._idle_workers) >= _MAX_IDLE_WORKERS:
                return
            waiter: Waiter[_Job] = Waiter()
            self._idle_workers.append(waiter)
            job = await waiter.wait()


def status_line(status: int) -> bytes:
    return _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
