"""Two connected message channels in memory, for a client and a server in one process.

Tests and embedding programs use them. Messages are encoded and decoded, as on a network, so the two sides share no
objects.
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
"""Sends that are buffered in each direction; further ones wait. A few suffice, because one send contains the whole
content of an outbox."""


class MemoryChannel:
    """One end of a pair, a :class:`mcptrio.abc.MessageChannel`. Made by :func:`memory_channel_pair`."""

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
        try:
            arrived = await self._receiver.receive()
            for _ in range(self._receiver.statistics().current_buffer_used):
                arrived += self._receiver.receive_nowait()
        except trio.ClosedResourceError as error:
            raise ConnectionClosed("this end of the channel is closed") from error
        return [decode(data, self._limits) for data in arrived]

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        """Send all messages, or none if this is cancelled. Waits while the buffer is full."""
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
        """Close this end. The other end can still receive what was sent."""
        self._sender.close()
        self._receiver.close()
        await trio.lowlevel.checkpoint()


def memory_channel_pair(
    limits: MessageLimits = DEFAULT, *, client: MessageLimits = CLIENT_DEFAULT
) -> tuple[MessageChannel, MessageChannel]:
    """Return two connected channels, the client's end and the server's end.

    Args:
        limits: Limits of messages that the server's end receives.
        client: Limits of messages that the client's end receives. They are larger by default, because results are
            larger than requests.

    Raises:
        TypeError: An argument is not an instance of MessageLimits.
    """
    expect(limits, MessageLimits, "memory_channel_pair: limits")
    expect(client, MessageLimits, "memory_channel_pair: client")
    to_second, from_first = trio.open_memory_channel[list[bytes]](_SENDS)
    to_first, from_second = trio.open_memory_channel[list[bytes]](_SENDS)
    return MemoryChannel(to_second, from_second, limits=client), MemoryChannel(to_first, from_first, limits=limits)
