"""A client's channel over WebSocket. Each text message is one JSON-RPC message or batch.

The client opens it for ``ws`` and ``wss`` URLs. The dialer of HTTP connects it, with the same proxies, certificates and
headers. trio-websocket implements the protocol. An exception in trio-websocket ends only this channel, with a readable
reason.

This module works around these properties of trio-websocket:

- Its reader answers no pings while a message waits to be received, so the task that receives does nothing else.
- A cancelled send may leave half a frame. After that, :class:`WebSocketStream` sends nothing more.
- The handshake waits forever if the connection ends, and raises exceptions of h11 and wsproto.
- The size limit counts characters instead of bytes, and there is no timeout for the server's close frame.

Source: RFC 6455; trio-websocket 0.12; MCP 2026-07-28 and 2025-11-25, basic/transports, "Custom Transports".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import MappingProxyType
from typing import Any, Final, cast

import h11
import trio
import trio_websocket
from attrs import evolve, frozen
from wsproto.utilities import ProtocolError

from mcptrio.abc import ClientAuth
from mcptrio.errors import AuthorizationError, ConnectionClosed, RequestFailed
from mcptrio.http.client.connection_pool import RawHeaders
from mcptrio.http.client.dialer import DEFAULT_DIALING, Dialer, Dialing
from mcptrio.http.client.endpoint import HTTPEndpoint
from mcptrio.http.client.headers import ClientHeaders
from mcptrio.http.client.requests import MAX_RETRIES
from mcptrio.http.client.websocket_stream import WebSocketStream
from mcptrio.http.headers import Headers
from mcptrio.http.subprotocol import SUBPROTOCOL, CloseCode, describe, is_orderly
from mcptrio.protocol.jsonrpc import decode, encode
from mcptrio.protocol.limits import CLIENT_DEFAULT, MessageLimits
from mcptrio.protocol.messages import Incoming, Message

__all__ = ["DEFAULT_PINGS", "Pings", "WebSocketChannel", "open_websocket_channel"]

SCHEMES: Final = ("ws", "wss")
CLOSE_TIMEOUT: Final = 0.5
"""Seconds for the server's close frame after ours."""

_MAX_READ_BYTES: Final = 64 * 1024
_CLIENT_DISCONNECTED: Final = "the client has closed the connection"
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


@frozen(kw_only=True)
class Pings:
    """Detect a server that has disappeared without closing the connection.

    Args:
        interval: Seconds without data after which a ping is sent.
        timeout: Seconds after a ping. If no data arrives in this time, the channel ends.
    """

    interval: float = 20.0
    timeout: float = 20.0


DEFAULT_PINGS: Final = Pings()


class WebSocketChannel:
    """A client's channel over a WebSocket, made by :func:`open_websocket_channel`.

    See :class:`mcptrio.abc.MessageChannel`.
    """

    def __init__(self, stream: WebSocketStream, *, name: str, limits: MessageLimits) -> None:
        self.name = name
        self._stream = stream
        self._limits = limits
        self._scope = trio.CancelScope()
        self._has_ended = trio.Event()
        self._connection: trio_websocket.WebSocketConnection
        self._open = False
        self._broken: str | None = None
        """Why the channel has ended, if the close code does not tell."""
        self._close_frame: tuple[CloseCode, str | None] = (CloseCode.DONE, None)

    async def receive(self) -> list[Incoming]:
        """See :class:`mcptrio.abc.MessageChannel`."""
        message: str | bytes | None = None
        with suppress(trio_websocket.ConnectionClosed):
            message = await self._connection.get_message()
        if message is None:
            reason = await self._end_reason()
            if reason is None:
                raise trio.EndOfChannel
            raise ConnectionClosed(reason)
        if isinstance(message, bytes):
            raise self._refuse(CloseCode.UNSUPPORTED_DATA, "expected text messages, got a binary one")
        data = message.encode()
        limit = self._limits.bytes
        if len(data) > limit:
            raise self._refuse(CloseCode.TOO_BIG, f"message of {len(data)} bytes: the limit is {limit} bytes")
        return [decode(data, self._limits)]

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        """See :class:`mcptrio.abc.MessageChannel`. Fails if the server reads nothing for 30 seconds."""
        await trio.lowlevel.checkpoint_if_cancelled()
        with suppress(trio_websocket.ConnectionClosed, ProtocolError):
            for each in messages:
                await self._connection.send_message(encode(each).decode())
            return
        raise ConnectionClosed(await self._end_reason() or "the server has closed the connection")

    async def aclose(self) -> None:
        """Exchange close frames, for at most :data:`CLOSE_TIMEOUT` seconds, and close the socket."""
        if self._broken is None:
            self._broken = _CLIENT_DISCONNECTED
        with trio.move_on_after(CLOSE_TIMEOUT, shield=True):
            with suppress(ProtocolError):  # the connection may already have ended
                await self._connection.aclose(*self._close_frame)
        self._stream.close()
        self._scope.cancel()
        await trio.lowlevel.checkpoint()

    async def run(
        self, endpoint: HTTPEndpoint, headers: RawHeaders, pings: Pings, *, task_status: trio.TaskStatus[None]
    ) -> None:
        """Make the handshake, then run until closed. :func:`open_websocket_channel` starts this.

        Raises:
            RequestFailed: There is no WebSocket at this URL. Raised only before ``task_status`` is started.
        """
        problem: BaseException | None = None
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self._connection = await self._handshake(nursery, endpoint, headers)
                    if self._connection.subprotocol == SUBPROTOCOL:
                        self._open = True
                        # The close handshake needs the reader even after a cancellation; aclose() bounds it.
                        self._scope.shield = True
                        task_status.started()
                        nursery.start_soon(self._keep_alive, pings)
                    else:
                        self._scope.cancel()
        except* (trio_websocket.HandshakeError, ProtocolError, h11.ProtocolError, ValueError, _Disconnected) as group:
            problem = _innermost_error(group)
        finally:
            self._stream.close()
            self._has_ended.set()
        if not self._open:
            if problem is not None:
                raise self._stream.refusal()[0] from problem
            raise RequestFailed(f"expected a WebSocket of the subprotocol {SUBPROTOCOL}, got one without")
        if problem is not None and self._broken is None:
            self._broken = f"the server violated the WebSocket protocol: {problem}"

    async def _handshake(
        self, nursery: trio.Nursery, endpoint: HTTPEndpoint, headers: RawHeaders
    ) -> trio_websocket.WebSocketConnection:
        # trio-websocket runs its reader in the nursery, where it raises errors about the response.
        async with trio.open_nursery() as waiting:

            async def fail_without_handshake() -> None:
                await self._stream.ended.wait()
                # The handshake may have been completed at the same moment.
                if not self._stream.opened:
                    raise _Disconnected

            waiting.start_soon(fail_without_handshake)
            connection = await trio_websocket.wrap_client_stream(
                nursery,
                cast(Any, self._stream),
                endpoint.authority,
                endpoint.target,
                subprotocols=[SUBPROTOCOL],
                extra_headers=headers,
                # trio-websocket counts characters. A message never has more characters than bytes.
                max_message_size=self._limits.bytes,
                receive_buffer_size=_MAX_READ_BYTES,
            )
            self._stream.opened = True
            waiting.cancel_scope.cancel()
        return connection

    async def _keep_alive(self, pings: Pings) -> None:
        """Send pings, and end the channel if the server sends nothing."""
        # Any data answers a ping, because a pong cannot overtake a long message.
        stream = self._stream
        while True:
            idle = trio.current_time() - stream.last_received
            if idle < pings.interval:
                await trio.sleep(pings.interval - idle)
                continue
            sent = trio.current_time()
            with trio.move_on_after(pings.timeout):
                try:
                    await self._connection.ping()
                except (trio_websocket.ConnectionClosed, ProtocolError):
                    return  # the channel has ended; receive() reports it
            if stream.last_received < sent:
                self._broken = f"the server has not answered a ping within {pings.timeout:g} s"
                self._scope.cancel()

    async def _end_reason(self) -> str | None:
        """Return why the channel has ended; ``None`` if the server has closed the connection properly."""
        closed = self._connection.closed
        if closed is None or closed.code == CloseCode.BROKEN:
            # The reader has ended; wait until run() has its exception.
            with trio.move_on_after(CLOSE_TIMEOUT):
                self._scope.cancel()
                await self._has_ended.wait()
        if self._broken is not None:
            return self._broken
        if self._stream.problem is not None:
            return self._stream.problem
        if closed is None or closed.code == CloseCode.BROKEN:
            return "the connection to the server broke"
        return (
            None
            if is_orderly(closed.code)
            else f"the server closed the connection: {describe(closed.code, closed.reason)}"
        )

    def _refuse(self, code: CloseCode, reason: str) -> ConnectionClosed:
        self._close_frame = code, reason
        self._broken = f"the server sent an invalid message: {reason}"
        return ConnectionClosed(self._broken)


class _Disconnected(Exception):
    """The connection ended during the handshake."""


@frozen
class _Refused:
    error: RequestFailed
    headers: Headers


@asynccontextmanager
async def open_websocket_channel(
    url: str,
    *,
    headers: Mapping[str, str] = _NO_HEADERS,
    auth: ClientAuth | None = None,
    limits: MessageLimits = CLIENT_DEFAULT,
    dialing: Dialing = DEFAULT_DIALING,
    pings: Pings = DEFAULT_PINGS,
) -> AsyncIterator[WebSocketChannel]:
    """Connect to a server and yield the channel.

    Args:
        url: ``ws`` or ``wss``. Credentials in it become Basic authorization, and are not logged.
        headers: Headers of the upgrade request, in addition to those of the protocol.
        auth: Returns the credentials of that request, and is asked once more after 401 or 403. It receives the URL as
            ``http`` or ``https``.
        limits: Limits of one message.
        dialing: Proxies, certificates, and the timeout for connecting and the handshake together.

    Raises:
        RequestFailed: There is no MCP WebSocket at this URL.
        AuthorizationError: The server requires credentials, and there are none.
        ValueError: The URL or a header is invalid, or there are two sources of credentials.
        ConfigError: The environment names a proxy that cannot be used.
    """
    endpoint = HTTPEndpoint.parse(url, SCHEMES)
    client_headers = ClientHeaders(endpoint, headers, authorized=auth is not None)
    # The dialer connects as for HTTP, except that a proxy must open a tunnel.
    http_endpoint = evolve(endpoint, scheme="https" if endpoint.scheme == "wss" else "http")
    dialer = Dialer(http_endpoint, dialing, tunnels=True)
    failure: RequestFailed | AuthorizationError | None = None
    async with trio.open_nursery() as nursery:

        async def connect() -> WebSocketChannel | _Refused:
            granted = await auth.headers("GET", http_endpoint.url) if auth is not None else _NO_HEADERS
            credentials = [(name.encode(), value.encode()) for name, value in granted.items()]
            with trio.move_on_after(dialing.connect_timeout):
                stream = WebSocketStream(*await dialer.dial())
                channel = WebSocketChannel(stream, name=endpoint.name, limits=limits)
                try:
                    await nursery.start(channel.run, endpoint, [*client_headers.of_upgrade(), *credentials], pings)
                except RequestFailed as error:
                    return _Refused(error, stream.refusal()[1])
                return channel
            raise RequestFailed(f"no WebSocket within {dialing.connect_timeout:g} seconds", delivered=False)

        try:
            opened = await connect()
            for _ in range(MAX_RETRIES):
                if not isinstance(opened, _Refused) or auth is None:
                    break
                if not await _answer_challenge(auth, http_endpoint.url, opened):
                    break
                opened = await connect()
            if isinstance(opened, _Refused):
                raise opened.error
        except (RequestFailed, AuthorizationError) as error:
            failure = error
        else:
            try:
                yield opened
            finally:
                await opened.aclose()  # noqa: ASYNC102 - shields itself, and is bounded
                nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _answer_challenge(auth: ClientAuth, url: str, refused: _Refused) -> bool:
    status = refused.error.status
    return status in (401, 403) and await auth.challenged(url, status, refused.headers)


def _innermost_error(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
