"""Taps, which see each message that a session receives and sends. A recording uses one.

A tap can be added to a running session. In a session without taps, a message costs one comparison more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mcptrio.abc import MessageSink
from mcptrio.protocol.messages import Incoming, Message, Notification

__all__ = ["MessageTap", "TappedSink", "show_sent"]


class MessageTap(Protocol):
    """Receives the messages of a session. The methods do not block or raise."""

    def received(self, incoming: Incoming, /) -> None:
        """Called with a message or a batch that the peer has sent."""
        ...

    def sent(self, item: Message | Sequence[Message], /) -> None:
        """Called with a message or a batch before it is sent to the peer."""
        ...

    def ended(self) -> None:
        """Called when the session has ended."""
        ...


class TappedSink:
    """A sink that passes each message to the taps of its session.

    Args:
        taps: The list of the session, to which taps may be added later.
    """

    def __init__(self, sink: MessageSink, taps: Sequence[MessageTap]) -> None:
        self._sink = sink
        self._taps = taps
        self.close = sink.close
        self.release = sink.release

    async def send(self, message: Message | Sequence[Message]) -> None:
        # Taps see a message before it is sent, because the answer may arrive before this task continues.
        for tap in self._taps:
            tap.sent(message)
        await self._sink.send(message)

    def send_latest(self, message: Notification, key: object) -> None:
        for tap in self._taps:
            tap.sent(message)
        self._sink.send_latest(message, key)


def show_sent(taps: Sequence[MessageTap], items: Sequence[Message | Sequence[Message]]) -> None:
    """Pass messages to the taps before the writer of a channel sends them."""
    for item in items:
        for tap in taps:
            tap.sent(item)
