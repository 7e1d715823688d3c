"""Stores for state that outlives a request and possibly the process, and the bus between replicas."""

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
    # Bound at initialize. Every later request of the session must have the same principal.
    principal: Principal | None = None
    client_info: Mapping[str, Any] = field(factory=dict)
    """The wire form of Implementation."""
    # Kept, because another replica must know what it may ask this client.
    client_capabilities: Mapping[str, Any] = field(factory=dict)
    """The wire form of ClientCapabilities."""
    initialized: bool = False
    """Whether ``notifications/initialized`` has arrived."""
    log_level: str | None = None
    subscriptions: frozenset[str] = frozenset()
    """URIs of ``resources/subscribe``."""


class SessionStore(Protocol):
    """Handshake sessions between requests. A session expires when it is idle; ``load`` counts as use.

    A store outside this process can fail. Then each method raises StoreFailed, and the next call tries again.
    """

    async def save(self, record: SessionRecord) -> None:
        """Store a new or changed record.
        Raises:
            Overloaded: the session is new, and the store is full of unexpired ones.
        """
        ...

    async def load(self, id: str) -> SessionRecord | None: ...
    async def delete(self, id: str) -> bool:
        """Delete a session. Returns whether it existed."""
        ...

    async def expire(self) -> list[str]:
        """Drop sessions idle for too long, possibly not all of them at once.

        Returns:
            Their ids, and those that :meth:`save` has dropped to make room. Their events may still be stored.
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
    """Messages of streams that clients can resume. An event's id is a position in its stream.

    A stream has one writer, the process that appends to it; every process may read. A cancelled call happens
    completely or not at all. A failure raises StoreFailed, as with :class:`SessionStore`.
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
        """Append the will of a stream that its writer gives up, unless the stream is complete or unknown.

        A store that cannot do it now does it as soon as it can. It does the same for writers that have ended without
        calling this.
        """
        ...

    async def after(self, session: str, event_id: str) -> tuple[str, list[StoredEvent], bool] | None:
        """Return the stream of ``event_id``, its later events, and whether these are the last.

        A long list is returned in parts; then the events are not the last, and the caller asks again.
        ``None`` if the id is unknown, belongs to another session, or a later event was already dropped.
        """
        ...

    async def read(self, session: str, stream: str, position: int) -> tuple[list[StoredEvent], bool]:
        """Return events from ``position`` (0 is the first), and whether these are the last; like :meth:`after`."""
        ...

    async def completed_after(self, session: str, stream: str) -> list[str]:
        """Return the complete streams of the session that began after this one, in the order of their beginning."""
        ...

    async def listen(self, wake: Callable[[str, str], None]) -> None:
        """Call ``wake`` with session and stream when another process may have stored an event there.

        Runs until cancelled, for one caller at a time.
        """
        ...

    async def drop(self, session: str) -> None:
        """Delete all streams of a session."""
        ...


class Bus(Protocol):
    """Small messages between replicas. It may lose messages, so no message is the only copy of anything."""

    async def publish(self, topic: str, message: bytes) -> None: ...

    def subscribe(self, topic: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Receive the messages published from now on. A slow reader loses the oldest."""
        ...
