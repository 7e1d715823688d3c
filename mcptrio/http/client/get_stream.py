"""The GET stream of a session, with the server's unsolicited messages.

The link runs it in its nursery after the handshake, and it reconnects when a stream ends. A stream is successful only
if it lasts for some time or brings a message. If a server ends every stream at once, the pauses grow.

Source: MCP 2025-11-25, basic/transports, "Listening for Messages from the Server" and "Resumability and Redelivery".
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import trio

from mcptrio.abc.links import Receiver
from mcptrio.errors import AuthorizationError, ConnectionClosed, ConsentNeeded, RequestFailed
from mcptrio.http.client.connection import HTTPResponse
from mcptrio.http.client.event_stream import MAX_RETRY_SECONDS, EventStream, StreamPosition
from mcptrio.http.client.responses import read_retry_after
from mcptrio.http.headers import EVENT_STREAM
from mcptrio.protocol.limits import MessageLimits
from mcptrio.protocol.messages import Batch, Incoming, Notification, Request

__all__ = ["MIN_STREAM_SECONDS", "GETStream", "Get", "is_temporary"]

_log = logging.getLogger("mcptrio.http.client")

MIN_STREAM_SECONDS: Final = 5.0
"""Seconds after which a stream without a message is successful too."""
_TEMPORARY_STATUSES: Final = frozenset({408, 409, 425, 429})
"""Statuses after which a later request may succeed. 409: the server has not noticed that the previous stream ended."""

Get: TypeAlias = Callable[[StreamPosition], Awaitable[HTTPResponse]]
"""Sends a GET that continues after a position."""


class GETStream:
    """Reads the GET stream of a session, and reconnects when the stream ends.

    Args:
        get: Opens the stream.
        lost: Called when the server has forgotten the session.
    """

    def __init__(self, get: Get, receive: Receiver, limits: MessageLimits, *, lost: Callable[[], None]) -> None:
        self._get = get
        self._receive = receive
        self._limits = limits
        self._lost = lost
        self._position = StreamPosition()
        self._retry_after = 0.0
        """``Retry-After`` of the last refusal, in seconds."""

    async def run(self) -> None:
        """Read streams until cancelled, or until the server refuses to open one."""
        try:
            while True:
                began = trio.current_time()
                try:
                    response = await self._get(self._position)
                    had_message = await self._read_stream(response)
                except ConsentNeeded as needed:
                    await needed.ask()
                    had_message = False
                except RequestFailed as error:
                    _log.debug("the GET stream broke: %s", error)
                    had_message = False if error.status is None or is_temporary(error.status) else None
                if had_message is None:
                    return
                lasted = trio.current_time() - began >= MIN_STREAM_SECONDS
                self._position.failures = 0 if had_message or lasted else self._position.failures + 1
                await trio.sleep(max(self._position.pause(), min(self._retry_after, MAX_RETRY_SECONDS)))
                self._retry_after = 0.0
        except AuthorizationError as error:
            _log.warning("the server's notifications are no longer received: %s", error)
        except ConnectionClosed as error:
            _log.debug("the GET stream has ended: %s", error)

    async def _read_stream(self, response: HTTPResponse) -> bool | None:
        """Read one stream. Return whether it brought a message; ``None`` if the server has no such stream."""
        try:
            if 400 <= response.status < 500 and self._position.last_event_id:
                # The server may only have dropped the event, so try once more without an event id.
                self._position.last_event_id = ""
                return False
            if response.status == 404:
                self._lost()
            self._retry_after = read_retry_after(response.headers) or 0.0
            if response.status != 200 or response.media_type != EVENT_STREAM:
                return False if is_temporary(response.status) else None
            had_message = False
            stream = EventStream(response, self._position, self._limits)
            while (messages := await stream.read()) is not None:
                for incoming in messages:
                    self._receive_all(incoming)
                    had_message = True
            return had_message
        finally:
            response.close()

    def _receive_all(self, incoming: Incoming) -> None:
        if isinstance(incoming, Batch):
            for message in incoming.messages:
                self._receive_all(message)
        elif isinstance(incoming, Request | Notification):
            self._receive(incoming)
        else:
            # A response may come only on the stream of its request (2025-11-25, "Listening for Messages", rule 4).
            _log.debug("ignored on the GET stream: %s", type(incoming).__name__)


def is_temporary(status: int) -> bool:
    """Return whether a later request may succeed after this status."""
    return status >= 500 or status in _TEMPORARY_STATUSES
