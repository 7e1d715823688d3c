"""HTTP with SSE, the transport of 2024-11-05, as a channel of messages.

The client opens it for a server that has no newer transport. A GET opens a stream, whose first event names the URL for
POSTs. All messages of the server arrive on this stream. Messages are sent only to the origin of the stream. They are
sent in order if the server allows it: each POST begins when the previous one was accepted, or after
:data:`POST_ORDER_TIMEOUT` seconds.

If the server refuses a request, the channel answers the request with an error. If it refuses another message, a warning
is logged. The channel ends when its stream ends, or when the server has forgotten the session.

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
from mcptrio.http.client.dialer import DEFAULT_DIALING, Dialing
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
"""Seconds for which a POST delays the next one. Some servers answer a POST only when they have served the request, and
the cancellation of the request must not wait so long."""
MAX_POSTS: Final = 64
"""Concurrent POSTs. The next one waits."""

_MAX_ARRIVED_READS: Final = 16
"""Reads whose messages may wait for the receiver. With more, the stream is not read."""
_GONE: Final = (404, 410)
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})

Item: TypeAlias = Message | Sequence[Message]


class SSEChannel:
    """A client's channel over HTTP with SSE, made by :func:`open_sse_channel`.

    See :class:`mcptrio.abc.MessageChannel`.
    """

    def __init__(
        self, requests: HTTPRequests, headers: ClientHeaders, stream: _ServerStream, *, name: str, nursery: trio.Nursery
    ) -> None:
        self.name = name
        self._requests = requests
        self._headers = headers.of_plain_post()
        self._stream = stream
        self._nursery = nursery
        self._post_slots = trio.Semaphore(MAX_POSTS)
        # Bounded, so that a slow caller makes the server wait instead of filling memory.
        self._arriving, self._arrived = trio.open_memory_channel[list[Incoming]](_MAX_ARRIVED_READS)
        self._ended = False
        self._end_reason: str | None = None
        """Why the channel has ended; ``None`` while it is open, or if the server has closed its stream properly."""

    async def receive(self) -> list[Incoming]:
        """See :class:`mcptrio.abc.MessageChannel`."""
        try:
            received = await self._arrived.receive()
            for _ in range(self._arrived.statistics().current_buffer_used):
                received += self._arrived.receive_nowait()
        except trio.EndOfChannel:
            if self._end_reason is not None:
                raise ConnectionClosed(self._end_reason) from None
            raise
        return received

    async def send(self, messages: Sequence[Item]) -> None:
        """See :class:`mcptrio.abc.MessageChannel`. A POST that has begun continues after a cancellation."""
        await trio.lowlevel.checkpoint_if_cancelled()
        for item in messages:
            await self._post_slots.acquire()
            if self._ended or self._end_reason is not None:
                raise ConnectionClosed(self._end_reason or "the server has closed its stream")
            answered = trio.Event()
            self._nursery.start_soon(self._post, item, answered)
            with trio.move_on_after(POST_ORDER_TIMEOUT):
                await answered.wait()

    async def aclose(self) -> None:
        self._end(CLIENT_DISCONNECTED)
        self._requests.close()
        await trio.lowlevel.checkpoint()

    async def read(self) -> None:
        """Read the stream until it ends. :func:`open_sse_channel` runs this."""
        try:
            while (arrived := await self._stream.read()) is not None:
                if arrived:
                    await self._arriving.send(arrived)
        except (RequestFailed, ConnectionClosed) as error:
            self._end(str(error))
        finally:
            self._ended = True
            self._arriving.close()
            self._stream.close()

    async def _post(self, item: Item, answered: trio.Event) -> None:
        try:
            try:
                response = await self._requests.request("POST", self._headers, encode(item), target=self._stream.target)
            except ConsentNeeded as needed:
                # The caller waits for the answer on the stream and does not get errors of the POST, so ask here.
                await needed.ask()
                response = await self._requests.request("POST", self._headers, encode(item), target=self._stream.target)
            if not 200 <= response.status < 300:
                raise await read_refusal(response)
            answered.set()
            await finish(response)
        except RequestFailed as error:
            # The session has ended, so no later POST can succeed.
            if error.status in _GONE:
                self._end(f"the server has forgotten the session: {error}")
            await self._answer_failed(item, error)
        except AuthorizationError as error:
            await self._answer_failed(item, RequestFailed(str(error)))
        except ConnectionClosed:
            pass  # the channel was closed here
        finally:
            answered.set()
            self._post_slots.release()

    async def _answer_failed(self, item: Item, error: RequestFailed) -> None:
        """Answer the requests that the server has refused with an error, and log the refusal of other messages."""
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

    def _end(self, reason: str) -> None:
        if self._end_reason is None:
            self._end_reason = reason
        self._stream.close()


class _ServerStream:
    """The response to the GET: the URL for POSTs, then messages."""

    def __init__(self, response: HTTPResponse, limits: MessageLimits) -> None:
        self._response = response
        self._limits = limits
        self._decoder = SSEDecoder(limits.bytes)
        self._rest: list[Event] = []
        """Events that arrived together with the endpoint event."""
        self.target = ""

    async def begin(self, endpoint: HTTPEndpoint) -> None:
        """Wait for the event with the URL for POSTs.

        Raises:
            RequestFailed: There is no such event, or it names another origin.
        """
        while (events := await self._events()) is not None:
            for index, event in enumerate(events):
                if event.event == "endpoint":
                    self._rest = events[index + 1 :]
                    try:
                        self.target = endpoint.join(event.data.decode()).target
                    except ValueError as error:  # UnicodeDecodeError is one
                        raise _failure(f"endpoint: {error}") from error
                    return
        raise _failure("the stream ended before its endpoint event")

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
            raise _failure(str(error)) from error


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
        auth: Returns the credentials of each request, and is asked once more after 401 or 403.
        limits: Limits of one event.
        dialing: Proxies, certificates, and the timeout for connecting.

    Raises:
        RequestFailed: There is no such stream at this URL.
        AuthorizationError: The server requires credentials, and there are none.
        ValueError: The URL or a header is invalid, or there are two sources of credentials.
        ConfigError: The environment names a proxy that cannot be used.
    """
    endpoint = HTTPEndpoint.parse(url)
    client_headers = ClientHeaders(endpoint, headers, authorized=auth is not None)
    requests = HTTPRequests(endpoint, dialing, auth)
    try:
        response = await requests.request("GET", client_headers.of_get(None, session=None))
        if response.status != 200:
            raise await read_refusal(response)
        if response.media_type != EVENT_STREAM:
            raise _failure(f"expected {EVENT_STREAM}, got {response.media_type[:80]!r}")
        stream = _ServerStream(response, limits)
        await stream.begin(endpoint)
        async with trio.open_nursery() as nursery:
            channel = SSEChannel(requests, client_headers, stream, name=endpoint.name, nursery=nursery)
            nursery.start_soon(channel.read)
            try:
                yield channel
            finally:
                nursery.cancel_scope.cancel()
    finally:
        requests.close()


def _failure(message: str) -> RequestFailed:
    return RequestFailed(f"the event stream cannot be read: {message}", status=200)
