"""What outlives a request, and perhaps the process; and the news between replicas."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from attrs import field, frozen

from mcptrio.abc.authorization import Principal

__all__ = [
    "Bus",
    "EventStore",
    "SessionRecord",
    "SessionStore",
    "StoredEvent",
]


@frozen(kw_only=True)
class SessionRecord:
    """A handshake session as every replica sees it. No replica owns it."""

    id: str
    revision: str
    principal: Principal | None = None
    client_info: Mapping[str, Any] = field(factory=dict)
    """The wire form of Implementation."""
    client_capabilities: Mapping[str, Any] = field(factory=dict)
    """The wire form of ClientCapabilities."""
    initialized: bool = False
    """Whether ``notifications/initialized`` has arrived."""
    log_level: str | None = None
    subscriptions: frozenset[str] = frozenset()
    """URIs of ``resources/subscribe``."""


class SessionStore(Protocol):
    """Handshake sessions between requests. A session expires by idle time; ``load`` counts as use.

    A store outside this process can fail. Then each method raises StoreFailed, and the next call tries again.
    """

    async def save(self, record: SessionRecord) -> None:
        """
        Raises:
            Overloaded: a new session, and the store is full of ones that have not expired.
        """
        ...

    async def load(self, id: str) -> SessionRecord | None: ...
    async def delete(self, id: str) -> bool:
        """Whether there was such a session."""
        ...

    async def expire(self) -> list[str]:
        """Drop sessions idle for too long, possibly not all of them at once.

        Returns:
            Their ids, and those that :meth:`save` has dropped to make room and whose events may still be kept.
        """
        ...


@frozen
class StoredEvent:
    """An event of a stream."""

    id: str
    """Unique in the session, visible ASCII; names its stream."""
    data: bytes
    """An encoded message; empty for a priming event."""


class EventStore(Protocol):
    """Messages of streams that can be resumed. An id is a position in its stream.

    A stream has one writer, the process that appends to it; everybody may read. A cancelled call has happened as a
    whole or not at all. What fails raises StoreFailed, as with :class:`SessionStore`.
    """

    async def append(
        self, session: str, stream: str, *data: bytes, last: bool = False, will: bytes | None = None
    ) -> StoredEvent:
        """Store one or several events in order. Readers find them when this returns.

        Args:
            data: the data of each event; at least one.
            last: whether the stream is complete.
            will: the fallback event, which becomes the last event of the stream if its writer ends before it has
                written one (MQTT's "will message"). ``None`` keeps the previous one; the first one is an event without
                data.

        Returns:
            The last stored event.

        Raises:
            ConnectionClosed: The stream is complete.
        """
        ...

    async def settle(self, session: str, stream: str) -> None:
        """The writer gives the stream up: append its will now, unless it is complete or unknown.

        A store that cannot do it now does it as soon as it can. It does the same for writers that are gone without
        having said so.
        """
        ...

    async def after(self, session: str, event_id: str) -> tuple[str, list[StoredEvent], bool] | None:
        """The stream of ``event_id``, later events of that stream, and whether these are the last.

        Of very many events only the first come; then they are not the last, and the caller asks again.
        ``None`` when the id is unknown, of another session, or something that followed it is dropped already.
        """
        ...

    async def read(self, session: str, stream: str, position: int) -> tuple[list[StoredEvent], bool]:
        """Events of a stream from ``position`` (0 is the first), and whether these are the last; as :meth:`after`."""
        ...

    async def completed_after(self, session: str, stream: str) -> list[str]:
        """The streams of the session that began after this one and are complete, in the order they began."""
        ...

    async def listen(self, wake: Callable[[str, str], None]) -> None:
        """Call ``wake`` with session and stream when another process may have stored an event there.

        For one caller at a time. Runs until cancelled.
        """
        ...

    async def drop(self, session: str) -> None:
        """Forget all streams of a session."""
        ...


class Bus(Protocol):
    """Small messages between replicas. May lose them; never the only copy of anything."""

    async def publish(self, topic: str, message: bytes) -> None: ...

    def subscribe(self, topic: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Messages published from now on. A slow reader loses the oldest."""
        ...
