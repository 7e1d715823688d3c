"""The part of a session that requests use: the handshake, and the streams for messages that belong to no request.

Subscriptions and listeners of notifications use it too. :class:`mcptrio.runtime.session.Session` is its subclass, and
adds the requests in flight.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import cached_property
from itertools import count
from typing import Any

import trio
from attrs import define, evolve, field

from mcptrio.abc import MessageSink, Principal, SessionRecord
from mcptrio.abc.status import RequestStatus, SessionStatus
from mcptrio.abc.tracing import trace_notification
from mcptrio.ground.token_bucket import TokenBucket
from mcptrio.protocol.connection import Connection
from mcptrio.protocol.events import Peer
from mcptrio.protocol.messages import Incoming, Notification
from mcptrio.protocol.model.lifecycle import ClientCapabilities, Implementation
from mcptrio.protocol.revisions.registry import REVISIONS
from mcptrio.protocol.revisions.revision import LogLevel
from mcptrio.protocol.state import Phase
from mcptrio.runtime.callers import caller_of_principal, caller_of_session_id
from mcptrio.runtime.outgoing import Outgoing
from mcptrio.runtime.settings import ServerSettings
from mcptrio.runtime.taps import MessageTap, TappedSink

__all__ = ["Conversation", "peer_of"]

_numbers = count(1)


@define(eq=False, slots=False, kw_only=True)
class Conversation:
    """The part of a session that its requests use: its connection, record, sinks and taps.

    Args:
        name: The name in the log.
        id: The id of a stored session. For other sessions, it is made when it is first used.
        principal: The principal of the messages that arrive next.
        sinks: Streams for messages that belong to no request, the newest last.
        is_shared: Whether one sink serves all requests (stdio); it is then not closed when a request ends.
        trusts_forwarded_caller: Whether the peer is the parent process of an isolated plugin, which forwards callers.
        record: The record of a stored session. For other sessions, it is made after ``initialize``.
        on_subscriptions: A function called when another replica has changed the session's subscriptions.
        on_missed_changes: A function called with this object when its client may have missed notifications of changes.
    """

    connection: Connection
    settings: ServerSettings
    name: str
    _id: str | None = field(alias="id", default=None)
    principal: Principal | None = None
    sinks: list[MessageSink] = field(factory=list)
    is_shared: bool = False
    trusts_forwarded_caller: bool = False
    record: SessionRecord | None = None
    on_subscriptions: Callable[[], None] | None = None
    on_missed_changes: Callable[[Conversation], None] | None = None
    number: int = field(init=False, factory=_numbers.__next__)
    """Identifies the session in this process. The id cannot do that, because it is a secret on some transports."""
    requests: int = field(init=False, default=0)
    """Requests in flight, counted by the gate."""
    last_peer: Peer | None = field(init=False, default=None)
    """The peer of the last request, set by the gate. In 2026-07-28, each request states its peer."""
    started: float = field(init=False, factory=trio.current_time)
    buckets: dict[str, TokenBucket] = field(init=False, factory=dict)
    """The rate limits of this session, by the name of the limited activity."""
    dropped_logs: int = field(init=False, default=0)
    taps: list[MessageTap] | tuple[()] = field(init=False, default=())

    # Cached properties, because most sessions serve a single request over HTTP and need none of them.

    @cached_property
    def closing(self) -> trio.Event:
        """Set when nothing more will be received, so requests that only wait for messages should finish."""
        return trio.Event()

    @property
    def id(self) -> str:
        if self._id is None:
            self._id = secrets.token_urlsafe(24)
        return self._id

    @cached_property
    def outgoing(self) -> Outgoing:
        return Outgoing(self.connection, self.settings.timeouts)

    @property
    def caller(self) -> str:
        """The caller of a handshake session or a shared connection."""
        return caller_of_session_id(self.id) if self.principal is None else caller_of_principal(self.principal)

    def status_with(self, requests: tuple[RequestStatus, ...]) -> SessionStatus:
        """Return the status of the session with the given status of its requests."""
        peer = self.last_peer or self.connection.peer
        return SessionStatus(
            number=self.number,
            name=self.name,
            age=trio.current_time() - self.started,
            revision=peer.revision.version if peer is not None else None,
            client=peer.info.name if peer is not None and peer.info is not None else None,
            principal=self.principal.subject if self.principal is not None else None,
            capabilities=peer.capabilities.names if peer is not None else (),
            streams=len(self.sinks),
            requests=requests,
            questions=self.outgoing.status,
        )

    # The record

    @property
    def stored_id(self) -> str | None:
        """See :class:`mcptrio.abc.tracing.TracedSession`."""
        return self.record.id if self.record is not None and not self.is_shared else None

    def negotiated(self) -> None:
        """Make the record, after a successful response to ``initialize``."""
        peer = self.connection.peer
        if peer is None or self.record is not None:
            return
        self.record = SessionRecord(
            id=self.id,
            revision=peer.revision.version,
            principal=self.principal,
            client_info=peer.revision.unstructure(peer.info) if peer.info is not None else {},
            client_capabilities=peer.revision.unstructure(peer.capabilities),
        )

    def initialized(self) -> None:
        """Note in the record that the client has sent ``notifications/initialized``."""
        if self.record is not None and not self.record.initialized:
            self.record = evolve(self.record, initialized=True)

    def refresh(self, record: SessionRecord) -> None:
        """Replace the record, because another replica or the transport has changed it."""
        are_subscriptions_new = record.subscriptions != self.subscriptions
        self.record = record
        if are_subscriptions_new and self.on_subscriptions is not None:
            self.on_subscriptions()
        if record.initialized:
            self.connection.mark_initialized()

    # Streams

    def attach(self, sink: MessageSink) -> None:
        """Add a stream for messages that belong to no request."""
        self.sinks.append(sink)

    def detach(self, sink: MessageSink) -> None:
        """Remove a stream."""
        if sink in self.sinks:
            self.sinks.remove(sink)

    def report_everything_changed(self) -> None:
        """Note that the client may have missed notifications, so that everything is reported to it as changed."""
        if self.on_missed_changes is not None:
            self.on_missed_changes(self)

    @property
    def sink(self) -> MessageSink | None:
        """The newest sink; ``None`` if there is none."""
        # Each message goes to exactly one stream (2025-11-25, basic/transports, "Multiple Connections").
        return self.tapped(self.sinks[-1]) if self.sinks else None

    def add_tap(self, tap: MessageTap) -> None:
        """Pass all messages to a tap from now on, except those of requests in flight."""
        if not isinstance(self.taps, list):
            # The list is made here, because most sessions never have a tap, and an empty list takes memory in each.
            self.taps = []
        self.taps.append(tap)

    def show_received(self, incoming: Incoming, sink: MessageSink) -> MessageSink:
        """Pass a received message to the taps. Returns the sink for its answer."""
        for tap in self.taps:
            tap.received(incoming)
        return self.tapped(sink)

    def tapped(self, sink: MessageSink) -> MessageSink:
        """Return a sink that passes its messages to the taps, if there are any."""
        # On a shared channel, the task that writes passes the messages to the taps.
        return TappedSink(sink, self.taps) if self.taps and not self.is_shared else sink

    def notify(self, method: str, params: Any, *, key: object) -> None:
        """Send a notification that belongs to no request, if there is a stream for it. Does not block.

        Args:
            key: A queued notification with the same key is replaced.
        """
        peer, sink = self.connection.peer, self.sink
        # Until the client has sent notifications/initialized, only messages that belong to a request may be sent.
        if peer is None or sink is None or self.connection.phase is not Phase.READY:
            return
        notification = self.connection.notification(method, params, peer=peer)
        if notification is not None:
            trace_notification(notification, peer.revision.version)
            sink.send_latest(notification, key)

    def send_wire(self, method: str, params: dict[str, Any] | None) -> None:
        """Send a notification in wire form. Does not block: if the sink is full, the notification is dropped."""
        if self.sink is not None and self.connection.peer is not None:
            notification = Notification(method, params)
            trace_notification(notification)
            self.sink.send_latest(notification, object())

    # Settings that the client has changed

    @property
    def log_level(self) -> str | None:
        return self.record.log_level if self.record is not None else None

    def log_level_of(self, peer: Peer) -> str | None:
        """Return the log level of the session, in revisions that set it per session."""
        if peer.revision.log_level is LogLevel.SESSION:
            return self.log_level or self.settings.log_level
        return None

    def set_log_level(self, level: str) -> None:
        if self.record is not None:
            # A new object, by which the HTTP endpoint notices that the record must be stored.
            self.record = evolve(self.record, log_level=level)

    @property
    def subscriptions(self) -> frozenset[str]:
        return self.record.subscriptions if self.record is not None else frozenset()

    def set_subscriptions(self, uris: frozenset[str]) -> None:
        if self.record is not None:
            self.record = evolve(self.record, subscriptions=uris)


def peer_of(record: SessionRecord) -> Peer:
    """Return the peer of a stored session."""
    revision = REVISIONS[record.revision]
    return Peer(
        revision=revision,
        info=revision.structure(dict(record.client_info), Implementation) if record.client_info else None,
        capabilities=revision.structure(dict(record.client_capabilities), ClientCapabilities),
    )
