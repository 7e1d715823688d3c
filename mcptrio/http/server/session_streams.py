"""A stream of a session, which outlives the HTTP response that it began on.

The session makes it for a POST that is not answered at once, and for unsolicited messages (GET). The engine sends into
it as an :class:`~mcptrio.abc.MessageSink`. A pump in the nursery of the HTTP application moves the messages to the
event store. Readers, each the response of one HTTP request, write events from the store. When the client of a reader
disconnects, another reader, here or on another replica, continues after its last event. A wake-up only makes readers
read the store, so a lost wake-up causes a delay but loses no message.

Every request gets a response, even if the process dies: with the first event, the store receives a *fallback event*,
which it appends if the writer of the stream dies.

Source: MCP 2025-11-25, basic/transports, "Resumability and Redelivery"; SEP-1699.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import trio

from mcptrio.abc import EventStore, StoredEvent
from mcptrio.errors import Code, ConnectionClosed
from mcptrio.http.server.backlog import Backlog
from mcptrio.http.server.exchange import Exchange
from mcptrio.outbox import Item, Outbox
from mcptrio.protocol import sse
from mcptrio.protocol.jsonrpc import encode
from mcptrio.protocol.messages import Batch, ErrorResponse, Message, Notification, Request, RequestId, Response

__all__ = ["SessionStream", "StreamReader", "StreamSignals"]

_MAX_OUTBOX_ITEMS: Final = 768
"""Messages that may wait for the pump. A handler that sends more waits."""
_APPEND_BYTES: Final = 64 * 1024
"""Bytes of encoded messages that are stored in one append."""
_LOST_RESPONSE: Final = (
    "the server stopped, was started again, or could not keep the answer;"
    " whether the request was carried out is not known"
)
"""The text of the error for a request that has no response."""


class StreamSignals:
    """Wakes the readers in this process that wait for events of one session's streams."""

    __slots__ = ("_events", "has_ended")

    def __init__(self) -> None:
        self._events: dict[str, trio.Event] = {}
        self.has_ended = False
        """True once the session has ended here. Its streams end too."""

    def next(self, stream: str) -> trio.Event:
        """Return an event that is set at the next wake-up of the stream.

        Get the event before reading the store, so that no wake-up is missed.
        """
        return self._events.setdefault(stream, trio.Event())

    def wake(self, stream: str) -> None:
        event = self._events.pop(stream, None)
        if event is not None:
            event.set()

    def wake_all(self) -> None:
        for stream in tuple(self._events):
            self.wake(stream)

    def end(self) -> None:
        self.has_ended = True
        self.wake_all()


class SessionStream:
    """One stream of one session: the engine's sink, and the state that its readers share.

    Args:
        incoming: The message that the stream answers; ``None`` if only :meth:`close` completes it.
        expected: The number of responses that complete the stream.
        sends_priming_event: True if readers first get an event without data, which gives them an id for resuming.
        window: Events that the newest reader may be behind before the pump waits.
    """

    def __init__(
        self,
        id: str,
        session: str,
        store: EventStore,
        signals: StreamSignals,
        *,
        incoming: Message | Batch | None = None,
        expected: int | None = None,
        sends_priming_event: bool,
        window: int,
    ) -> None:
        self.id = id
        self.outbox = Outbox(_MAX_OUTBOX_ITEMS)
        self.sends_priming_event = sends_priming_event
        self.readers: list[StreamReader] = []
        """The newest reader is last, and only it gets events."""
        self.cursor: str | None = None
        """The id of the last event that was written to the newest reader."""
        self.unread_since = trio.current_time()
        self.closing_for_resume = False
        self.broken = False
        """True once the pump has failed, so that missing events will not arrive."""
        self.retry: int | None = None
        self._session = session
        self._store = store
        self._signals = signals
        self._incoming = _requests(incoming)
        self._unanswered = list(self._incoming)
        """The requests without a response. The fallback event contains an error for each."""
        self._fallback_stored = False
        """True while the store has the fallback event for the current ``_unanswered``."""
        self._batched = isinstance(incoming, Batch)
        self._responses_left = expected
        """Responses that are not stored yet."""
        self.window = window
        self._room_changed = trio.Event()
        self.has_begun = False
        """True once this process has appended an event."""

    async def send(self, message: Message | Sequence[Message]) -> None:
        await self.outbox.send(message)

    def send_latest(self, message: Notification, key: object) -> None:
        self.outbox.send_latest(message, key)

    def close(self) -> None:
        self.outbox.close()

    def release(self, retry_ms: int) -> bool:
        """End the HTTP response but not the stream. The client reconnects for the rest with ``Last-Event-ID``.

        Returns:
            True if that is possible. It is not in a revision without priming events, whose clients do not reconnect.
        """
        if not self.sends_priming_event:
            return False
        self.retry = retry_ms
        self.closing_for_resume = True
        self.outbox.wake_writer()
        self.wake()
        return True

    def send_keepalive(self) -> None:
        """Begin the event stream of the response before the first message."""
        self.outbox.wake_writer()

    async def send_priming_event(self) -> None:
        """Store an event without data, which gives readers an id.

        Raises:
            ConnectionClosed: The stream is complete.
            StoreFailed: The event could not be stored.
        """
        await self._append([b""], last=False)

    async def pump(self, items: Sequence[Item] = (), *, ended: Callable[[], bool]) -> None:
        """Move messages to the store until the stream is complete. Runs in the application's nursery.

        Args:
            items: Messages that were taken from the outbox before.
            ended: Returns whether the session has ended here, so that no more messages follow.

        Raises:
            StoreFailed: A message could not be stored.
        """
        is_complete = False
        try:
            is_complete = await self._store_messages(items)
            if not (is_complete or self._signals.has_ended):
                # Cancelled requests end without a response; an event without data marks the end for clients that
                # resume.
                await self._append([self.fallback_event() if ended() else b""], last=True)
                is_complete = True
        except ConnectionClosed:
            pass  # the session has ended, or another replica has completed the stream
        finally:
            # Senders get an error, and readers stop waiting.
            self.outbox.abort()
            if not is_complete:
                self.broken = True
                self.wake()

    async def _store_messages(self, items: Sequence[Item]) -> bool:
        """Store messages until no more come or the session has ended here. Return whether the stream is complete."""
        if self.sends_priming_event and self._unanswered:
            await self.send_priming_event()
        while True:
            stored = 0
            while stored < len(items):
                room = await self._wait_for_reader()
                if self._signals.has_ended:
                    return False
                events, is_complete = self._encode(items[stored : stored + room])
                await self._append(events, last=is_complete)
                if is_complete:
                    return True
                stored += len(events)
            try:
                items = await self.outbox.take()
            except trio.EndOfChannel:
                return False

    async def settle(self) -> None:
        """Complete a stream that the pump has not completed, with the fallback event.

        Raises:
            StoreFailed: The store has failed. It appends the fallback event later.
        """
        if self.broken:
            await self._store.settle(self._session, self.id)
            self.wake()

    def _encode(self, items: Sequence[Item]) -> tuple[list[bytes], bool]:
        """Return the first items as events, at least one, and whether they complete the stream."""
        events: list[bytes] = []
        size = 0
        for item in items:
            data = encode(item)
            events.append(data)
            if self._responses_left is not None and type(item) is not Notification:
                self._responses_left -= self._note_responses(item)
                if self._responses_left <= 0:
                    return events, True
            size += len(data)
            if size >= _APPEND_BYTES:
                break
        return events, False

    async def _append(self, events: Sequence[bytes], *, last: bool) -> None:
        # The store appends the fallback event if this process dies, so every request gets a response.
        will = None if self._fallback_stored or last else self.fallback_event()
        self._fallback_stored = True
        self.has_begun = True
        # Only the newest reader gets events, so only its backlog is counted.
        if self.readers:
            self.readers[-1].backlog.add(events)
        await self._store.append(self._session, self.id, *events, last=last, will=will)
        self._signals.wake(self.id)

    def _note_responses(self, item: Item) -> int:
        """Return the number of responses in a message, and note which requests they answer."""
        responses = _responses(item)
        for response in responses:
            if response.id in self._unanswered:
                self._unanswered.remove(response.id)
                self._fallback_stored = False
        return len(responses)

    def fallback_event(self, *, is_for_all: bool = False) -> bytes:
        """Return an error for each request without a response, in a batch if the requests came in one.

        Args:
            is_for_all: True to include requests whose response was encoded but has not reached the client.
        """
        ids = self._incoming if is_for_all else self._unanswered
        lost = [ErrorResponse(id, int(Code.INTERNAL_ERROR), _LOST_RESPONSE) for id in ids]
        if not lost:
            return b""
        return encode(lost if self._batched else lost[0])

    async def _wait_for_reader(self) -> int:
        """Wait until the newest reader has room. The write deadline ends a reader whose client does not read.

        Returns:
            The number of events that may be stored now, at least one.
        """
        while self.readers:
            room = self.readers[-1].backlog.room
            if room > 0:
                # At most half of the window, so that one half is read while the other one is stored.
                return min(room, max(1, self.window // 2))
            await self._room_changed.wait()
        return _MAX_OUTBOX_ITEMS

    async def after(self, cursor: str | None) -> tuple[list[StoredEvent], bool] | None:
        """Return the events after ``cursor``, and whether they are the last; ``None`` if some of them are lost."""
        if cursor is None:
            return await self._store.read(self._session, self.id, 0)
        page = await self._store.after(self._session, cursor)
        return None if page is None else page[1:]

    def note_room(self) -> None:
        """Wake the pump, because the newest reader has more room, or another reader is the newest."""
        self._room_changed.set()
        self._room_changed = trio.Event()

    @property
    def has_ended(self) -> bool:
        return self._signals.has_ended or self.broken

    def supersede(self) -> None:
        """End all readers of this process, because the client reads the stream on another connection."""
        for reader in self.readers:
            reader.is_superseded = True
        self.wake()

    def next_change(self) -> trio.Event:
        return self._signals.next(self.id)

    def wake(self) -> None:
        self._signals.wake(self.id)


class StreamReader:
    """One exchange that reads a stream, until :meth:`close`.

    Args:
        cursor: The id of the client's last event. A client that resumes has lost its earlier connections, so this ends
            the earlier readers. With ``None``, this reader starts where the last one stopped, and the earlier readers
            continue when this one is closed.
        from_start: True to start with the first event, and end the earlier readers.
    """

    def __init__(
        self, stream: SessionStream, exchange: Exchange, cursor: str | None = None, *, from_start: bool = False
    ) -> None:
        self.stream = stream
        self._exchange = exchange
        self.backlog = Backlog(stream.window, has_earlier=stream.has_begun)
        self.is_superseded = False
        if cursor is not None or from_start:
            stream.cursor = cursor
            stream.supersede()
        stream.readers.append(self)
        stream.note_room()
        stream.wake()

    def dismiss(self) -> None:
        """End this reader, as if another one had replaced it."""
        self.is_superseded = True
        self.stream.wake()

    def close(self) -> None:
        readers = self.stream.readers
        if readers[-1] is self and len(readers) > 1:
            # The previous reader continues where this one stopped.
            readers[-2].backlog.restart()
        readers.remove(self)
        self.stream.unread_since = trio.current_time()
        self.stream.note_room()
        self.stream.wake()

    async def run(self) -> bool:
        """Write events until the stream is complete, closes for a resumption, has ended, or a newer reader replaces it.

        Returns:
            True if the stream is complete and all of its events are written.

        Raises:
            ConnectionClosed: The client does not read.
        """
        stream = self.stream
        while not (self.is_superseded or stream.has_ended):
            changed = stream.next_change()
            events: list[StoredEvent] = []
            if stream.readers[-1] is self:
                page = await stream.after(stream.cursor)
                if page is None:
                    return False
                events, complete = page
                if stream.closing_for_resume and (events or stream.cursor is not None):
                    await self._release(events)
                    return False
                if events:
                    await self._exchange.write(self._encode(events, complete))
                    # If a newer reader has begun during the write, it has set its own cursor.
                    if stream.readers[-1] is self:
                        stream.cursor = events[-1].id
                    self.backlog.remove(events)
                    stream.note_room()
                elif self.backlog.note_end():
                    stream.note_room()
                if complete:
                    return True
            if not events:
                with trio.move_on_after(self._exchange.limits.keepalive_interval) as waiting:
                    await changed.wait()
                if waiting.cancelled_caught:
                    await self._exchange.write()
        if stream.broken and stream.cursor is None and not self.is_superseded:
            # The client has no event id to resume from. Without a response, it might send the request again.
            error = stream.fallback_event(is_for_all=True)
            if error:
                await self._exchange.write(sse.encode(error))
        return False

    async def _release(self, events: Sequence[StoredEvent]) -> None:
        """End the response after at least one event with an id, which the client needs to reconnect for the rest."""
        stream = self.stream
        stream.closing_for_resume = False
        first = events[:1] if stream.cursor is None else ()
        data = self._encode(first, False) if first else b""
        await self._exchange.write(data + b"retry: %d\n\n" % (stream.retry or 0))
        if first:
            stream.cursor = first[0].id

    def _encode(self, events: Sequence[StoredEvent], complete: bool) -> bytes:
        parts = []
        for event in events:
            if event.data:
                parts.append(sse.encode(event.data, id=event.id))
            # An event without data at the end only marks the completion.
            elif not (complete and event is events[-1]):
                retry = (
                    self.stream.retry
                    if self.stream.retry is not None
                    else round(self._exchange.limits.retry_delay * 1000)
                )
                parts.append(sse.encode(b"", id=event.id, retry=retry))
        return b"".join(parts) or sse.comment()


def _requests(incoming: Message | Batch | None) -> list[RequestId]:
    messages = incoming.messages if isinstance(incoming, Batch) else (incoming,)
    return [message.id for message in messages if isinstance(message, Request)]


def _responses(item: Item) -> list[Response | ErrorResponse]:
    items = item if isinstance(item, Sequence) else (item,)
    return [each for each in items if isinstance(each, (Response, ErrorResponse))]
