"""The messages of one event stream, and the position for resuming it.

Responses to requests and the GET streams of sessions are read with it. The end of a stream is not an error: the caller
gets the reason and decides whether to reconnect.

Source: WHATWG HTML, 9.2; MCP 2025-11-25, basic/transports, "Resumability and Redelivery" and "Sending Messages to the
Server" 6 (``retry``, events without data).
"""

from __future__ import annotations

from typing import Final

from attrs import define

from mcptrio.errors import RemoteProtocolError, RequestFailed
from mcptrio.ground.backoff import add_jitter
from mcptrio.http.client.connection import HTTPResponse
from mcptrio.protocol.jsonrpc import decode
from mcptrio.protocol.limits import MessageLimits
from mcptrio.protocol.messages import Incoming
from mcptrio.protocol.sse import SSEDecoder

__all__ = ["MAX_RETRY_SECONDS", "EventStream", "StreamPosition"]

MAX_ID_CHARS: Final = 4096
"""Characters of an event id that is sent back in a header."""

DEFAULT_RETRY_SECONDS: Final = 1.0
"""Seconds before a reconnection if the server has not sent ``retry``."""
MIN_RETRY_SECONDS: Final = 0.1
"""Minimum seconds before a reconnection, whatever the server sends."""
MAX_RETRY_SECONDS: Final = 30.0
"""Maximum seconds before a reconnection, whatever the server sends and however many attempts failed."""


@define
class StreamPosition:
    """The position in a stream, and the time to reconnect."""

    last_event_id: str = ""
    """The id of the last event; empty if the stream cannot be resumed."""
    retry_ms: int | None = None
    """The pause that the server requests, in milliseconds."""
    failures: int = 0
    """Consecutive reconnections that brought nothing."""

    def pause(self) -> float:
        """Return the seconds until the next attempt: those that the server requests, or more after failed attempts."""
        if self.retry_ms is None:
            # Randomized, so that the clients of a restarting server do not all reconnect at the same moment.
            seconds = add_jitter(DEFAULT_RETRY_SECONDS)
        else:
            seconds = self.retry_ms / 1000
        backoff = add_jitter(DEFAULT_RETRY_SECONDS * 2 ** min(self.failures - 1, 10)) if self.failures else 0.0
        return min(max(seconds, backoff, MIN_RETRY_SECONDS), MAX_RETRY_SECONDS)


class EventStream:
    """Reads the messages of one event stream.

    Args:
        position: Updated while the stream is read.
    """

    def __init__(self, response: HTTPResponse, position: StreamPosition, limits: MessageLimits) -> None:
        self._response = response
        self._position = position
        self._limits = limits
        self._decoder = SSEDecoder(limits.bytes)
        self.end = ""
        """The reason why the stream has ended."""

    async def read(self) -> list[Incoming] | None:
        """Return the messages in the next bytes, possibly none; ``None`` at the end.

        Raises:
            RequestFailed: An event is larger than the limit of a message.
            ConnectionClosed: The connection was closed here.
        """
        try:
            chunk = await self._response.read()
        except RequestFailed as error:
            self.end = str(error)
            return None
        if not chunk:
            self.end = "the stream ended"
            return None
        try:
            events = self._decoder.feed(chunk)
        except RemoteProtocolError as error:
            raise RequestFailed(str(error), status=self._response.status) from error
        if id := self._decoder.last_event_id:
            sendable = len(id) <= MAX_ID_CHARS and id.isprintable() and id == id.strip()
            # A header cannot carry every id, and without the header the stream cannot be resumed.
            self._position.last_event_id = id if sendable else ""
        if self._decoder.retry is not None:
            self._position.retry_ms = self._decoder.retry
        # An event without data only brings an id. Events of other types are ignored.
        return [decode(event.data, self._limits) for event in events if event.data and event.event == "message"]
