"""One session of the transport of 2024-11-05 as a channel of messages: an outgoing stream, and incoming POSTs.

:mod:`mcptrio.http.server.legacy_sse` makes it for a GET, and the engine uses it like a pipe. Nothing is buffered: a
POST waits until the session has accepted its message, and the session waits until the client reads.

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

_CLIENT_DISCONNECTED: Final = "the client has left"


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
        self._written = trio.current_time()
        """When something was last written."""
        # Capacity 0: a POST is answered when the session has taken its message, so nothing is buffered.
        self._arriving, self._arrived = trio.open_memory_channel[Incoming](0)
        self._first_message_timeout: float = exchange.limits.body_timeout
        """Seconds for which the next message is waited for."""
        self._broken: str | None = None

    # The engine's side

    async def receive(self) -> list[Incoming]:
        """The message of one POST. The first call begins the stream, and waits ``body_timeout`` seconds at most.

        So a client that opens streams and says nothing does not keep them.

        Raises:
            trio.EndOfChannel: Nothing came on a new stream.
            ConnectionClosed: The client has left, or does not read.
        """
        # The endpoint event has to be the first one (2024-11-05, "HTTP with SSE").
        if not self._exchange.is_streaming:
            # The keepalive task writes to the same response, and a comment must not split an event.
            async with self._writing:
                await self._exchange.write(sse.encode(self._endpoint.encode("ascii"), event="endpoint"))
        try:
            with trio.move_on_after(self._first_message_timeout):
                incoming = await self._arrived.receive()
                # Later the client may be idle: it may have no request to send.
                self._first_message_timeout = inf
                return [incoming]
        except trio.ClosedResourceError as error:
            raise ConnectionClosed(self._broken or "the stream is closed") from error
        raise trio.EndOfChannel

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        """One event for each, all in one write.

        Raises:
            ConnectionClosed: The client has left, or does not read.
        """
        if self._broken is not None:
            raise ConnectionClosed(self._broken)
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
        """The client that its messages count for."""
        return self._exchange.owner

    def leave(self) -> None:
        """The client has closed the stream, which breaks the channel like a pipe."""
        self.end(_CLIENT_DISCONNECTED)

    async def keep_alive(self) -> None:
        """Send a comment after each ``keepalive_interval`` seconds without output, until the client does not read."""
        interval = self._exchange.limits.keepalive_interval
        try:
            while True:
                await trio.sleep_until(self._written + interval)
                if not self._exchange.is_streaming:
                    # Before the endpoint event: a comment now would begin the response without it.
                    self._written = trio.current_time()
                # An event may have left during the sleep; then the client knows already that we are alive.
                elif trio.current_time() - self._written >= interval:
                    await self._write(sse.comment())
        except ConnectionClosed as error:
            self.end(str(error))

    async def deliver(self, incoming: Incoming) -> None:
        """Hand over the message of a POST, and return when the session has taken it.

        It waits as long as the client reads too slowly. A cancelled call has handed over nothing.

        Raises:
            ConnectionClosed: The session has ended.
        """
        try:
            await self._arriving.send(incoming)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionClosed(self._broken or "the session has ended") from error

    def end(self, reason: str) -> None:
        """Break the channel, which ends the session and its stream."""
        if self._broken is None:
            self._broken = reason
        # Wakes receive() and every POST that waits in deliver().
        self._arrived.close()

    # Private

    async def _write(self, data: bytes) -> None:
        async with self._writing:
            await self._exchange.write(data)
            self._written = trio.current_time()
