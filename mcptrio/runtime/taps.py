"""Taps: they see each message that a session receives and sends, from any moment on.

A recording is one. For a session without taps, a message costs one test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mcptrio.abc import MessageSink
from mcptrio.protocol.messages import Incoming, Message, Notification

__all__ = ["MessageTap", "TappedSink", "show_sent"]


class MessageTap(Protocol):
    """The methods do not block or raise."""

    def received(self, incoming: Incoming, /) -> None:
        """See a message or a batch of the peer."""
        ...

    def sent(self, item: Message | Sequence[Message], /) -> None:
        """See a message or a batch to the peer, before it is sent."""
        ...

    def ended(self) -> None:
        """The session has ended."""
        ...


class TappedSink:
    """A sink that shows each message to the taps of its session.

    Args:
        taps: The list of the session, which changes.
    """

    def __init__(self, sink: MessageSink, taps: Sequence[MessageTap]) -> None:
        self._sink = sink
        self._taps = taps
        self.close = sink.close
        self.release = sink.release

    async def send(self, message: Message | Sequence[Message]) -> None:
        # Before it is sent: the answer may arrive before this task continues.
        for tap in self._taps:
            tap.sent(message)
        await self._sink.send(message)

    def send_latest(self, message: Notification, key: object) -> None:
        for tap in self._taps:
            tap.sent(message)
        self._sink.send_latest(message, key)


def show_sent(taps: Sequence[MessageTap], items: Sequence[Message | Sequence[Message]]) -> None:
    """Show taps what the writer of a channel sends next."""
    for item in items:
        for tap in taps:
            tap.sent(item)
