"""HTTP with SSE, the transport of 2024-11-05, as a channel of messages.

The client opens it for a server that has no newer transport. A GET opens a stream, whose first event has the URL for
POSTs; all messages of the server arrive on this stream. Messages are sent only to the origin of the stream, in order as
far as the server allows: the next POST begins when the one before was accepted, or after :data:`POST_ORDER_TIMEOUT`
seconds.

If a message is refused, a request gets an error instead of the server's response, and for others a warning is logged.
The channel ends with its stream, or when the server has forgotten it.

Source: MCP 2024-11-05, basic/transports, "HTTP with SSE"; MCP 2025-11-25, basic/transports, "Backwards Compatibility".
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Final, TypeAlias

import trio

from mcptrio.abc import ClientAuth
from mcptrio.errors import (
    AuthorizationError,
    Code,
    ConnectionClosed,
    ConsentNeeded,
    RemoteProtocolError,
    RequestFailed,
)
from mcptrio.http.client.connection import HTTPResponse
from mcptrio.http.client.dialing import DEFAULT_DIALING, Dialing
from mcptrio.http.client.endpoint import HTTPEndpoint
from mcptrio.http.client.headers import ClientHeaders
from mcptrio.http.client.requests import CLIENT_DISCONNECTED, HTTPRequests
from mcptrio.http.client.responses import finish, read_refusal
from mcptrio.http.headers import EVENT_STREAM
from mcptrio.protocol.jsonrpc import decode, encode
from mcptrio.protocol.limits import CLIENT_DEFAULT, MessageLimits
from mcptrio.protocol.messages import ErrorResponse, Incoming, Message, Request
from mcptrio.protocol.sse import Event, SSEDecoder

__all__ = ["SSEChannel", "open_sse_channel"]

_log = logging.getLogger("mcptrio.http.client")

POST_ORDER_TIMEOUT: Final = 1.0
"""Seconds for which a POST delays the next one. Some servers answer a POST only after the request has been served, and
the cancellation of that request must not wait so long."""
MAX_POSTS: Final = 64
"""Concurrent POSTs; the next one waits."""

_MAX_ARRIVED_READS: Final = 16
"""Reads whose messages may wait to be received before the stream is no longer read."""
_GONE: Final = (404, 410)
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})

Item: TypeAlias = Message | Sequence[Message]


class SSEChannel:
    """Made by :func:`open_sse_channel`. See :class:`mcptrio.abc.MessageChannel`."""

    def __init__(
        self, requests: HTTPRequests, headers: ClientHeaders, stream: _Stream, *, name: str, nursery: trio.Nursery
    ) -> None:
        self.name = name
        self._requests = requests
        self._headers = headers.of_plain_post()
        self._stream = stream
        self._nursery = nursery
        self._room = trio.Semaphore(MAX_POSTS)
        # Bounded, so that a slow caller makes the server wait instead of filling memory.
        self._arriving, self._arrived = trio.open_memory_channel[list[Incoming]](_MAX_ARRIVED_READS)
        self._ended = False
        self._broken: str | None = None
        """The reason for its end; ``None`` while it is open, or if the server has closed its stream properly."""

    async def receive(self) -> list[Incoming]:
        """See :class:`mcptrio.abc.MessageChannel`."""
        try:
            received = await self._arrived.receive()
            for _ in range(self._arrived.statistics().current_buffer_used):
                received += self._arrived.receive_nowait()
        except trio.EndOfChannel:
            if self._broken is not None:
                raise ConnectionClosed(self._broken) from None
            raise
        return received

    async def send(self, messages: Sequence[Item]) -> None:
        """See :class:`mcptrio.abc.MessageChannel`. After a cancellation, messages that were begun are still sent."""
        await trio.lowlevel.checkpoint_if_cancelled()
        for item in messages:
            await self._room.acquire()
            if self._ended or self._broken is not None:
                raise ConnectionClosed(self._broken or "the server has closed its stream")
            answered = trio.Event()
            self._nursery.start_soon(self._post, item, answered)
            with trio.move_on_after(POST_ORDER_TIMEOUT):
                await answered.wait()

    async def aclose(self) -> None:
        self._break(CLIENT_DISCONNECTED)
        self._requests.close()
        await trio.lowlevel.checkpoint()

    async def read(self) -> None:
        """Read the stream until it ends; run by :func:`open_sse_channel`."""
        try:
            while (arrived := await self._stream.read()) is not None:
                if arrived:
                    await self._arriving.send(arrived)
        except (RequestFailed, ConnectionClosed) as error:
            self._break(str(error))
        finally:
            self._ended = True
            self._arriving.close()
            self._stream.close()

    async def _post(self, item: Item, answered: trio.Event) -> None:
        try:
            try:
                response = await self._requests.ask("POST", self._headers, encode(item), target=self._stream.target)
            except ConsentNeeded as needed:
                # Handled here: the caller waits for the answer on the stream and does not see errors of the POST.
                await needed.ask()
                response = await self._requests.ask("POST", self._headers, encode(item), target=self._stream.target)
            if not 200 <= response.status < 300:
                raise await read_refusal(response)
            answered.set()
            await finish(response)
        except RequestFailed as error:
            # The session is bound to the stream; without it no later POST can succeed.
            if error.status in _GONE:
                self._break(f"the server has forgotten the session: {error}")
            await self._answer_failed(item, error)
        except AuthorizationError as error:
            await self._answer_failed(item, RequestFailed(str(error)))
        except ConnectionClosed:
            pass  # closed here
        finally:
            answered.set()
            self._room.release()

    async def _answer_failed(self, item: Item, error: RequestFailed) -> None:
        """Answer requests with an error in place of the server, and log the refusal of other messages."""
        reply = error.reply
        code, data = (reply.code, reply.data) if reply is not None else (Code.INTERNAL_ERROR, None)
        for message in item if isinstance(item, Sequence) else (item,):
            if isinstance(message, Request):
                answer: Incoming = ErrorResponse(message.id, code, str(error), data)
                try:
                    await self._arriving.send([answer])
                except (trio.ClosedResourceError, trio.BrokenResourceError):
                    return
            else:
                _log.warning("%s: a message was refused: %s", self.name, error)

    def _break(self, reason: str) -> None:
        if self._broken is None:
            self._broken = reason
        self._stream.close()


class _Stream:
    """The response to the GET: the URL for POSTs, then messages."""

    def __init__(self, response: HTTPResponse, limits: MessageLimits) -> None:
        self._response = response
        self._limits = limits
        self._decoder = SSEDecoder(limits.bytes)
        self._rest: list[Event] = []
        """Events that arrived with the awaited one."""
        self.target = ""

    async def begin(self, endpoint: HTTPEndpoint) -> None:
        """Wait for the event with the URL for POSTs.

        Raises:
            RequestFailed: There is none, or it names another origin.
        """
        while (events := await self._events()) is not None:
            for place, event in enumerate(events):
                if event.event == "endpoint":
                    self._rest = events[place + 1 :]
                    try:
                        self.target = endpoint.join(event.data.decode()).target
                    except ValueError as error:  # UnicodeDecodeError is one
                        raise _failed(f"endpoint: {error}") from error
                    return
        raise _failed("the stream ended before its endpoint event")

    async def read(self) -> list[Incoming] | None:
        """Return the messages in the next bytes, possibly none; ``None`` at the end.

        Raises:
            RequestFailed: The connection broke, or an event is too large.
        """
        events: list[Event] | None = self._rest
        self._rest = []
        if not events:
            events = await self._events()
        if events is None:
            return None
        return [decode(each.data, self._limits) for each in events if each.data and each.event == "message"]

    def close(self) -> None:
        self._response.close()

    async def _events(self) -> list[Event] | None:
        chunk = await self._response.read()
        try:
            return self._decoder.feed(chunk) if chunk else None
        except RemoteProtocolError as error:
            raise _failed(str(error)) from error


@asynccontextmanager
async def open_sse_channel(
    url: str,
    *,
    headers: Mapping[str, str] = _NO_HEADERS,
    auth: ClientAuth | None = None,
    limits: MessageLimits = CLIENT_DEFAULT,
    dialing: Dialing = DEFAULT_DIALING,
) -> AsyncIterator[SSEChannel]:
    """Connect to a server of 2024-11-05 and yield the channel. Sets no deadline for the server's first event.

    Args:
        url: The URL of the stream: ``http`` or ``https``. Credentials in it become Basic authorization, and are not
            logged.
        headers: Headers of every request, in addition to those of the protocol.
        auth: Asked for headers before every request, and once more after 401 or 403.
        limits: Limits of one event.
        dialing: Proxies, certificates, and the timeout for connecting.

    Raises:
        RequestFailed: There is no such stream at this URL.
        AuthorizationError: The server requires credentials, and there are none.
        ValueError: The URL or a header is invalid, or there are two sources of credentials.
        ConfigError: The environment names a proxy that cannot be used.
    """
    endpoint = HTTPEndpoint.parse(url)
    own = ClientHeaders(endpoint, headers, authorized=auth is not None)
    requests = HTTPRequests(endpoint, dialing, auth)
    try:
        response = await requests.ask("GET", own.of_get(None, session=None))
        if response.status != 200:
            raise await read_refusal(response)
        if response.media_type != EVENT_STREAM:
            raise _failed(f"expected {EVENT_STREAM}, got {response.media_type[:80]!r}")
        stream = _Stream(response, limits)
        await stream.begin(endpoint)
        async with trio.open_nursery() as nursery:
            channel = SSEChannel(requests, own, stream, name=endpoint.name, nursery=nursery)
            nursery.start_soon(channel.read)
            try:
                yield channel
            finally:
                nursery.cancel_scope.cancel()
    finally:
        requests.close()


def _failed(message: str) -> RequestFailed:
    return RequestFailed(f"the event stream cannot be read: {message}", status=200)
