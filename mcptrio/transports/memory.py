"""Two message channels connected in memory, for a client and a server in one process.

Used by tests and embedders. What one side sends is encoded, and decoded by the other, so both see exactly what a wire
would carry, and no object is shared between them.
The one rule: a send waits until there is room, and arrives as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from mcptrio.abc import MessageChannel
from mcptrio.errors import ConnectionClosed
from mcptrio.ground.expected import expect
from mcptrio.protocol.jsonrpc import decode, encode
from mcptrio.protocol.limits import CLIENT_DEFAULT, DEFAULT, MessageLimits
from mcptrio.protocol.messages import Incoming, Message

__all__ = ["MemoryChannel", "memory_channel_pair"]

_SENDS = 16
"""Sends under way in one direction; the next one waits. A send holds what one outbox held, so few are enough."""


class MemoryChannel:
    """One end of a pair. Made by :func:`memory_channel_pair`."""

    name = "memory"

    def __init__(
        self,
        sender: trio.MemorySendChannel[list[bytes]],
        receiver: trio.MemoryReceiveChannel[list[bytes]],
        *,
        limits: MessageLimits = DEFAULT,
    ) -> None:
        self._sender = sender
        self._receiver = receiver
        self._limits = limits

    async def receive(self) -> list[Incoming]:
        """Everything that has arrived, at least one item.

        Raises:
            trio.EndOfChannel: the other end is closed, and everything has been received.
            ConnectionClosed: this end is closed.
        """
        try:
            arrived = await self._receiver.receive()
            for _ in range(self._receiver.statistics().current_buffer_used):
                arrived += self._receiver.receive_nowait()
        except trio.ClosedResourceError as error:
            raise ConnectionClosed("this end of the channel is closed") from error
        return [decode(data, self._limits) for data in arrived]

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        """Send all of it; waits while too much is under way.

        Raises:
            ConnectionClosed: one of the ends is closed.
        """
        encoded = [encode(message) for message in messages]
        if not encoded:
            await trio.lowlevel.checkpoint()
            return
        try:
            await self._sender.send(encoded)
        except trio.ClosedResourceError as error:
            raise ConnectionClosed("this end of the channel is closed") from error
        except trio.BrokenResourceError as error:
            raise ConnectionClosed("the other end of the channel is closed") from error

    async def aclose(self) -> None:
        """Close this end: the other one receives what is under way, and then the end."""
        self._sender.close()
        self._receiver.close()
        await trio.lowlevel.checkpoint()


def memory_channel_pair(
    limits: MessageLimits = DEFAULT, *, client: MessageLimits = CLIENT_DEFAULT
) -> tuple[MessageChannel, MessageChannel]:
    """Two ends, for a client and a server: what is sent on one is received on the other.

    Args:
        limits: of what the server's end, the second one, receives.
        client: of what the client's end receives. More: results are larger than what is asked.

    Raises:
        TypeError: one of them is of another class.
    """
    expect(limits, MessageLimits, "memory_channel_pair: limits")
    expect(client, MessageLimits, "memory_channel_pair: client")
    to_second, from_first = trio.open_memory_channel[list[bytes]](_SENDS)
    to_first, from_second = trio.open_memory_channel[list[bytes]](_SENDS)
    return MemoryChannel(to_second, from_second, limits=client), MemoryChannel(to_first, from_first, limits=limits)
