"""Interfaces of message channels to one peer, and of sinks for the messages about one request.

:mod:`mcptrio.transports` and :mod:`mcptrio.http` implement them; the server's engine and the client use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from mcptrio.protocol.messages import Incoming, Message, Notification

__all__ = [
    "MessageChannel",
    "MessageSink",
    "SynchronousChannel",
]


class MessageChannel(Protocol):
    """Messages to and from one peer over one pipe: stdio, a socket, memory."""

    name: str
    """The name of the transport for logs, errors and the status: ``stdio``, ``memory``, ``tcp``. It may include a path
    or an address."""

    async def receive(self) -> Sequence[Incoming]:
        """Return everything that has arrived, waiting for at least one item.

        Raises:
            trio.EndOfChannel: The peer has closed its side.
            ConnectionClosed: The connection broke.
        """
        ...

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        """Write all messages together; an inner sequence is one JSON-RPC batch. One task calls this at a time.

        Raises:
            ConnectionClosed: The connection broke.
        """
        ...

    async def aclose(self) -> None:
        """Close the channel. Pending calls raise ConnectionClosed."""
        ...


@runtime_checkable
class SynchronousChannel(MessageChannel, Protocol):
    """A channel that can write a short message without waiting."""

    def send_now(self, message: Message) -> bool:
        """Write a message without waiting, completely or not at all. Must not be called while ``send`` runs.

        Returns:
            True if the message was written. The next ``send`` raises the error, if there was one.
        """
        ...


class MessageSink(Protocol):
    """The destination of the messages about one request, or of those that belong to no request."""

    async def send(self, message: Message | Sequence[Message]) -> None:
        """Send a message, waiting while the sink is full.

        Raises:
            ConnectionClosed: The sink is closed; the message was not sent.
        """
        ...

    def send_latest(self, message: Notification, key: object) -> None:
        """Send a message that only matters while it is the newest with its key. Does not block.

        A full sink replaces a queued message with the same key, or keeps the message until there is room. The number
        of keys is limited; messages with further keys are dropped. Does nothing on a closed sink.
        """
        ...

    def close(self) -> None:
        """Accept no more messages. Queued messages are still sent."""
        ...

    def release(self, retry_ms: int) -> bool:
        """Close the connection; the client reconnects after ``retry_ms`` milliseconds for the remaining messages.

        Returns:
            True if the connection is closed. False for a sink whose stream the client cannot resume.
        """
        ...
