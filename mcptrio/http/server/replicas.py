"""Messages between the local parts of one session on several replicas.

The sessions use it. For each session it sends the events that matter on other replicas: the client's answer to a
question, a cancellation, a changed log level, the end, a wake-up for the reader of a stream, and the replica that the
client listens to. The bus may lose messages. A lost answer costs the question's timeout, a lost wake-up a delay, and a
lost end nothing, because the store is asked first. After a lost change of the listening replica, a client with streams
on both may get an unsolicited message twice, until it listens again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Final

import orjson

from mcptrio.abc import Bus
from mcptrio.protocol.jsonrpc import encode
from mcptrio.protocol.messages import Batch, ErrorResponse, Malformed, Message, Notification, Request, Response

__all__ = ["Replicas"]

_CHANGING: Final = frozenset(
    {"notifications/initialized", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
)
"""The messages that change the record of a session; each may be repeated without harm."""


class Replicas:
    """The connection to the other replicas.

    Args:
        bus: ``None`` if there are none; then all methods do nothing.
    """

    def __init__(self, bus: Bus | None) -> None:
        self._bus = bus
        # The bus delivers our own messages as well; the name lets us skip them.
        self._self = secrets.token_urlsafe(6)
        self.exist = bus is not None

    async def tell(self, session: str, news: Mapping[str, str]) -> None:
        """Publish to the local parts of the session elsewhere."""
        if self._bus is not None:
            await self._bus.publish(f"session:{session}", orjson.dumps({"from": self._self, **news}))

    async def pass_on(self, session: str, incoming: Message | Batch) -> None:
        """Publish answers and cancellations: the request that they belong to may run on another replica."""
        if self._bus is not None:
            messages = [message for message in _messages(incoming) if _travels(message)]
            if messages:
                await self.tell(session, {"message": encode(messages).decode()})

    async def repeat(self, session: str, served: Message | Batch) -> None:
        """Publish a message that changes the session's record, so that the other replicas repeat the change."""
        if self._bus is not None:
            messages = [message for message in _messages(served) if _changes(message)]
            if messages:
                await self.tell(session, {"message": encode(messages).decode()})

    async def follow(self, session: str, hear: Callable[[Mapping[str, str]], None]) -> None:
        """Call ``hear`` with each message from another replica, until cancelled."""
        if self._bus is None:
            return
        async with self._bus.subscribe(f"session:{session}") as arriving:
            async for data in arriving:
                news = orjson.loads(data)
                # Our own part has done it already.
                if news["from"] != self._self:
                    hear(news)


def _messages(incoming: Message | Batch) -> list[Message]:
    if isinstance(incoming, Batch):
        return [message for message in incoming.messages if not isinstance(message, Malformed)]
    return [incoming]


def _changes(message: Message) -> bool:
    return isinstance(message, (Request, Notification)) and message.method in _CHANGING


def _travels(message: Message | Batch) -> bool:
    if isinstance(message, Notification):
        return message.method == "notifications/cancelled"
    return isinstance(message, (Response, ErrorResponse))
