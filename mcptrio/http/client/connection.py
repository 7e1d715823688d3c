"""One HTTP/1.1 connection of a client, and its current response.

:mod:`mcptrio.http.client.connection_pool` makes it, and links and channels read the responses. Closing a response does
not block. If the response was read to its end, the connection can be used for the next request. Otherwise the
connection is closed, which tells the server that the client has stopped waiting.

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
"""Bytes of the head of a response, of the head of a chunk, and of the trailers. One read may exceed it."""
_MAX_INTERIM_RESPONSES: Final = 100
"""Informational responses before the final one, such as 103 Early Hints; a few are usual."""
_CLOSED_HERE: Final = "the client has closed the connection"


class HTTPClientConnection:
    """One HTTP/1.1 connection of a client, used for one request at a time.

    Args:
        stream: The stream that carries HTTP.
        socket_stream: The socket below it, which :meth:`close` closes.
    """

    def __init__(self, stream: trio.abc.Stream, socket_stream: trio.SocketStream) -> None:
        self._stream = stream
        self._socket = socket_stream.socket
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self.idle_since = 0.0
        """Trio clock time at which the last response has ended."""

    async def request(
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
            release: Called when the response is closed.

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
            # A server may refuse a large body before it has read it, so look for its response first.
            broken = _failure("the connection broke while the request was sent", error)
        except trio.ClosedResourceError as error:
            raise ConnectionClosed(_CLOSED_HERE) from error
        try:
            return HTTPResponse(self, await self._read_head(), release)
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
            event = await self._next_event()
            if isinstance(event, h11.Data):
                if event.data:
                    return bytes(event.data)
            else:
                return b""

    def has_ended(self) -> bool:
        """Return whether the end of the response has arrived. Does not block, and drops unread data."""
        try:
            while isinstance(event := self._http.next_event(), h11.Data):
                pass
        except h11.RemoteProtocolError:
            return False
        return isinstance(event, h11.EndOfMessage)

    def is_open(self) -> bool:
        """Return whether an idle connection is still usable."""
        # A server sends nothing on an idle connection. If the socket is readable, the server has closed it.
        return self._socket.fileno() >= 0 and not self._socket.is_readable()

    def renew(self) -> bool:
        """Prepare for the next request, and return whether that is possible."""
        # Reuse is impossible if the response was not read to its end, or if a side wants to close the connection.
        http = self._http
        if http.our_state is not h11.DONE or http.their_state is not h11.DONE or http.trailing_data[0]:
            return False
        http.start_next_cycle()
        return self._socket.fileno() >= 0

    def close(self) -> None:
        """Close the socket. Tasks that wait for it get ConnectionClosed."""
        # No closing message of TLS is sent, as in most clients, because sending it could block.
        self._socket.close()

    async def _read_head(self) -> h11.Response:
        for _ in range(_MAX_INTERIM_RESPONSES + 1):
            if isinstance(event := await self._next_event(), h11.Response):
                return event
        raise RequestFailed(f"got more than {_MAX_INTERIM_RESPONSES} informational responses and no final one")

    async def _next_event(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise RequestFailed(f"the response was cut off or is not HTTP: {error}") from error
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]  # h11's sentinels are classes
            try:
                data = await self._stream.receive_some(_MAX_READ_BYTES)
            except trio.BrokenResourceError as error:
                raise _failure("the connection broke before the answer was complete", error) from error
            except trio.ClosedResourceError as error:
                raise ConnectionClosed(_CLOSED_HERE) from error
            # The stream ended before the head. h11 would report a protocol error, which says less.
            if not data and self._http.their_state is h11.SEND_RESPONSE:
                raise RequestFailed("the server closed the connection without an answer")
            self._http.receive_data(bytes(data))


class HTTPResponse:
    """The head of a response, and its body as it arrives. The caller must close it.

    Attributes:
        headers: By name in lower case.
        secrets: Secrets of the request, which errors must not show if the server repeats them.
    """

    __slots__ = ("_connection", "_ended", "_release", "headers", "secrets", "status")

    def __init__(
        self, connection: HTTPClientConnection, head: h11.Response, release: Callable[[HTTPClientConnection], None]
    ) -> None:
        self.status = head.status_code
        self.secrets: Sequence[str] = ()
        self.headers = Headers.of(head.headers)
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

    def is_complete(self) -> bool:
        """Return whether the end of the body has arrived. Unread bytes of the body are dropped."""
        self._ended = self._ended or (self._connection is not None and self._connection.has_ended())
        return self._ended

    def close(self, *, reuse: bool = True) -> None:
        """Release the connection. Later calls do nothing.

        Args:
            reuse: ``False`` if the received data makes the next response unreliable.
        """
        connection, self._connection = self._connection, None
        if connection is not None:
            if not reuse:
                connection.close()
            self._release(connection)


def _failure(message: str, error: trio.BrokenResourceError) -> RequestFailed:
    cause = error.__cause__
    reason = cause.strerror if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) else cause
    return RequestFailed(f"{message}: {reason}" if reason else message)
