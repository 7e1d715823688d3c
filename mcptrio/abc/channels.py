"""What carries messages: pipes to one peer, and the ways out of the process for one request."""

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
    """For logs and the tree: ``stdio``, ``memory``, ``tcp``."""

    async def receive(self) -> Sequence[Incoming]:
        """Everything that has arrived, at least one item.

        Raises:
            trio.EndOfChannel: the peer has closed its side.
            ConnectionClosed: the pipe broke.
        """
        ...

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        """Write all of it in one go; an inner sequence is one JSON-RPC batch. One task calls this at a time.

        Raises:
            ConnectionClosed: the pipe broke.
        """
        ...

    async def aclose(self) -> None: ...


@runtime_checkable
class SynchronousChannel(MessageChannel, Protocol):
    """A channel that can write a short message without waiting."""

    def send_now(self, message: Message) -> bool:
        """Write it at once where it can be written as a whole, otherwise nothing of it. Not while ``send`` runs.

        Returns:
            Whether it was written. What is wrong, if something is, the next ``send`` tells.
        """
        ...


class MessageSink(Protocol):
    """Where the messages about one request (or about none) go out."""

    async def send(self, message: Message | Sequence[Message]) -> None:
        """Hand a message over; waits while the outlet is full.

        Raises:
            ConnectionClosed: the outlet is closed; the message goes nowhere.
        """
        ...

    def offer(self, message: Notification, key: object) -> None:
        """Hand over a message that only matters while it is the newest with its key. Never waits.

        In a full outlet it takes the place of an earlier one with the same key that is still queued, or is held back
        until there is room; of very many keys the rest is dropped.
        On a closed outlet nothing happens.
        """
        ...

    def close(self) -> None:
        """Nothing more will be sent. What is queued still goes out."""
        ...

    def release(self, retry_ms: int) -> bool:
        """Let the client go, to come back in ``retry_ms`` milliseconds for the rest.

        Returns:
            Whether this outlet can: only streams that a client can resume do.
        """
        ...
