"""Session store, event store and bus in memory.

They are the defaults, and most tests use them. They implement the interfaces in :mod:`mcptrio.abc`, their contents end
with the process, and their methods do not wait.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import islice
from typing import Final

import trio
from attrs import define, evolve, field

from mcptrio.abc import INBOX_MESSAGE, Bus, SessionRecord, StoredEvent, Stores, session_topic, wake_message
from mcptrio.errors import ConnectionClosed, Overloaded
from mcptrio.stores.common_tasks import CommonTaskStore
from mcptrio.stores.event_ids import INBOX, event_id, read_event_id
from mcptrio.stores.followers import Followers
from mcptrio.stores.memory_effects import MemoryEffectStore
from mcptrio.stores.memory_quotas import MemoryQuotaStore
from mcptrio.stores.memory_replays import MemoryReplayStore
from mcptrio.stores.memory_tasks import MemoryTasks
from mcptrio.stores.settings import StoreBounds

__all__ = ["MemoryBus", "MemoryEventStore", "MemorySessionStore", "memory_stores"]

# Bytes that an event costs in addition to its data: the objects and the id, rounded up.
_EVENT_COST: Final = 160


def memory_stores(bounds: StoreBounds | None = None, *, bus: Bus | None = None) -> Stores:
    """Return stores in this process."""
    bounds = bounds or StoreBounds()
    return Stores(
        sessions=MemorySessionStore(idle_timeout=bounds.idle_timeout, max_sessions=bounds.max_sessions),
        events=MemoryEventStore(
            stream_events=bounds.stream_events,
            session_bytes=bounds.session_bytes,
            total_bytes=bounds.total_bytes,
            event_timeout=bounds.event_timeout,
            bus=bus,
        ),
        bus=bus,
        effects=MemoryEffectStore(),
        replays=MemoryReplayStore(),
        quotas=MemoryQuotaStore(),
        tasks=CommonTaskStore(MemoryTasks(bounds), bounds, bus),
    )


class MemorySessionStore:
    """Session records in a dict, ordered by last use.

    Args:
        idle_timeout: Seconds without use after which a session expires.
        max_sessions: The number of sessions. A store full of unexpired sessions refuses a new one, so a flood of new
            sessions does not end the existing ones.
    """

    def __init__(self, *, idle_timeout: float = 1800.0, max_sessions: int = 100_000) -> None:
        self._idle = idle_timeout
        self._max_sessions = max_sessions
        self._sessions: OrderedDict[str, tuple[float, SessionRecord]] = OrderedDict()
        # Expired sessions that made room for new ones; the next expire() returns them too.
        self._dropped: list[str] = []

    async def save(self, record: SessionRecord) -> SessionRecord | None:
        entry = self._sessions.get(record.id)
        if (entry[1].generation if entry is not None else 0) != record.generation:
            return None
        if entry is None and len(self._sessions) >= self._max_sessions:
            self._dropped += self._drop_expired(limit=1)
            if len(self._sessions) >= self._max_sessions:
                raise Overloaded(f"too many sessions: {self._max_sessions} are kept")
        stored = evolve(record, generation=record.generation + 1)
        self._use(stored)
        return stored

    async def load(self, id: str) -> SessionRecord | None:
        entry = self._sessions.get(id)
        if entry is None or entry[0] <= trio.current_time():
            return None
        self._use(entry[1])
        return entry[1]

    async def delete(self, id: str) -> bool:
        entry = self._sessions.pop(id, None)
        return entry is not None and entry[0] > trio.current_time()

    async def expire(self) -> list[str]:
        dropped, self._dropped = self._dropped, []
        return dropped + self._drop_expired(limit=len(self._sessions))

    def _use(self, record: SessionRecord) -> None:
        self._sessions[record.id] = (trio.current_time() + self._idle, record)
        self._sessions.move_to_end(record.id)

    def _drop_expired(self, *, limit: int) -> list[str]:
        now = trio.current_time()
        expired: list[str] = []
        while self._sessions and len(expired) < limit:
            id, (deadline, _) = next(iter(self._sessions.items()))
            if deadline > now:
                break
            del self._sessions[id]
            expired.append(id)
        return expired


@define(eq=False)
class _Stream:
    # Streams are numbered in the order in which they began.
    number: int
    touched: float
    events: deque[StoredEvent] = field(factory=deque)
    # The position of the next event. Positions are never reused, even when events are dropped.
    next: int = 0
    complete: bool = False
    will: bytes = b""

    @property
    def first(self) -> int:
        return self.next - len(self.events)


@define(eq=False)
class _Session:
    # Ordered by the time of their last event, oldest first.
    streams: OrderedDict[str, _Stream] = field(factory=OrderedDict)
    size: int = 0


class MemoryEventStore:
    """The events of resumable streams.

    Above a limit, the oldest events are dropped: first those of complete streams, then those of the stream that has had
    no event for the longest time. A stream can be resumed as long as no event after the client's last one was dropped.

    Args:
        stream_events: Events of one stream.
        session_bytes: Bytes of one session.
        total_bytes: Bytes of all sessions; events of the least recently active session are dropped first.
        event_timeout: Seconds without a new event after which the events of a stream are dropped.
        bus: Wakes the readers of other servers in this process that use the same store.
    """

    def __init__(
        self,
        *,
        stream_events: int = 1000,
        session_bytes: int = 16 * 1024 * 1024,
        total_bytes: int = 256 * 1024 * 1024,
        event_timeout: float = 3600.0,
        bus: Bus | None = None,
    ) -> None:
        self._bus = bus
        self._stream_events = stream_events
        self._session_bytes = session_bytes
        self._total_bytes = total_bytes
        self._event_timeout = event_timeout
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._size = 0
        # The number of streams that have begun.
        self._began = 0

    async def append(
        self, session: str, stream: str, *data: bytes, last: bool = False, will: bytes | None = None
    ) -> StoredEvent:
        event = self._append(session, stream, *data, last=last, will=will)
        self._publish(session, wake_message(stream))
        return event

    def _append(
        self, session: str, stream: str, *data: bytes, last: bool = False, will: bytes | None = None
    ) -> StoredEvent:
        now = trio.current_time()
        entry = self._stream(session, stream)
        if entry is not None and entry.complete:
            raise ConnectionClosed("the stream is complete")
        session_entry = self._sessions.setdefault(session, _Session())
        self._sessions.move_to_end(session)
        if entry is None:
            self._began += 1
            entry = session_entry.streams[stream] = _Stream(self._began, now)
        session_entry.streams.move_to_end(stream)
        entry.events.extend([StoredEvent(event_id(stream, at), each) for at, each in enumerate(data, entry.next)])
        entry.next += len(data)
        entry.touched = now
        entry.complete = last
        entry.will = b"" if last else entry.will if will is None else will
        self._account(session_entry, sum(map(len, data)) + len(data) * _EVENT_COST)
        if len(entry.events) > self._stream_events:
            self._account(session_entry, -_drop(entry.events, len(entry.events) - self._stream_events))
        event = entry.events[-1]
        while session_entry.size > self._session_bytes and self._drop_oldest(session_entry, event):
            pass
        self._drop_from_others(event)
        # Expiry needs no task: each append checks the oldest streams of its own session and of the least recently
        # active one.
        self._drop_aged(session_entry, now - self._event_timeout)
        self._drop_aged(next(iter(self._sessions.values())), now - self._event_timeout)
        return event

    async def settle(self, session: str, stream: str) -> None:
        entry = self._stream(session, stream)
        if entry is not None and not entry.complete:
            await self.append(session, stream, entry.will, last=True)

    async def after(self, session: str, event_id: str) -> tuple[str, list[StoredEvent], bool] | None:
        place = read_event_id(event_id)
        if place is None:
            return None
        stream, position = place
        entry = self._stream(session, stream)
        if entry is None or not entry.first <= position + 1 <= entry.next:
            return None
        return stream, list(islice(entry.events, position + 1 - entry.first, None)), entry.complete

    async def read(self, session: str, stream: str, position: int) -> tuple[list[StoredEvent], bool]:
        entry = self._stream(session, stream)
        if entry is None:
            return [], False
        return list(islice(entry.events, max(position - entry.first, 0), None)), entry.complete

    async def completed_after(self, session: str, stream: str) -> list[str]:
        began = self._stream(session, stream)
        session_entry = self._sessions.get(session)
        if began is None or session_entry is None:
            return []
        later = [(entry.number, name) for name, entry in session_entry.streams.items() if entry.complete]
        return [name for number, name in sorted(later) if number > began.number]

    async def put(self, session: str, message: bytes) -> None:
        self._append(session, INBOX, message)
        self._publish(session, INBOX_MESSAGE)

    async def inbox(self, session: str, position: int) -> tuple[list[bytes], int]:
        entry = self._stream(session, INBOX)
        if entry is None:
            return [], position
        skipped = max(position - entry.first, 0)
        return [event.data for event in islice(entry.events, skipped, None)], max(position, entry.next)

    async def drop(self, session: str) -> None:
        session_entry = self._sessions.pop(session, None)
        if session_entry is not None:
            self._size -= session_entry.size

    def _publish(self, session: str, message: bytes) -> None:
        if self._bus is not None:
            self._bus.publish(session_topic(session), message)

    def _stream(self, session: str, stream: str) -> _Stream | None:
        session_entry = self._sessions.get(session)
        return session_entry.streams.get(stream) if session_entry else None

    def _drop_from_others(self, newest: StoredEvent) -> None:
        """Enforce the total limit, starting with the least recently active session."""
        spared = 0
        while self._size > self._total_bytes and spared < len(self._sessions):
            id, quiet = next(iter(self._sessions.items()))
            if self._drop_oldest(quiet, newest):
                continue
            if quiet.streams:
                # The session has only the positions of open streams left. They are kept, because a stream must not
                # reuse positions.
                self._sessions.move_to_end(id)
                spared += 1
            else:
                del self._sessions[id]

    def _drop_oldest(self, session: _Session, newest: StoredEvent) -> bool:
        """Drop the oldest event of a session other than ``newest``. Return True if there was one.

        An open stream keeps its position; a complete stream is removed with its last event.
        """
        name, victim = "", None
        for candidate, entry in session.streams.items():
            if entry.events and entry.events[0] is not newest:
                if entry.complete:
                    name, victim = candidate, entry
                    break
                if victim is None:
                    name, victim = candidate, entry
        if victim is None:
            return False
        self._account(session, -_cost(victim.events.popleft()))
        if victim.complete and not victim.events:
            del session.streams[name]
        return True

    def _drop_aged(self, session: _Session, horizon: float) -> None:
        while session.streams:
            name, entry = next(iter(session.streams.items()))
            if entry.touched > horizon:
                break
            self._account(session, -_drop(entry.events, len(entry.events)))
            if entry.complete:
                del session.streams[name]
            else:
                entry.touched = trio.current_time()
                session.streams.move_to_end(name)

    def _account(self, session: _Session, size: int) -> None:
        session.size += size
        self._size += size


class MemoryBus:
    """Topics within one process."""

    def __init__(self) -> None:
        self._followers = Followers()

    def publish(self, topic: str, message: bytes) -> None:
        self._followers.deliver(topic, message)

    def follow(self, topic: str, receive: Callable[[bytes | None], None]) -> Callable[[], None]:
        return self._followers.add(topic, receive)

    def lose(self) -> None:
        """Tell all followers that messages may have been lost, as buses over a network do after an interruption."""
        self._followers.report_lost()


def _cost(event: StoredEvent) -> int:
    return len(event.data) + _EVENT_COST


def _drop(events: deque[StoredEvent], count: int) -> int:
    """Drop the oldest events and return the bytes freed."""
    return sum([_cost(events.popleft()) for _ in range(count)])
