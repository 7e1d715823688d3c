"""Messages between the local parts of one session on several replicas.

The sessions use it. A message contains only the part of the stores that has changed: the record, the inbox or the
events. So a lost message only causes a delay, until the next request of the session or the next search for idle
sessions. There is one exception: after a lost ``resumed``, a client that reads one stream on two connections may get an
event on both.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from enum import Enum
from typing import Final

from mcptrio.abc import INBOX_MESSAGE, Bus, session_topic, wake_message
from mcptrio.protocol.messages import Batch, ErrorResponse, Malformed, Message, Notification, Response

__all__ = ["Notice", "Replicas", "is_for_any_replica", "messages_of"]


class Notice(Enum):
    """An event of a session on another replica. The value is the first word of the message."""

    WAKE = wake_message("").strip()
    """A stream has new events."""
    INBOX = INBOX_MESSAGE
    """The inbox has a new message."""
    RECORD = b"record"
    """The record has a new version."""
    RESUMED = b"resumed"
    """The client now reads a stream on another replica."""
    END = b"end"
    """The session has ended."""
    LOST = b"lost"
    """The bus may have lost messages. This notice is made here and never sent."""


_NOTICES: Final = {notice.value: notice for notice in Notice}


class Replicas:
    """The connection to the other replicas.

    Args:
        bus: ``None`` if there are no other replicas. Then the methods do nothing.
    """

    def __init__(self, bus: Bus | None) -> None:
        self._bus = bus
        # The bus delivers the messages of this process too. The name identifies them, so that they are ignored.
        self._name = secrets.token_urlsafe(6)
        self.is_enabled = bus is not None

    def publish(self, session: str, notice: Notice, detail: str = "") -> None:
        """Publish a notice to the local parts of the session on other replicas."""
        if self._bus is not None:
            self._bus.publish(
                session_topic(session), b"%b %b %b" % (notice.value, detail.encode(), self._name.encode())
            )

    def follow(self, session: str, on_notice: Callable[[Notice, str], None]) -> Callable[[], None]:
        """Call ``on_notice`` for each notice of another replica or a store. Return a function that unsubscribes."""
        if self._bus is None:
            return _do_nothing
        return self._bus.follow(session_topic(session), _Receiver(on_notice, self._name))


class _Receiver:
    """Reads the messages of the bus for one session. A closure would take 100 bytes more than this object."""

    __slots__ = ("_name", "_on_notice")

    def __init__(self, on_notice: Callable[[Notice, str], None], name: str) -> None:
        self._on_notice = on_notice
        self._name = name

    def __call__(self, message: bytes | None) -> None:
        if message is None:
            self._on_notice(Notice.LOST, "")
            return
        kind, _, rest = message.partition(b" ")
        detail, _, sender = rest.decode("utf-8", "replace").partition(" ")
        # A newer version of mcptrio may send an unknown notice.
        notice = _NOTICES.get(kind)
        if notice is not None and sender != self._name:
            self._on_notice(notice, detail)


def messages_of(incoming: Message | Batch) -> list[Message]:
    """Return the valid messages of a POST."""
    if isinstance(incoming, Batch):
        return [message for message in incoming.messages if not isinstance(message, Malformed)]
    return [incoming]


def is_for_any_replica(message: Message) -> bool:
    """Return whether the message is an answer or a cancellation, whose request may run on another replica."""
    if isinstance(message, Notification):
        return message.method == "notifications/cancelled"
    return isinstance(message, (Response, ErrorResponse))


def _do_nothing() -> None:
    pass
