"""Interfaces of the stores, for state that outlives a request or the process, and of the bus between replicas.

A *replica* is one process that serves. Replicas with the same stores serve the same sessions. The stores are
authoritative; the bus only tells other replicas to read them, so a lost message only causes a delay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, Protocol, runtime_checkable

from attrs import field, frozen

from mcptrio.abc.authorization import Principal
from mcptrio.abc.status import StoreStatus
from mcptrio.abc.tasks import TaskStore

__all__ = [
    "INBOX_MESSAGE",
    "STORE_RETRY_SECONDS",
    "Bus",
    "EffectClaim",
    "EffectState",
    "EffectStore",
    "EventStore",
    "QuotaStore",
    "ReplayStore",
    "SessionRecord",
    "SessionStore",
    "StoredEvent",
    "Stores",
    "UsesStores",
    "session_topic",
    "wake_message",
]

STORE_RETRY_SECONDS: Final = 5.0
"""Seconds that a client should wait before it retries a request that failed because of a store."""
INBOX_MESSAGE: Final = b"inbox"
"""Published on the topic of a session when its inbox has a new message."""


@frozen(kw_only=True)
class SessionRecord:
    """A handshake session as every replica sees it. No replica owns it."""

    id: str
    revision: str
    """Empty for a stream of HTTP with SSE, whose session stays in the process that has the stream."""
    # Bound at initialize. Every later request of the session must have the same principal.
    principal: Principal | None = None
    client_info: Mapping[str, Any] = field(factory=dict)
    """The wire form of Implementation."""
    # Another replica must know which requests it may send to this client.
    client_capabilities: Mapping[str, Any] = field(factory=dict)
    """The wire form of ClientCapabilities."""
    initialized: bool = False
    """True once ``notifications/initialized`` has arrived."""
    log_level: str | None = None
    subscriptions: frozenset[str] = frozenset()
    """URIs of ``resources/subscribe``."""
    get_stream: str = ""
    """The id of the GET stream that receives messages outside requests, on any replica; empty if there is none."""
    generation: int = 0
    """How many times the record has been stored; 0 for a new one."""


class SessionStore(Protocol):
    """The records of handshake sessions. A session expires when it is idle; ``load`` counts as use.

    While a store outside this process is unreachable, each method raises StoreFailed; every call tries again.
    """

    async def save(self, record: SessionRecord) -> SessionRecord | None:
        """Store a record if the stored one still has the same generation (compare and set).

        A new record (generation 0) replaces no stored one.

        Returns:
            The record with its new generation. ``None`` if the stored record has another generation or was deleted: the
            caller loads it and applies the change again.

        Raises:
            Overloaded: The session is new, and the store is full of unexpired ones.
        """
        ...

    async def load(self, id: str) -> SessionRecord | None:
        """Return the record of a session, or ``None`` if it does not exist."""
        ...

    async def delete(self, id: str) -> bool:
        """Delete a session. Return True if it existed."""
        ...

    async def expire(self) -> list[str]:
        """Delete expired sessions, possibly not all of them at once.

        Returns:
            The ids of these sessions, and of those that :meth:`save` deleted to make room. Their events may still be
            stored.
        """
        ...


@frozen
class StoredEvent:
    """An event of a stream."""

    id: str
    """Unique in the session, in visible ASCII; contains the name of the stream."""
    data: bytes
    """An encoded message; empty for a priming event."""


class EventStore(Protocol):
    """Messages of streams that clients can resume, and the inbox of each session.

    An event's id is a position in its stream. A stream has one writer, the process that appends to it; every process
    may read. A cancelled call happens completely or not at all. A failure raises StoreFailed, as with
    :class:`SessionStore`. After each change to a stream the store publishes :func:`wake_message` on the
    :func:`session_topic` of its bus, also if it appends a fallback event itself.
    """

    async def append(
        self, session: str, stream: str, *data: bytes, last: bool = False, will: bytes | None = None
    ) -> StoredEvent:
        """Store one or several events in order. Readers find them when this returns.

        Args:
            data: The data of each event; at least one.
            last: Whether the stream is complete.
            will: The fallback event: the last event of the stream if its writer ends without completing the stream
                (MQTT's "will message"). ``None`` keeps the previous one; initially it is an event without data.

        Returns:
            The last stored event.

        Raises:
            ConnectionClosed: The stream is complete.
        """
        ...

    async def settle(self, session: str, stream: str) -> None:
        """Complete a stream with its fallback event (``will``), because its writer abandons it.

        Does nothing if the stream is complete or unknown. If this fails, the store completes the stream as soon as it
        can. It also completes the streams of writers that ended without calling this.
        """
        ...

    async def after(self, session: str, event_id: str) -> tuple[str, list[StoredEvent], bool] | None:
        """Return the stream of ``event_id``, its later events, and whether these are the last.

        A long list is returned in parts; then the events are not the last, and the caller calls this again.
        Returns ``None`` if the id is unknown, belongs to another session, or a later event was already dropped.
        """
        ...

    async def read(self, session: str, stream: str, position: int) -> tuple[list[StoredEvent], bool]:
        """Return events from ``position`` (0 is the first), and whether these are the last; like :meth:`after`."""
        ...

    async def completed_after(self, session: str, stream: str) -> list[str]:
        """Return the complete streams of the session that began after this one, in the order of their beginning."""
        ...

    async def put(self, session: str, message: bytes) -> None:
        """Store a message of the client for the replica that waits for it, in the inbox of the session.

        Then publish :data:`INBOX_MESSAGE`. The inbox has the limits of a stream; above them, the oldest messages are
        dropped.
        """
        ...

    async def inbox(self, session: str, position: int) -> tuple[list[bytes], int]:
        """Return messages of the inbox from ``position`` (0 is the first), and the position after them.

        A long list is returned in parts; an empty list is the end. Positions are never reused if the inbox is read more
        often than events expire.
        """
        ...

    async def drop(self, session: str) -> None:
        """Delete all streams of a session, and its inbox."""
        ...


class Bus(Protocol):
    """Sends small messages between replicas. It may lose messages, so no message is the only copy of its content."""

    def publish(self, topic: str, message: bytes) -> None:
        """Send a message to the followers of a topic, those of this process included. Does not block or raise.

        Args:
            topic: The name of the topic, at most 1,024 bytes in UTF-8.
        """
        ...

    def follow(self, topic: str, receive: Callable[[bytes | None], None]) -> Callable[[], None]:
        """Call ``receive`` with each message that is published from now on.

        Args:
            receive: Must not block or raise. Called with ``None`` if messages may have been lost.

        Returns:
            A function that removes the follower.
        """
        ...


class EffectState(Enum):
    """The result of a claim."""

    CLAIMED = "claimed"
    """The caller runs the effect, then calls ``finish`` or ``release``."""
    RUNNING = "running"
    """Another replica is running the effect."""
    DONE = "done"
    """The effect has run; the claim has its result."""
    LOST = "lost"
    """A replica that ran the effect ended without storing a result. The effect may have happened."""


@frozen
class EffectClaim:
    """The result of a claim: its state, and the result of an effect that has run."""

    state: EffectState
    result: bytes = b""


class EffectStore(Protocol):
    """Results of side effects that happen at most once, over all replicas. A failure raises StoreFailed."""

    async def claim(self, call: str, key: str) -> EffectClaim:
        """Claim an effect, or return its state if it was claimed before.

        The process holds the claim until it calls :meth:`finish` or :meth:`release`, or ends.

        Args:
            call: Identifies the call over all its deliveries.
            key: Identifies the effect within the call.
        """
        ...

    async def finish(self, call: str, key: str, result: bytes, keep: float = 3600.0) -> None:
        """Store the result of a claimed effect.

        Args:
            keep: Seconds for which the result is kept.
        """
        ...

    async def release(self, call: str, key: str) -> None:
        """Give a claim back: the effect has not happened, and the next delivery runs it."""
        ...


class ReplayStore(Protocol):
    """Names that may be used once, such as those of DPoP proofs. A failure raises StoreFailed."""

    async def use(self, name: str, seconds: float) -> bool:
        """Remember a name for ``seconds``. Return False if it is already remembered."""
        ...


class QuotaStore(Protocol):
    """Rates over all replicas, by the generic cell rate algorithm (ITU-T I.371). A failure raises StoreFailed.

    The store keeps only the theoretical arrival time of the next request, so requests may take from one quota at
    different rates. A request that costs three units takes one unit at a third of the rate, with a third of the burst.
    """

    async def take(self, name: str, *, count: int, seconds: float, burst: int) -> float:
        """Take one unit from a quota of ``count`` units in ``seconds``, of which ``burst`` may be taken at once.

        Returns:
            0.0 if the request may proceed. Otherwise the seconds until it may; then nothing is taken.
        """
        ...


@frozen(kw_only=True)
class Stores:
    """The stores of one server, opened together.

    Args:
        is_shared: True if other processes may use the stores; they must then share sealing keys too.
        status: Returns the state of the stores. Does not block.
    """

    sessions: SessionStore
    events: EventStore
    bus: Bus | None = None
    effects: EffectStore | None = None
    replays: ReplayStore | None = None
    quotas: QuotaStore | None = None
    tasks: TaskStore | None = None
    is_shared: bool = False
    status: Callable[[], StoreStatus] = lambda: StoreStatus(kind="memory")


@runtime_checkable
class UsesStores(Protocol):
    """A guard that uses the stores of the server that it protects, such as :class:`mcptrio.auth.ResourceServer`."""

    def use_stores(self, stores: Stores) -> None:
        """Use the stores of the server. Called before the first request, if the server has stores."""
        ...


def session_topic(session: str) -> str:
    """Return the topic of the bus about one session."""
    return f"session:{session}"


def wake_message(stream: str) -> bytes:
    """Return the message that makes replicas look for new events of a stream."""
    return b"wake " + stream.encode()
