"""One session of the transport of 2024-11-05 as a channel of messages: an outgoing stream, and incoming POSTs.

:mod:`mcptrio.http.server.legacy_sse` makes a channel for each GET, and the engine uses the channel like a pipe. Nothing
is buffered: a POST waits until the session has received its message, and the session waits until the client reads.

Source: MCP 2024-11-05, basic/transports, "HTTP with SSE"; WHATWG HTML 9.2 (event streams).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import inf
from typing import Final

import trio

from mcptrio.abc import Principal
from mcptrio.errors import ConnectionClosed
from mcptrio.http.server.exchange import Exchange
from mcptrio.protocol import sse
from mcptrio.protocol.jsonrpc import encode
from mcptrio.protocol.messages import Incoming, Message

__all__ = ["LegacyChannel"]

_CLIENT_DISCONNECTED: Final = "the client has disconnected"


class LegacyChannel:
    """See :class:`mcptrio.abc.MessageChannel`.

    Args:
        exchange: The GET, which becomes the stream.
        endpoint: The URL for the client's POSTs.
        principal: The principal of the session.
    """

    name = "sse"

    def __init__(self, exchange: Exchange, endpoint: str, principal: Principal | None) -> None:
        self.principal = principal
        self._exchange = exchange
        self._endpoint = endpoint
        self._writing = trio.Lock()
        self._last_written = trio.current_time()
        """Trio clock time of the last write."""
        # Capacity 0: nothing is buffered, and a POST is answered when the session has received its message.
        self._arriving, self._arrived = trio.open_memory_channel[Incoming](0)
        self._first_message_timeout: float = exchange.limits.body_timeout
        """Seconds to wait for the first message; infinity after it."""
        self._end_reason: str | None = None

    # The engine's side

    async def receive(self) -> list[Incoming]:
        """Return the message of one POST. The first call begins the stream.

        The first call waits at most ``body_timeout`` seconds, so a stream whose client sends nothing is closed.

        Raises:
            trio.EndOfChannel: No message came on a new stream.
            ConnectionClosed: The client has disconnected, or does not read.
        """
        # The endpoint event must be the first event (2024-11-05, "HTTP with SSE").
        if not self._exchange.is_streaming:
            # The keepalive task writes to the same response, and a comment must not split an event.
            async with self._writing:
                await self._exchange.write(sse.encode(self._endpoint.encode("ascii"), event="endpoint"))
        try:
            with trio.move_on_after(self._first_message_timeout):
                incoming = await self._arrived.receive()
                # After the first message, the client may be idle.
                self._first_message_timeout = inf
                return [incoming]
        except trio.ClosedResourceError as error:
            raise ConnectionClosed(self._end_reason or "the stream is closed") from error
        raise trio.EndOfChannel

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        """Send one event for each message or batch, all in one write.

        Raises:
            ConnectionClosed: The client has disconnected, or does not read.
        """
        if self._end_reason is not None:
            raise ConnectionClosed(self._end_reason)
        await self._write(b"".join([sse.encode(encode(message), event="message") for message in messages]))

    async def aclose(self) -> None:
        """End the stream. Later POSTs get 404."""
        self._arriving.close()
        self._arrived.close()
        exchange = self._exchange
        if exchange.is_streaming and not exchange.is_gone:
            async with self._writing:
                try:
                    await exchange.end()
                except ConnectionClosed:
                    pass
        else:
            await trio.lowlevel.checkpoint()

    # The exchanges' side

    @property
    def owner(self) -> Hashable:
        """The client for which the messages are counted."""
        return self._exchange.owner

    def disconnected(self) -> None:
        """Break the channel, because the client has closed the stream."""
        self.end(_CLIENT_DISCONNECTED)

    async def keep_alive(self) -> None:
        """Send a comment after each ``keepalive_interval`` seconds without output.

        Returns when a write fails, because the client has disconnected or does not read.
        """
        interval = self._exchange.limits.keepalive_interval
        try:
            while True:
                await trio.sleep_until(self._last_written + interval)
                if not self._exchange.is_streaming:
                    # The endpoint event is not sent yet. A comment would begin the response before it.
                    self._last_written = trio.current_time()
                # If an event was sent during the sleep, no comment is needed.
                elif trio.current_time() - self._last_written >= interval:
                    await self._write(sse.comment())
        except ConnectionClosed as error:
            self.end(str(error))

    async def deliver(self, incoming: Incoming) -> None:
        """Deliver the message of a POST, and return when the session has received it.

        The call waits while the client reads too slowly. A cancelled call has delivered nothing.

        Raises:
            ConnectionClosed: The session has ended.
        """
        try:
            await self._arriving.send(incoming)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionClosed(self._end_reason or "the session has ended") from error

    def end(self, reason: str) -> None:
        """Break the channel, which ends the session and its stream."""
        if self._end_reason is None:
            self._end_reason = reason
        # Wakes receive() and every POST that waits in deliver().
        self._arrived.close()

    # Private

    async def _write(self, data: bytes) -> None:
        async with self._writing:
            await self._exchange.write(data)
            self._last_written = trio.current_time()
