"""The local part of one handshake session over HTTP: its streams, and its messages from other replicas.

:mod:`mcptrio.http.server.sessions` makes it, and the exchanges of the session use it. The record is in the session
store and the messages are in the event store, so nothing here must survive the process.

Source: MCP 2025-11-25, basic/transports, "Streamable HTTP".
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from weakref import WeakValueDictionary

import trio
from attrs import frozen

from mcptrio.abc import EventStore, MessageSink, PeerSession, Principal, SessionRecord, SessionStore
from mcptrio.errors import ConnectionClosed, StoreFailed
from mcptrio.http.server.keepalives import Keepalives
from mcptrio.http.server.limits import HTTPLimits
from mcptrio.http.server.replicas import Replicas
from mcptrio.http.server.session_streams import SessionStream, StreamSignals
from mcptrio.outbox import Item
from mcptrio.protocol.jsonrpc import decode
from mcptrio.protocol.messages import Batch, Message, Notification
from mcptrio.protocol.revisions.registry import REVISIONS
from mcptrio.protocol.revisions.revision import HTTPTraits

__all__ = ["GET_STREAM_PREFIX", "NOWHERE", "POST_STREAM_PREFIX", "HTTPSession", "Shared"]

GET_STREAM_PREFIX: Final = "g"
"""First letter of the ids of GET streams."""
POST_STREAM_PREFIX: Final = "p"
"""First letter of the ids of POST streams."""

_log = logging.getLogger("mcptrio.http.sessions")


@frozen(kw_only=True)
class Shared:
    """State that the sessions of one process share."""

    store: SessionStore
    events: EventStore
    replicas: Replicas
    limits: HTTPLimits
    keepalives: Keepalives
    start_soon: Callable[..., None]
    """Starts a task in the application's nursery."""


class _Nowhere:
    """The sink for messages that get no response: notifications, responses, and messages from other replicas."""

    async def send(self, message: Item) -> None:
        raise ConnectionClosed("the message cannot be sent: nothing was asked")

    def offer(self, message: Notification, key: object) -> None:
        pass

    def close(self) -> None:
        pass

    def release(self, retry_ms: int) -> bool:
        return False


NOWHERE: Final = _Nowhere()


class HTTPSession:
    """The local part of one session."""

    def __init__(self, shared: Shared, peer: PeerSession, saved: SessionRecord | None) -> None:
        self.peer = peer
        self.id = peer.id
        self.get_stream: SessionStream | None = None
        """The stream for messages that belong to no request; exists from the first GET in this process."""
        self.streams: dict[str, SessionStream] = {}
        """Streams whose pump runs here."""
        self.waiting: set[SessionStream] = set()
        """Streams whose exchange still waits for the first message; the store has no event of them."""
        self.wakes = StreamSignals()
        self.exchanges = 0
        """Open HTTP exchanges of the session."""
        self.used = trio.current_time()
        self.touched = self.used
        """When the store was last told that the session is in use."""
        self.ended = False
        self.scope = trio.CancelScope()
        self.keepalives = shared.keepalives
        self._shared = shared
        self._saved = saved
        # Weak: a view is needed only while a reader holds it.
        self._views: WeakValueDictionary[str, SessionStream] = WeakValueDictionary()
        """Streams of other replicas that are read here."""
        self._attached: SessionStream | None = None
        """The GET stream, while the engine sends to it."""
        self._newest = ""
        """Opening time and id of the newest GET stream on any replica."""

    @property
    def traits(self) -> HTTPTraits | None:
        """``None`` until ``initialize`` has been answered."""
        record = self.peer.record
        return REVISIONS[record.revision].http if record else None

    @property
    def is_idle(self) -> bool:
        """Whether nothing would be lost if the local part ended now: nothing runs, and the record is stored."""
        return (
            not (self.peer.busy or self.exchanges or self.streams or self.waiting) and self.peer.record is self._saved
        )

    def open_stream(
        self, kind: str, *, asked: Message | Batch | None = None, expected: int | None = None
    ) -> SessionStream:
        """Make a stream of this session. It is not listed until :meth:`start`.

        Args:
            asked: the message that it answers, and the number of responses.
        """
        traits = self.traits
        return SessionStream(
            f"{kind}{secrets.token_urlsafe(6)}",
            self.id,
            self._shared.events,
            self.wakes,
            self._announce,
            asked=asked,
            expected=expected,
            sends_priming_event=traits is not None and traits.priming,
            window=self._shared.limits.window,
        )

    def find_stream(self, id: str) -> SessionStream:
        """Return the stream with this id: our own, or a view of another replica's through the store."""
        stream = self.streams.get(id) or self._views.get(id)
        if stream is None:
            stream = self.open_stream("")
            stream.id = id
            self._views[id] = stream
        return stream

    async def resume(self, id: str) -> SessionStream:
        """Return the stream with this id, and end its readers on the other replicas."""
        await self._shared.replicas.tell(self.id, {"resumed": id})
        return self.find_stream(id)

    def start(self, stream: SessionStream, items: Sequence[Item] = ()) -> None:
        """Pump the stream into the store, in the application's nursery, so that it outlives the exchange."""
        self.streams[stream.id] = stream
        self._shared.start_soon(self._pump, stream, items)

    async def listen(self) -> SessionStream:
        """Return the GET stream, attached to the engine here and detached on every other replica."""
        if self.get_stream is None:
            self.get_stream = self.open_stream(GET_STREAM_PREFIX)
            self.start(self.get_stream)
        stream = self.get_stream
        if self._attached is not stream:
            self.peer.attach(stream)
            self._attached = stream
        # Later than every stream we know of, even if another machine's clock is ahead.
        opened = max(time.time_ns(), int(self._newest.partition(" ")[0] or 0) + 1)
        self._newest = f"{opened:020d} {stream.id}"
        await self._shared.replicas.tell(self.id, {"standing": self._newest})
        return stream

    async def stop_listening(self) -> None:
        """End the GET stream here; that of another replica continues."""
        stream = self.get_stream
        if stream is not None:
            self._detach()
            stream.close()
            self.get_stream = None
            # Ours was the newest, so another replica with readers should attach its own again.
            if self._newest.endswith(f" {stream.id}"):
                await self._shared.replicas.tell(self.id, {"vacant": stream.id})

    async def receive(self, incoming: Message | Batch, outlet: MessageSink, principal: Principal | None) -> None:
        """Pass on the message of a POST, here and to tasks on other replicas that wait for it."""
        self.used = trio.current_time()
        self.peer.principal = principal
        # False if an answer or a cancellation belongs to no request here: another replica may have it.
        known = self.peer.receive(incoming, outlet)
        await self.try_to_save()
        if not known or isinstance(incoming, Batch):
            await self._shared.replicas.pass_on(self.id, incoming)

    async def save(self) -> None:
        """Store the record if the engine has replaced it.

        Raises:
            StoreFailed: it could not be stored, and will be tried again.
            Overloaded: it is new, and the store has too many.
        """
        record = self.peer.record
        if record is not None and record is not self._saved and not self.ended:
            # Set before the await, so that a concurrent request does not store the same record again.
            before, self._saved = self._saved, record
            saved = False
            try:
                await self._shared.store.save(record)
                saved = True
            finally:
                if not saved and self._saved is record:
                    self._saved = before

    async def try_to_save(self) -> None:
        """Store the record, and log a failure: the change has already happened, and the sweep tries again."""
        try:
            await self.save()
        except StoreFailed as error:
            _log.error("a session could not be saved: %s", error)

    async def repeat(self, served: Message | Batch) -> None:
        """Let the other replicas do to their records what this message has done to ours."""
        if self._shared.replicas.exist and self._saved is not None and not self.ended:
            await self._shared.replicas.repeat(self.id, served)

    def end(self, reason: str) -> None:
        """Forget the local part."""
        if not self.ended:
            self.ended = True
            self.peer.end(reason)
            for stream in (*self.streams.values(), *self.waiting):
                # Handlers that wait for room must not wait for a session that has ended.
                stream.outbox.abort()
            self.wakes.end()
            self.scope.cancel(reason=reason)

    async def follow(self) -> None:
        """Hear the other replicas until the session ends here."""
        with self.scope:
            await self._shared.replicas.follow(self.id, self._hear)

    def _hear(self, news: Mapping[str, str]) -> None:
        if "wake" in news:
            self.wakes.wake(news["wake"])
        elif "message" in news:
            incoming = decode(news["message"].encode())
            if isinstance(incoming, Batch):
                for message in incoming.messages:
                    self.peer.receive(message, NOWHERE)
        elif "standing" in news:
            if news["standing"] > self._newest:
                self._newest = news["standing"]
                # Its readers stay: it is attached again when the newer one has gone.
                self._detach()
        elif "vacant" in news:
            if self.get_stream is not None and self.get_stream.readers:
                self._shared.start_soon(self.listen)
        elif "resumed" in news:
            stream = self.streams.get(news["resumed"]) or self._views.get(news["resumed"])
            if stream is not None:
                stream.supersede()
        elif "end" in news:
            self.end(news["end"])

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
        # After the pump: the store can now append the fallback event if the pump has failed.
        await stream.settle()

    def _detach(self) -> None:
        if self._attached is not None:
            self.peer.detach(self._attached)
            self._attached = None

    async def _announce(self, stream: str) -> None:
        await self._shared.replicas.tell(self.id, {"wake": stream})
