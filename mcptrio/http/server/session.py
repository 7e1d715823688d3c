"""One handshake session over HTTP in this process: its streams, and its messages to other replicas.

:mod:`mcptrio.http.server.sessions` makes it, and the exchanges of the session use it. The record is in the session
store, and messages are in the event store, so the session outlives this process.

Source: MCP 2025-11-25, basic/transports, "Streamable HTTP".
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from math import inf
from typing import Final, Protocol
from weakref import WeakValueDictionary

import trio
from attrs import evolve, frozen

from mcptrio.abc import EventStore, MessageSink, PeerSession, Principal, SessionRecord, SessionStore
from mcptrio.errors import ConnectionClosed, StoreFailed
from mcptrio.http.server.keepalives import Keepalives
from mcptrio.http.server.limits import HTTPLimits
from mcptrio.http.server.replicas import Notice, Replicas, is_for_any_replica, messages_of
from mcptrio.http.server.session_records import merge_records
from mcptrio.http.server.session_streams import SessionStream, StreamSignals
from mcptrio.outbox import Item
from mcptrio.protocol.jsonrpc import decode, encode
from mcptrio.protocol.messages import Batch, Malformed, Message, Notification
from mcptrio.protocol.revisions.registry import REVISIONS
from mcptrio.protocol.revisions.revision import HTTPFeatures

__all__ = [
    "GET_STREAM_PREFIX",
    "MAX_RECORD_AGE",
    "NULL_SINK",
    "POST_STREAM_PREFIX",
    "HTTPSession",
    "SharedSessionState",
]

GET_STREAM_PREFIX: Final = "g"
"""First letter of the ids of GET streams."""
POST_STREAM_PREFIX: Final = "p"
"""First letter of the ids of POST streams."""

MAX_RECORD_AGE: Final = 0.1
"""Seconds for which a record of a shared store is used again, because reading it takes longer than most calls.

A replica confirms a change or an end only after this time, so no replica can use the older record afterwards.
"""
_NO_NOTICES: Final[frozenset[Notice]] = frozenset()

_log = logging.getLogger("mcptrio.http.sessions")


@frozen(kw_only=True)
class SharedSessionState:
    """The stores, limits and replicas that the sessions of one process share."""

    store: SessionStore
    events: EventStore
    replicas: Replicas
    limits: HTTPLimits
    keepalives: Keepalives
    start_soon: Callable[..., None]
    """Starts a task in the application's nursery."""


class _NullSink:
    """The sink for messages without a response: notifications, responses, and messages from other replicas."""

    async def send(self, message: Item) -> None:
        raise ConnectionClosed("the message cannot be sent: it belongs to no request")

    def send_latest(self, message: Notification, key: object) -> None:
        pass

    def close(self) -> None:
        pass

    def release(self, retry_ms: int) -> bool:
        return False


NULL_SINK: Final = _NullSink()


class WaitingReply(Protocol):
    """The reply to a POST whose form is not known yet."""

    def abort(self) -> None:
        """Accept no more messages, and drop the queued ones. Does not block."""
        ...


class HTTPSession:
    """The local part of one session."""

    def __init__(self, shared: SharedSessionState, peer: PeerSession, saved: SessionRecord | None) -> None:
        self.peer = peer
        self.id = peer.id
        self.get_stream: SessionStream | None = None
        """The stream for messages that belong to no request; exists from the first GET in this process."""
        self.streams: dict[str, SessionStream] = {}
        """Streams whose pump runs in this process."""
        # A dictionary, because an empty set takes 150 bytes more, and most sessions are idle.
        self.waiting: dict[WaitingReply, None] = {}
        """Replies that wait for their first message. The store has no event of them."""
        self.signals = StreamSignals()
        self.exchanges = 0
        """Open HTTP exchanges of the session."""
        self.last_used = trio.current_time()
        """Trio clock time at which the session was last used in this process."""
        self.last_touched = self.last_used
        """Trio clock time at which the store was last told that the session is in use."""
        self.ended = False
        self.keepalives = shared.keepalives
        self._shared = shared
        self.saved = saved
        """The record as the store has it; ``None`` before the first save."""
        self.valid_until = -inf
        """Trio clock time until which ``saved`` is used without reading the store again."""
        self.change_notices = 0
        """The number of notices that the record may have changed."""
        self._inbox_position = 0
        self._unfollow: Callable[[], None] | None = None
        self._notices = _NO_NOTICES
        """The notices that the task :meth:`_apply_notices` has not handled yet."""
        self._is_refreshing = False
        self._views: WeakValueDictionary[str, SessionStream] | None = None
        """Streams of other replicas that exchanges of this process read."""
        self._attached: SessionStream | None = None
        """The GET stream while the engine sends to it."""

    @property
    def features(self) -> HTTPFeatures | None:
        """The features of the revision; ``None`` until ``initialize`` has been answered."""
        record = self.peer.record
        return REVISIONS[record.revision].http if record else None

    @property
    def is_idle(self) -> bool:
        """True if the local part can be dropped without a loss: nothing runs, and the record is stored."""
        return not (self.peer.busy or self.exchanges or self.streams or self.waiting or self._is_changed)

    @property
    def _is_changed(self) -> bool:
        """True if the engine has replaced the record since it was stored."""
        record = self.peer.record
        return record is not self.saved and record != self.saved

    def open_stream(
        self, kind: str, *, incoming: Message | Batch | None = None, expected: int | None = None
    ) -> SessionStream:
        """Make a stream of this session. :meth:`start` adds it to :attr:`streams`.

        Args:
            incoming: The message that the stream answers.
            expected: The number of responses that complete the stream.
        """
        features = self.features
        return SessionStream(
            f"{kind}{secrets.token_urlsafe(6)}",
            self.id,
            self._shared.events,
            self.signals,
            incoming=incoming,
            expected=expected,
            sends_priming_event=features is not None and features.priming,
            window=self._shared.limits.window,
        )

    def find_stream(self, id: str) -> SessionStream:
        """Return the stream with this id: one of this process, or a view of another replica's stream in the store."""
        stream = self._local_stream(id)
        if stream is None:
            stream = self.open_stream("")
            stream.id = id
            if self._views is None:
                # Weak references, because a view is needed only while a reader holds it.
                self._views = WeakValueDictionary()
            self._views[id] = stream
        return stream

    def _local_stream(self, id: str) -> SessionStream | None:
        return self.streams.get(id) or (self._views.get(id) if self._views is not None else None)

    def resume(self, id: str) -> SessionStream:
        """Return the stream with this id, and end its readers on the other replicas."""
        self._shared.replicas.publish(self.id, Notice.RESUMED, id)
        return self.find_stream(id)

    def start(self, stream: SessionStream, items: Sequence[Item] = ()) -> None:
        """Pump the stream into the store, in the application's nursery, so that it outlives the exchange."""
        self.streams[stream.id] = stream
        self._shared.start_soon(self._pump, stream, items)

    async def listen(self, *, is_continued: bool = False) -> SessionStream:
        """Return the GET stream, attached to the engine here and detached on every other replica.

        Args:
            is_continued: True if the client has read an earlier GET stream to its end.

        Raises:
            StoreFailed: The record, which names the stream, could not be stored.
        """
        # Notifications between two streams are lost, because the writer of the earlier stream may have ended long ago.
        has_missed = is_continued or self.get_stream is not None or self._named_get_stream != ""
        if self.get_stream is None:
            self.get_stream = self.open_stream(GET_STREAM_PREFIX)
            self.start(self.get_stream)
        stream = self.get_stream
        if self._attached is not stream:
            self.peer.attach(stream)
            self._attached = stream
            if has_missed:
                self.peer.report_everything_changed()
        # Each message must go to one stream only (2025-11-25, basic/transports, "Multiple Connections").
        self._name_get_stream(stream.id)
        is_stored = False
        try:
            await self.save()
            is_stored = True
        finally:
            if not is_stored:
                # The client may try again on another replica. If this name were stored later, it would end that stream.
                self._detach()
                self._name_get_stream(self.saved.get_stream if self.saved is not None else "")
        return stream

    async def _listen_again(self) -> None:
        try:
            await self.listen()
        except StoreFailed as error:
            _log.error("session not saved: %s", error)

    async def stop_listening(self) -> None:
        """End the GET stream of this process. That of another replica continues."""
        stream = self.get_stream
        if stream is not None:
            self._detach()
            stream.close()
            self.get_stream = None
            await self._release_get_stream(stream)

    async def receive(self, incoming: Message | Batch, sink: MessageSink, principal: Principal | None) -> None:
        """Pass the message of a POST to the engine, and to requests on other replicas that wait for it.

        Raises:
            StoreFailed: A message for another replica, or the change that a notification makes, could not be stored.
        """
        self.last_used = trio.current_time()
        self.peer.principal = principal
        # False if an answer or a cancellation belongs to no request here. The request may run on another replica.
        known = self.peer.receive(incoming, sink)
        if isinstance(incoming, Notification):
            # Stored before the client gets its 202, so that the client can send it again if storing fails.
            await self.save()
        else:
            await self.try_to_save()
        if self._shared.replicas.is_enabled and (not known or isinstance(incoming, Batch)):
            for message in messages_of(incoming):
                if is_for_any_replica(message):
                    # Stored before the client gets its 202, because an accepted message must not be lost.
                    await self._shared.events.put(self.id, encode(message))

    async def save(self) -> None:
        """Store the record if the engine has replaced it.

        Raises:
            StoreFailed: The record could not be stored. The next search for idle sessions tries again.
            Overloaded: The session is new, and the store has too many.
        """
        while self._is_changed and not self.ended:
            record, base = self.peer.record, self.saved
            assert record is not None
            stored = await self._shared.store.save(record)
            if stored is not None:
                # A newer record of another replica, which contains this change, may have been loaded in the meantime.
                if self.saved is None or stored.generation > self.saved.generation:
                    self.saved = stored
                    # If the engine has changed the record during the write, keep that change.
                    self.peer.refresh(merge_records(self.peer.record or record, base=record, theirs=stored))
                self._shared.replicas.publish(self.id, Notice.RECORD, str(stored.generation))
                if self._shared.replicas.is_enabled and base is not None and _concerns_calls(base, record):
                    await trio.sleep(MAX_RECORD_AGE)
            else:
                # Another replica has stored a newer record.
                await self._load()

    async def try_to_save(self) -> None:
        """Store the record, or log the failure. The next search for idle sessions tries again."""
        try:
            await self.save()
        except StoreFailed as error:
            _log.error("session not saved: %s", error)

    def refresh(self, stored: SessionRecord) -> None:
        """Replace the record by one that another replica has stored. Changes that are not stored yet are kept."""
        mine, base = self.peer.record, self.saved
        if mine is None or base is None or stored.generation <= base.generation:
            return
        self.saved = stored
        self.peer.refresh(merge_records(mine, base=base, theirs=stored))
        if self._attached is not None and stored.get_stream not in ("", self._attached.id):
            # The readers stay, because the stream is attached again when the other one has ended.
            self._detach()
        elif not stored.get_stream and self.get_stream is not None and self.get_stream.readers:
            self._shared.start_soon(self._listen_again)

    def follow(self) -> None:
        """Receive messages of the other replicas until the session ends here."""
        self._unfollow = self._shared.replicas.follow(self.id, self._handle_notice)

    async def read_inbox(self) -> None:
        """Read the inbox, if a request here may wait for a message in it.

        Raises:
            StoreFailed: The inbox cannot be read.
        """
        while self.peer.busy and not self.ended:
            messages, self._inbox_position = await self._shared.events.inbox(self.id, self._inbox_position)
            if not messages:
                return
            for each in messages:
                message = decode(each)
                if not isinstance(message, (Batch, Malformed)):
                    self.peer.receive(message, NULL_SINK)

    def end(self, reason: str) -> None:
        """End the local part. The stores keep the session."""
        if not self.ended:
            self.ended = True
            # The next request reads the store, because the session itself may have ended.
            self.valid_until = -inf
            self.peer.end(reason)
            # Handlers that wait for room in an outbox must not wait any longer.
            for stream in self.streams.values():
                stream.outbox.abort()
            for reply in tuple(self.waiting):
                reply.abort()
            self.signals.end()
            if self._unfollow is not None:
                self._unfollow()

    def _handle_notice(self, notice: Notice, detail: str) -> None:
        if notice in (Notice.RECORD, Notice.LOST):
            self.change_notices += 1
            self.valid_until = -inf
        match notice:
            case Notice.WAKE:
                # The pump has already woken the readers of streams of this process.
                if detail not in self.streams:
                    self.signals.wake(detail)
            case Notice.RESUMED:
                stream = self._local_stream(detail)
                if stream is not None:
                    stream.supersede()
            case Notice.END:
                self.end("the session has ended elsewhere")
            case Notice.RECORD:
                if self.saved is None or not detail.isdigit() or int(detail) > self.saved.generation:
                    self._schedule_refresh(notice)
            case Notice.INBOX:
                if self.peer.busy:
                    self._schedule_refresh(notice)
            case Notice.LOST:
                self.signals.wake_all()
                self._schedule_refresh(Notice.RECORD, Notice.INBOX)

    def _schedule_refresh(self, *notices: Notice) -> None:
        self._notices |= set(notices)
        if not self._is_refreshing:
            self._is_refreshing = True
            self._shared.start_soon(self._apply_notices)

    async def _apply_notices(self) -> None:
        try:
            while self._notices and not self.ended:
                # Taken first, so that a notice that arrives in the meantime leads to another turn.
                notices, self._notices = self._notices, _NO_NOTICES
                if Notice.RECORD in notices:
                    await self._load()
                if Notice.INBOX in notices:
                    await self.read_inbox()
        except StoreFailed as error:
            # The next request, or the next search for idle sessions, tries again.
            _log.error("session lookup failed: %s", error)
        finally:
            self._is_refreshing = False

    async def _load(self) -> None:
        stored = await self._shared.store.load(self.id)
        if stored is None:
            self.end("the session has ended elsewhere")
        else:
            self.refresh(stored)

    def _name_get_stream(self, id: str) -> None:
        record = self.peer.record
        if record is not None and record.get_stream != id:
            self.peer.refresh(evolve(record, get_stream=id))

    @property
    def _named_get_stream(self) -> str:
        """The id of the GET stream that the record of this process names; empty if there is none."""
        record = self.peer.record
        return record.get_stream if record is not None else ""

    async def _release_get_stream(self, stream: SessionStream) -> None:
        """Remove the stream from the record, so that another replica with readers attaches its own stream."""
        if self._named_get_stream == stream.id:
            self._name_get_stream("")
            await self.try_to_save()

    async def _pump(self, stream: SessionStream, items: Sequence[Item]) -> None:
        try:
            await stream.pump(items, ended=lambda: self.ended or self.peer.ended)
        except StoreFailed as error:
            _log.error("a stream of a session ends early: %s", error)
        finally:
            del self.streams[stream.id]
            if self.get_stream is stream:
                self._detach()
                self.get_stream = None
        try:
            # If the pump has failed, the store can append the fallback event now.
            await stream.settle()
        except StoreFailed as error:
            _log.error("a stream of a session is completed later: %s", error)
        await self._release_get_stream(stream)

    def _detach(self) -> None:
        if self._attached is not None:
            self.peer.detach(self._attached)
            self._attached = None


def _concerns_calls(before: SessionRecord, after: SessionRecord) -> bool:
    """Return whether a change has an effect on requests that other replicas serve."""
    return before.log_level != after.log_level or before.subscriptions != after.subscriptions
