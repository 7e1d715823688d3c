"""One HTTP/2 connection, after a TLS handshake that chose ``h2``.

The engine's :class:`~mcptrio.http.engine.connection.HTTPConnection` reads, writes, checks the deadlines and closes the
socket. Hypercorn's :class:`H2Protocol` turns frames into requests. This module adds what stock Hypercorn lacks:

- An exception that one connection causes ends only that connection, and is logged.
- DATA that arrives after an early answer is discarded. If a response fails, only its stream is reset.
- A connection is idle, and has a deadline, once all responses have been written, also after a client's RST_STREAM.
- WebSocket over HTTP/2 (RFC 8441) is not offered, because wsproto does not bound the size of a decompressed message.

Source: hypercorn 0.18 ``trio/tcp_server.py`` and ``protocol/h2.py``; RFC 9113 sections 5.1.2, 6.8, 8.1 and 10.5.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import trio
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.events import StreamClosed
from hypercorn.protocol.h2 import H2Protocol, StreamBuffer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState, TaskGroup

from mcptrio.http.engine.connection import HTTPConnection
from mcptrio.http.engine.limits import LOG, ConnectionLimits
from mcptrio.http.hypercorn.requests import Requests

__all__ = ["serve_http2"]


# At level DEBUG, hpack logs the value of every header, including credentials.
logging.getLogger("hpack").setLevel(logging.INFO)

_NO_APP: Any = None
"""The engine runs the application."""


async def serve_http2(connection: HTTPConnection) -> None:
    """Serve a connection until the client, a deadline or the server ends it. Returns when its requests have ended."""
    try:
        async with trio.open_nursery() as nursery:
            await _HTTP2(connection, nursery).run()
    except* Exception:  # an error in Hypercorn or h2 must not reach the other connections
        connection.log_failure()


@lru_cache(maxsize=8)
def _config(limits: ConnectionLimits) -> Config:
    config = Config()
    config.errorlog, config.accesslog = LOG, None
    config.h2_max_header_list_size = limits.header_bytes
    # Hypercorn's default of 1,000 would close the connection of a busy client.
    config.keep_alive_max_requests = 1_000_000_000
    config.include_server_header = False
    return config


class _HTTP2:
    def __init__(self, connection: HTTPConnection, nursery: trio.Nursery) -> None:
        self._connection = connection
        self._writing = trio.Lock()
        self._is_closed = False
        """True if Hypercorn has ended the connection."""
        config = _config(connection.engine.limits)
        self._requests = Requests(connection, nursery, config.h2_max_concurrent_streams, self._mark_activity)
        self._protocol = _Protocol(
            _NO_APP,
            config,
            WorkerContext(None),
            cast(TaskGroup, self._requests),
            ConnectionState(connection.engine.state),
            connection.scheme == "https",
            connection.client,
            connection.server,
            self._send,
        )
        self._protocol.begin(self._mark_activity)

    async def run(self) -> None:
        await self._protocol.initiate()
        await self._connection.receive_all(lambda data: self._protocol.handle(RawData(data)))
        if not self._is_closed:
            # GOAWAY names the last request that was processed, so the client knows which requests it may repeat.
            self._protocol.connection.close_connection()
            await self._send(RawData(self._protocol.connection.data_to_send()))
        await self._protocol.handle(Closed())
        await self._connection.close()

    async def _send(self, event: Event) -> None:
        """Write data of Hypercorn, or close the connection."""
        if isinstance(event, RawData):
            # h2 regards these bytes as sent, so they must be written even if the request is cancelled. The write is
            # bounded, because the engine cuts the connection of a client that does not read.
            with trio.CancelScope(shield=True):
                async with self._writing:
                    await self._connection.write(event.data)
        elif isinstance(event, Closed):
            self._is_closed = True
            self._connection.end()

    def _mark_activity(self) -> None:
        """Tell the engine whether the connection is busy, after a request or response has begun or ended."""
        if self._requests or self._protocol.stream_buffers:
            self._connection.mark_busy()
            return
        self._connection.mark_idle()
        if self._connection.engine.is_draining:
            self._connection.end()


class _Protocol(H2Protocol):
    def begin(self, on_change: Callable[[], None]) -> None:
        """Replace Hypercorn's initial state, before the first byte.

        Args:
            on_change: Called when a response has been written.
        """
        self.streams = _Streams(self._drop)
        self.stream_buffers = _Buffers(on_change)
        offered = self.connection.local_settings
        # ENABLE_CONNECT_PROTOCOL is left out, because it would offer WebSocket.
        kept = (SettingCodes.MAX_CONCURRENT_STREAMS, SettingCodes.MAX_HEADER_LIST_SIZE)
        self.connection.local_settings = Settings(client=False, initial_values={each: offered[each] for each in kept})
        self.connection.decoder.max_header_list_size = self.config.h2_max_header_list_size

    async def stream_send(self, event: StreamEvent) -> None:
        if isinstance(event, StreamClosed):
            await self._reset_unfinished(event.stream_id)
        await super().stream_send(event)

    async def _reset_unfinished(self, stream_id: int) -> None:
        """Reset the stream of a response that has failed. Otherwise the client would wait for its end."""
        buffer = self.stream_buffers.get(stream_id)
        if buffer is not None and not buffer.complete:
            try:
                self.connection.reset_stream(stream_id, ErrorCodes.INTERNAL_ERROR)
            except ProtocolError:
                return  # the client has reset the stream, or has disconnected
            await self.send(RawData(self.connection.data_to_send()))

    def _drop(self, stream_id: int) -> None:
        """Make the sending task drop a stream that was reset, with its unsent data."""
        buffer = self.stream_buffers.get(stream_id)
        if buffer is not None and not buffer.complete:
            # The sending task then tries to end the response, finds the stream closed, and deletes the buffer.
            buffer.buffer = bytearray()
            buffer.set_complete()
            self.priority.unblock(stream_id)


class _Streams(dict[int, Any]):
    """Streams by number. Data for a stream that Hypercorn has closed is discarded.

    Args:
        drop: Called with each stream that Hypercorn closes.
    """

    def __init__(self, drop: Callable[[int], None]) -> None:
        super().__init__()
        self._drop = drop

    def __missing__(self, stream_id: int) -> _Answered:
        return _ANSWERED

    def pop(self, stream_id: int, *default: Any) -> Any:
        stream = super().pop(stream_id, *default)
        self._drop(stream_id)
        return stream


class _Answered:
    async def handle(self, event: StreamEvent) -> None:
        pass


_ANSWERED = _Answered()


class _Buffers(dict[int, StreamBuffer]):
    """The unsent data by stream. Hypercorn deletes an item when it has written the end of the response."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        super().__init__()
        self._mark_activity = on_change

    def __delitem__(self, stream_id: int) -> None:
        super().__delitem__(stream_id)
        self._mark_activity()
