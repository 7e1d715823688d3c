"""One peer on this process: its connection, its requests in flight, its own requests waiting for answers.

A stdio process is one session; so is the local part of an HTTP session, and, with a single request, an HTTP request
of a per-request revision. Made by the supervisor.
The one rule: everything a session starts ends with it: its tasks, which run in its nursery, and its requests, which
over HTTP are served by the supervisor's workers.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import trio
from attrs import evolve

from mcptrio.abc import Outlet, Principal, SessionRecord
from mcptrio.abc.status import SessionStatus
from mcptrio.errors import ConnectionClosed, MCPError, Overloaded
from mcptrio.ground.token_bucket import TokenBucket
from mcptrio.outbox import Outbox
from mcptrio.protocol.connection import Connection
from mcptrio.protocol.events import (
    CancelReceived,
    NotificationReceived,
    Peer,
    Refused,
    RequestReceived,
    ResponseReceived,
    Unexpected,
)
from mcptrio.protocol.messages import Batch, ErrorResponse, Incoming, Malformed, Message, Notification, RequestId
from mcptrio.protocol.revisions.revision import LogLevel
from mcptrio.protocol.state import Phase
from mcptrio.runtime.batches import BatchOutlet
from mcptrio.runtime.current import CURRENT
from mcptrio.runtime.dispatch import dispatch
from mcptrio.runtime.outgoing import Outgoing
from mcptrio.runtime.request_scope import RequestScope
from mcptrio.runtime.workers import Workers

if TYPE_CHECKING:
    from mcptrio.runtime.supervisor import Listener, Supervisor

__all__ = ["Session"]

_log = logging.getLogger("mcptrio.session")


class Session:
    """
    Args:
        shared: one outlet serves every request (stdio); it is not closed when a request ends.
        believes: the peer is the process that started this one for a plugin, and says for whom it asks.
        begin: called when there is the first task to be run, and calls :meth:`run`; without, the owner does.
        outlet: where messages go that belong to no request; ``None`` while there is no such stream.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        connection: Connection,
        *,
        name: str,
        id: str | None = None,
        principal: Principal | None = None,
        outlet: Outlet | None = None,
        shared: bool = False,
        believes: bool = False,
        begin: Callable[[Session], None] | None = None,
        record: SessionRecord | None = None,
    ) -> None:
        self.supervisor = supervisor
        self.connection = connection
        self.name = name
        self._id = id
        self.principal = principal
        self.in_flight: dict[RequestId, RequestScope] = {}
        self.buckets: dict[str, TokenBucket] = {}
        """Rates of this session, by what they limit."""
        self.dropped_logs = 0
        self.started = trio.current_time()
        self.record = record
        self.reason: str | None = None
        self._outlets: list[Outlet] = [outlet] if outlet is not None else []
        self._shared = shared
        self.believes = believes
        self._begin = begin
        self._nursery: trio.Nursery | None = None
        self._early: list[tuple[Callable[..., Awaitable[None]], tuple[Any, ...]]] = []
        self._over = False
        self._hearing = 0
        """Notifications that listeners are being told of."""
        self.negotiating: trio.Event | None = None
        """Set when ``initialize``, which is being answered, has been."""
        self.closing = trio.Event()
        """Nothing more will be received: what waits for nothing but more messages should finish."""

    # Most sessions are those of one request that stands alone, and need none of these.

    @property
    def id(self) -> str:
        if self._id is None:
            self._id = secrets.token_urlsafe(24)
        return self._id

    @property
    def is_shared(self) -> bool:
        """Whether all that comes over one connection belongs to it."""
        return self._shared

    @cached_property
    def outgoing(self) -> Outgoing:
        return Outgoing(self.connection, self.supervisor.settings.timeouts)

    @cached_property
    def _workers(self) -> Workers:
        return Workers(self.start) if self._shared else self.supervisor.workers

    @cached_property
    def _cancel_scope(self) -> trio.CancelScope:
        return trio.CancelScope()

    # The life of a session

    async def run(self, body: Callable[[], Awaitable[None]] | None = None) -> None:
        """Live until ended. With a ``body`` (a receive loop), until that is done and nothing is in flight."""
        with self._cancel_scope:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for function, args in self._early:
                    nursery.start_soon(function, *args)
                self._early.clear()
                if body is not None:
                    await body()
                    self._workers.close()
                else:
                    await trio.sleep_forever()
        self._nursery = None
        self._close()

    def close(self, grace: float) -> None:
        """The peer will send nothing more: what is in flight has ``grace`` seconds to finish."""
        self.closing.set()
        self.outgoing.close("the peer has closed its side")
        self._cancel_scope.deadline = min(self._cancel_scope.deadline, trio.current_time() + grace)

    def end(self, reason: str) -> None:
        """Cancel everything in flight and stop."""
        if self.reason is None:
            self.reason = reason
        for scope in list(self.in_flight.values()):
            scope.cancel(reason)
        if self._begin is None:
            self._cancel_scope.cancel()
        elif not self._over:
            # Nothing runs that would do it in the end.
            self._close()
            self.supervisor.sessions.discard(self)

    @property
    def ended(self) -> bool:
        """Whether it takes in nothing more."""
        return self._over or self.reason is not None

    @property
    def busy(self) -> bool:
        return bool(self.in_flight or self._outlets)

    def attach(self, outlet: Outlet) -> None:
        self._outlets.append(outlet)

    def detach(self, outlet: Outlet) -> None:
        if outlet in self._outlets:
            self._outlets.remove(outlet)

    @property
    def outlet(self) -> Outlet | None:
        """The stream for messages that belong to no request: the newest one, so each message goes to exactly one."""
        return self._outlets[-1] if self._outlets else None

    def start(self, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Run a task of this session."""
        if self._nursery is not None:
            self._nursery.start_soon(function, *args)
            return
        self._early.append((function, args))
        if self._begin is not None and not self._over:
            begin, self._begin = self._begin, None
            begin(self)

    # Receiving

    def receive(self, incoming: Incoming, outlet: Outlet) -> bool:
        """Take in what arrived. Requests run in the session's nursery; ``outlet`` is closed when nothing more comes.

        Returns:
            Whether it concerned this process. ``False`` is for an answer or a cancellation of something that is not
            in flight here: another replica may be waiting for it.
        """
        if self.ended:
            # Nobody is left who could answer.
            if not self._shared:
                outlet.close()
            return True
        if isinstance(incoming, Batch):
            return self._receive_batch(incoming, outlet)
        return self._receive(incoming, outlet, not self._shared)

    def _receive_batch(self, batch: Batch, outlet: Outlet) -> bool:
        refusal = self.connection.batch_refusal(batch.messages)
        if refusal is not None:
            self._reply(refusal, outlet, close=not self._shared)
            return True
        collector = BatchOutlet(batch, outlet, start=self.start, closes=not self._shared)
        known = [self._receive(message, collector, True) for message in batch.messages]
        return any(known)

    def _receive(self, message: Message | Malformed, outlet: Outlet, own: bool) -> bool:
        event = self.connection.receive(message)
        kind = type(event)
        if kind is RequestReceived:
            self._accept(event, outlet, own)  # type: ignore[arg-type]
            return True
        known = True
        if isinstance(event, Refused):
            self._reply(event.reply, outlet, close=own)
            return True
        if isinstance(event, ResponseReceived):
            self.outgoing.settle(event)
        elif isinstance(event, CancelReceived):
            scope = self.in_flight.get(event.id)
            known = scope is not None
            # A client must not cancel initialize (2025-11-25, basic/utilities/cancellation).
            if scope is not None and scope.request.method.name != "initialize":
                scope.cancel(event.reason or "cancelled by the client")
        elif isinstance(event, NotificationReceived):
            self._notified(event)
        elif isinstance(event, Unexpected):
            known = not event.what.startswith("a response") and not event.what.startswith("an error")
            _log.debug("%s: ignored %s", self.name, event.what)
        if own:
            outlet.close()
        return known

    def _accept(self, event: RequestReceived, outlet: Outlet, own: bool) -> None:
        try:
            scope = self.open_scope(event, outlet, closes=own)
        except Overloaded as error:
            self._reply(self.connection.error(event, error), outlet, close=own)
            return
        if event.method.name == "initialize":
            self.negotiating = trio.Event()
        self._workers.put(scope)

    def open_scope(self, event: RequestReceived, outlet: Outlet, *, closes: bool = False) -> RequestScope:
        """
        Raises:
            Overloaded: too much in flight, or the server is stopping.
        """
        self.supervisor.admit(self)
        scope = RequestScope(event, outlet, self, self.supervisor.settings.timeouts, closes=closes)
        self.supervisor.opened(scope)
        self.in_flight[event.id] = scope
        return scope

    async def handle(self, scope: RequestScope) -> bool:
        """Serve one request to its end, in the task of the caller: a result, an error, or silence.

        Returns:
            Whether it stands instead, which :meth:`conclude` or its cancellation ends.
        """
        stands = False
        try:
            with trio.CancelScope() as lent:
                if scope.lend(lent):
                    await self.serve(scope)
            stands = scope.stands
            if not stands:
                await self.finish(scope)
        finally:
            if not stands:
                self.release(scope)
        if stands and self.closing.is_set():
            await self.conclude(scope)
            return False
        return stands

    async def conclude(self, scope: RequestScope) -> None:
        """Answer a request that stands."""
        if scope.standing is not None:
            scope.reply = self.connection.result(scope.request, scope.standing.result())
            await self.finish(scope)

    async def serve(self, scope: RequestScope) -> None:
        CURRENT.set(scope)
        try:
            scope.reply = await dispatch(self.supervisor.handlers, scope, self.supervisor.around)
        except MCPError as error:
            scope.reply = self.connection.error(scope.request, error)

    async def finish(self, scope: RequestScope) -> None:
        """Send the answer, where there is one to be sent."""
        try:
            if scope.reply is None and scope.fault is not None and scope.reason is None:
                scope.reply = self.connection.error(scope.request, scope.fault)
            # Cancelled: what a handler still brought out of a shield comes too late.
            if scope.reply is not None and scope.reason is None:
                if scope.progress is not None:
                    scope.progress.flush()
                scope.settle()
                outlet = scope.outlet
                # Where other answers are on their way, all of them become one write.
                if len(self.in_flight) > 1 or not isinstance(outlet, Outbox) or not outlet.send_now(scope.reply):
                    await outlet.send(scope.reply)
        except ConnectionClosed:
            _log.debug("%s: the answer to %s had nowhere to go", self.name, scope.label)
        finally:
            self.release(scope)

    def release(self, scope: RequestScope) -> None:
        """Let go of a request; once."""
        request = scope.request
        if scope.released:
            return
        scope.released = True
        scope.settle()
        if scope.standing is not None:
            scope.standing.over()
            scope.standing = None
            scope.closes = True
            self.supervisor.sessions.discard(self)
        if scope.reply is None or scope.reason is not None:
            self.connection.silence(request)
        if self.in_flight.get(request.id) is scope:
            del self.in_flight[request.id]
        self.supervisor.released(scope)
        if scope.closes:
            scope.outlet.close()
        if self.negotiating is not None and request.method.name == "initialize":
            self._negotiated()
            self.negotiating.set()
            self.negotiating = None

    def _reply(self, reply: ErrorResponse, outlet: Outlet, *, close: bool) -> None:
        self.start(self._send_and_close, reply, outlet, close)

    async def _send_and_close(self, reply: Message, outlet: Outlet, close: bool) -> None:
        try:
            await outlet.send(reply)
        except ConnectionClosed:
            pass
        finally:
            if close:
                outlet.close()

    def _close(self) -> None:
        """Nothing more is sent, and whoever waits is told."""
        self._over = True
        self.outgoing.close(self.reason or "the session ended")
        if self._shared:
            # Whatever no worker has come to. Those of the supervisor come to everything.
            for scope in list(self.in_flight.values()):
                self.release(scope)
                scope.outlet.close()
        for outlet in self._outlets:
            outlet.close()

    # What the client said of itself

    def _negotiated(self) -> None:
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

    def _notified(self, event: NotificationReceived) -> None:
        if event.method.name == "notifications/initialized" and self.record is not None and not self.record.initialized:
            self.record = evolve(self.record, initialized=True)
        for listener in self.supervisor.listeners.get(event.method.name, ()):
            if self._hearing >= self.supervisor.settings.limits.requests_per_session:
                # Nobody waits for a notification, so nothing slows down who floods us with them.
                _log.warning("%s: %s was dropped: too many are waiting to be heard", self.name, event.method.name)
                return
            self._hearing += 1
            self.start(self._hear, listener, event)

    async def _hear(self, listener: Listener, event: NotificationReceived) -> None:
        try:
            await self.supervisor.hear(listener, self, event)
        finally:
            self._hearing -= 1

    @property
    def log_level(self) -> str | None:
        return self.record.log_level if self.record is not None else None

    def log_level_of(self, peer: Peer) -> str | None:
        """What the session asked for, where the revision asks per session."""
        if peer.revision.log_level is LogLevel.SESSION:
            return self.log_level or self.supervisor.settings.log_level
        return None

    def set_log_level(self, level: str) -> None:
        if self.record is not None:
            self.record = evolve(self.record, log_level=level)

    @property
    def subscriptions(self) -> frozenset[str]:
        return self.record.subscriptions if self.record is not None else frozenset()

    def set_subscriptions(self, uris: frozenset[str]) -> None:
        if self.record is not None:
            self.record = evolve(self.record, subscriptions=uris)

    def notify(self, method: str, params: Any, *, key: object) -> None:
        """Send a notification that belongs to no request, where there is a stream for it."""
        peer, outlet = self.connection.peer, self.outlet
        # Requests may be in flight before the client is ready, but this belongs to none of them.
        if peer is None or outlet is None or self.connection.phase is not Phase.READY:
            return
        notification: Notification | None = self.connection.notification(method, params, peer=peer)
        if notification is not None:
            outlet.offer(notification, key)

    def tell(self, method: str, params: dict[str, Any] | None) -> None:
        """Send a notification in wire form that belongs to no request, where there is a stream for it.

        Does not block: a peer that does not read loses it once its outlet holds back as many as it can.
        """
        if self.outlet is not None and self.connection.peer is not None:
            self.outlet.offer(Notification(method, params), object())

    @property
    def status(self) -> SessionStatus:
        peer = self.connection.peer
        return SessionStatus(
            name=self.name,
            age=trio.current_time() - self.started,
            revision=peer.revision.version if peer is not None else None,
            client=peer.info.name if peer is not None and peer.info is not None else None,
            principal=self.principal.subject if self.principal is not None else None,
            requests=tuple(scope.status for scope in self.in_flight.values()),
            questions=self.outgoing.status,
        )
