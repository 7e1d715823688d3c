"""The connections of a client to one HTTP server: opened when needed, and reused.

A link or channel owns the pool. It makes the pool before it opens its nursery, and closes the pool after the nursery
has ended. Each request has its own connection, so a stream that is open for hours does not block other calls. The
callers limit the number of connections, and :data:`MAX_IDLE_CONNECTIONS` limits the idle ones.

Source: RFC 9112 sections 9.3 and 9.4.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import trio

from mcptrio.errors import ConnectionClosed
from mcptrio.http.client.connection import HTTPClientConnection, HTTPResponse
from mcptrio.http.client.dialer import Dialer, Dialing
from mcptrio.http.client.endpoint import HTTPEndpoint

__all__ = ["ConnectionPool", "RawHeaders"]

RawHeaders: TypeAlias = list[tuple[bytes, bytes]]

MAX_IDLE_CONNECTIONS: Final = 32
"""Idle connections that are kept. When there are more, the one that is idle longest is closed."""
IDLE_TIMEOUT: Final = 4.0
"""Seconds for which an idle connection is reused. Uvicorn, Hypercorn and Node close idle connections after 5 seconds. A
request that is sent while the server closes the connection is lost, and the client cannot know whether it was run."""


class ConnectionPool:
    """The connections of a client to one HTTP server.

    Raises:
        ConfigError: The environment names a proxy that cannot be used.
    """

    def __init__(self, endpoint: HTTPEndpoint, dialing: Dialing) -> None:
        self._dialer = Dialer(endpoint, dialing)
        self._idle: list[HTTPClientConnection] = []
        """Idle connections. The most recently used one is last, and is used next."""
        self._busy: set[HTTPClientConnection] = set()
        self._dialing: set[trio.CancelScope] = set()
        self._reason: str | None = None
        proxy = self._dialer.forwarded
        # A proxy for plain http needs the whole URL in the request line (RFC 9112 section 3.2.2).
        self._prefix = "" if proxy is None else endpoint.origin
        self._host = (b"Host", endpoint.authority.encode())
        self._added: RawHeaders = []
        if proxy is not None and proxy.authorization is not None:
            self._added = [(b"Proxy-Authorization", proxy.authorization.encode())]

    async def request(self, method: str, target: str, headers: RawHeaders, body: bytes = b"") -> HTTPResponse:
        """Send a request and return its response after the head. The caller closes the response.

        Args:
            target: Path and query.
            headers: All headers except ``Host`` and ``Content-Length``.

        Raises:
            RequestFailed: There is no connection, it broke, or the response is not HTTP.
            ConnectionClosed: The pool was closed, or the request aborted.
        """
        connection = self._take() or await self._dial()
        self._busy.add(connection)
        answered = False
        try:
            response = await connection.request(
                method,
                self._prefix + target,
                [self._host, *headers, *self._added, *_length(method, body)],
                body,
                release=self._release,
            )
            answered = True
        finally:
            if not answered:
                self._busy.discard(connection)
                connection.close()
        return response

    def abort(self) -> None:
        """Abort all requests with ConnectionClosed. New requests are still possible."""
        for scope in self._dialing:
            scope.cancel()
        for connection in self._busy:
            connection.close()

    def close(self, reason: str) -> None:
        """Close all connections. Every later request raises ConnectionClosed."""
        self._reason = reason
        self.abort()
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> HTTPClientConnection | None:
        """Return an idle connection that is still usable."""
        oldest = trio.current_time() - IDLE_TIMEOUT
        while self._idle:
            connection = self._idle.pop()
            if connection.idle_since >= oldest and connection.is_open():
                return connection
            connection.close()
        return None

    async def _dial(self) -> HTTPClientConnection:
        if self._reason is not None:
            raise ConnectionClosed(self._reason)
        with trio.CancelScope() as scope:
            self._dialing.add(scope)
            try:
                connection = HTTPClientConnection(*await self._dialer.dial())
            finally:
                self._dialing.discard(scope)
            # abort() may have been called after the connection was made.
            if not scope.cancel_called:
                return connection
            connection.close()
        raise ConnectionClosed("the client has closed the connection")

    def _release(self, connection: HTTPClientConnection) -> None:
        self._busy.discard(connection)
        if self._reason is not None or not connection.renew():
            connection.close()
            return
        now = trio.current_time()
        connection.idle_since = now
        self._idle.append(connection)
        while len(self._idle) > MAX_IDLE_CONNECTIONS or self._idle[0].idle_since < now - IDLE_TIMEOUT:
            self._idle.pop(0).close()


def _length(method: str, body: bytes) -> RawHeaders:
    # RFC 9110 section 8.6: a POST has a Content-Length even if its body is empty.
    return [(b"Content-Length", b"%d" % len(body))] if body or method == "POST" else []
