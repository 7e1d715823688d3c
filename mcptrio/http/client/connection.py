"""One HTTP/1.1 connection of a client, and its current response.

:mod:`mcptrio.http.client.connection_pool` makes it, and links and channels read the responses. The caller closes a
response, at once and without waiting. If it was read to its end, the connection is free for the next request. Otherwise
the connection is closed, which tells the server that the client has stopped waiting.

Source: RFC 9112 sections 6.3, 8 and 9.6.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import Final

import h11
import trio

from mcptrio.errors import ConnectionClosed, RequestFailed
from mcptrio.http.headers import Headers

__all__ = ["HTTPClientConnection", "HTTPResponse"]

_MAX_READ_BYTES: Final = 64 * 1024
_MAX_HEAD_BYTES: Final = 64 * 1024
"""Bytes of a response's head, of a chunk's and of the trailers; the bytes of one read may exceed it."""
_MAX_INTERIM_RESPONSES: Final = 100
"""Responses before the one that counts: 100 Continue, 103 Early Hints; a few are usual."""
_CLOSED_HERE: Final = "the client has closed the connection"


class HTTPClientConnection:
    """
    Args:
        stream: what HTTP is spoken on.
        bottom: the socket below it, which is closed.
    """

    def __init__(self, stream: trio.abc.Stream, bottom: trio.SocketStream) -> None:
        self._stream = stream
        self._socket = bottom.socket
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self.idle_since = 0.0
        """Trio's time of the end of the last response."""

    async def ask(
        self,
        method: str,
        target: str,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
        *,
        release: Callable[[HTTPClientConnection], None],
    ) -> HTTPResponse:
        """Send a request and return its response after the head.

        Args:
            release: called when the response is closed.

        Raises:
            RequestFailed: The connection broke, or the response is not HTTP.
            ConnectionClosed: The connection was closed here.
        """
        try:
            data = self._http.send(h11.Request(method=method, target=target, headers=headers)) or b""
        except h11.LocalProtocolError as error:
            raise RequestFailed(f"the request cannot be written as HTTP: {error}", delivered=False) from error
        if body:
            data += self._http.send(h11.Data(data=body)) or b""
        data += self._http.send(h11.EndOfMessage()) or b""
        broken: RequestFailed | None = None
        try:
            await self._stream.send_all(data)
        except trio.BrokenResourceError as error:
            # It may have refused what it did not want to read to the end, and said so.
            broken = _failed("the connection broke while the request was sent", error)
        except trio.ClosedResourceError as error:
            raise ConnectionClosed(_CLOSED_HERE) from error
        try:
            return HTTPResponse(self, await self._head(), release)
        except RequestFailed as error:
            if broken is not None:
                raise broken from error
            raise

    async def read(self) -> bytes:
        """Return the next bytes of the response's body; empty at its end.

        Raises:
            RequestFailed: The connection broke, or the response is not HTTP.
            ConnectionClosed: The connection was closed here.
        """
        while True:
            event = await self._next()
            if isinstance(event, h11.Data):
                if event.data:
                    return bytes(event.data)
            else:
                return b""

    def has_ended(self) -> bool:
        """Whether the response's end has arrived already. Drops what else has; waits for nothing."""
        try:
            while isinstance(event := self._http.next_event(), h11.Data):
                pass
        except h11.RemoteProtocolError:
            return False
        return isinstance(event, h11.EndOfMessage)

    def is_open(self) -> bool:
        """Whether the server has not closed it, as far as can be seen. For an idle one: anything to read is an end."""
        return self._socket.fileno() >= 0 and not self._socket.is_readable()

    def renew(self) -> bool:
        """Prepare for the next request. False unless the response was read to its end and both sides keep the
        connection."""
        http = self._http
        if http.our_state is not h11.DONE or http.their_state is not h11.DONE or http.trailing_data[0]:
            return False
        http.start_next_cycle()
        return self._socket.fileno() >= 0

    def close(self) -> None:
        """Close the socket; who waits for it gets ConnectionClosed. TLS is not told goodbye, as with most clients."""
        self._socket.close()

    async def _head(self) -> h11.Response:
        for _ in range(_MAX_INTERIM_RESPONSES + 1):
            if isinstance(event := await self._next(), h11.Response):
                return event
        raise RequestFailed(f"more than {_MAX_INTERIM_RESPONSES} informational responses came, and no answer")

    async def _next(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise RequestFailed(f"the server broke off, or does not speak HTTP: {error}") from error
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]  # h11's sentinels are classes
            try:
                data = await self._stream.receive_some(_MAX_READ_BYTES)
            except trio.BrokenResourceError as error:
                raise _failed("the connection broke before the answer was complete", error) from error
            except trio.ClosedResourceError as error:
                raise ConnectionClosed(_CLOSED_HERE) from error
            if not data and self._http.their_state is h11.SEND_RESPONSE:
                raise RequestFailed("the server closed the connection without an answer")
            self._http.receive_data(bytes(data))


class HTTPResponse:
    """The head of a response, and its body as it arrives. It must be closed.

    Attributes:
        headers: by name in lower case.
        secrets: secrets of the request, which must not be shown if the server repeats them.
    """

    __slots__ = ("_connection", "_ended", "_release", "headers", "secrets", "status")

    def __init__(
        self, connection: HTTPClientConnection, head: h11.Response, release: Callable[[HTTPClientConnection], None]
    ) -> None:
        self.status = head.status_code
        self.secrets: Sequence[str] = ()
        self.headers = Headers(head.headers)
        self._connection: HTTPClientConnection | None = connection
        self._release = release
        self._ended = False

    @property
    def media_type(self) -> str:
        """The ``Content-Type`` in lower case without its parameters; empty if there is none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def read(self) -> bytes:
        """Return the next bytes of the body; empty at its end, and after the response was closed.

        Raises:
            RequestFailed: The connection broke, or the response is not HTTP.
            ConnectionClosed: The connection was closed here.
        """
        if self._ended or self._connection is None:
            return b""
        data = await self._connection.read()
        self._ended = not data
        return data

    def is_over(self) -> bool:
        """Return whether the end of the body has arrived. Unread bytes of it are dropped."""
        self._ended = self._ended or (self._connection is not None and self._connection.has_ended())
        return self._ended

    def close(self, *, reuse: bool = True) -> None:
        """Let go of the connection. A second time nothing happens.

        Args:
            reuse: ``False`` where what came casts doubt on what will come next.
        """
        connection, self._connection = self._connection, None
        if connection is not None:
            if not reuse:
                connection.close()
            self._release(connection)


def _failed(message: str, error: trio.BrokenResourceError) -> RequestFailed:
    cause = error.__cause__
    reason = cause.strerror if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) else cause
    return RequestFailed(f"{message}: {reason}" if reason else message)
