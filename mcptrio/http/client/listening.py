"""The GET stream of a session, with the server's unsolicited messages.

The link runs it in its nursery after the handshake. It reconnects automatically. A stream counts as successful only if
it lasted for some time or brought a message; if a server ends every stream at once, the pauses grow.

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
"""Seconds after which a stream counts as successful even without a message."""
_FOR_NOW: Final = frozenset({408, 409, 425, 429})
"""Temporary refusals. 409: the server has not noticed yet that the previous stream is gone."""

Get: TypeAlias = Callable[[StreamPosition], Awaitable[HTTPResponse]]
"""Sends a GET that continues after a position."""


class GETStream:
    """Listens on the GET stream of a session, and reconnects when it ends.

    Args:
        get: Opens the stream.
        lost: A function called when the server has forgotten the session.
    """

    def __init__(self, get: Get, receive: Receiver, limits: MessageLimits, *, lost: Callable[[], None]) -> None:
        self._get = get
        self._receive = receive
        self._limits = limits
        self._lost = lost
        self._bookmark = StreamPosition()
        self._retry_after = 0.0
        """``Retry-After`` of the last refusal, in seconds."""

    async def run(self) -> None:
        """Listen until the server has no such stream, or until cancelled."""
        try:
            while True:
                began = trio.current_time()
                try:
                    response = await self._get(self._bookmark)
                    brought = await self._read_stream(response)
                except ConsentNeeded as needed:
                    await needed.ask()
                    brought = False
                except RequestFailed as error:
                    _log.debug("the GET stream broke: %s", error)
                    brought = False if error.status is None or is_temporary(error.status) else None
                if brought is None:
                    return
                lived = trio.current_time() - began >= MIN_STREAM_SECONDS
                self._bookmark.failures = 0 if brought or lived else self._bookmark.failures + 1
                await trio.sleep(max(self._bookmark.pause(), min(self._retry_after, MAX_RETRY_SECONDS)))
                self._retry_after = 0.0
        except AuthorizationError as error:
            _log.warning("the server's notifications are no longer received: %s", error)
        except ConnectionClosed as error:
            _log.debug("the GET stream has ended: %s", error)

    async def _read_stream(self, response: HTTPResponse) -> bool | None:
        """Read one stream. Returns whether it brought a message; ``None`` if the server has no such stream."""
        try:
            if 400 <= response.status < 500 and self._bookmark.last_event_id:
                # The server may have dropped only the event, so try once more without it.
                self._bookmark.last_event_id = ""
                return False
            if response.status == 404:
                self._lost()
            self._retry_after = read_retry_after(response.headers) or 0.0
            if response.status != 200 or response.media_type != EVENT_STREAM:
                return False if is_temporary(response.status) else None
            brought = False
            stream = EventStream(response, self._bookmark, self._limits)
            while (messages := await stream.read()) is not None:
                for incoming in messages:
                    self._take(incoming)
                    brought = True
            return brought
        finally:
            response.close()

    def _take(self, incoming: Incoming) -> None:
        if isinstance(incoming, Batch):
            for message in incoming.messages:
                self._take(message)
        elif isinstance(incoming, Request | Notification):
            self._receive(incoming)
        else:
            # A response may come only on the stream of its request (2025-11-25, "Listening for Messages", rule 4).
            _log.debug("ignored on the GET stream: %s", type(incoming).__name__)


def is_temporary(status: int) -> bool:
    """Return whether a later request may succeed after this status."""
    return status >= 500 or status in _FOR_NOW
