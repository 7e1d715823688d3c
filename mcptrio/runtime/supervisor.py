"""The supervisor of a server, which runs every session and every request.

The server makes it, and transports use it through :class:`mcptrio.abc.Engine`. All tasks run below the nursery of
:class:`~mcptrio.runtime.state.RuntimeState`. When the server stops, requests in flight have ``timeouts.shutdown``
seconds before they are cancelled.

    Supervisor ── Session (one peer) ── RequestScope (one request)
       ├───────── Runs: handlers, waiting between two requests for a client's answer
       └───────── LongTasks: calls that continue after their request was answered
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import trio

from mcptrio.abc import ASGIApp, MessageChannel, MessageSink, Principal, SessionRecord, SynchronousChannel
from mcptrio.abc.status import Readiness
from mcptrio.abc.tracing import trace_received
from mcptrio.errors import InternalError, Overloaded
from mcptrio.ground.guarded import Failure, run_guarded
from mcptrio.ground.workers import Workers
from mcptrio.outbox import Outbox
from mcptrio.protocol.client_info_cache import ClientInfoCache
from mcptrio.protocol.connection import Connection
from mcptrio.protocol.events import MessageRefused, NotificationReceived, Peer, RequestReceived
from mcptrio.protocol.messages import Incoming, Notification, Request, RequestId
from mcptrio.protocol.model.methods import Method
from mcptrio.runtime.batches import BatchSink
from mcptrio.runtime.conversation import Conversation, peer_of
from mcptrio.runtime.current import CURRENT
from mcptrio.runtime.gate import Gate
from mcptrio.runtime.middleware import MiddlewareProvider
from mcptrio.runtime.notifications import Listener, handle_notification
from mcptrio.runtime.progress import ProgressReporter
from mcptrio.runtime.request import Handler, RequestScope
from mcptrio.runtime.request_lifecycle import RequestState
from mcptrio.runtime.session import Session
from mcptrio.runtime.settings import ServerSettings
from mcptrio.runtime.state import RuntimeState
from mcptrio.runtime.taps import MessageTap, TappedSink

__all__ = ["Supervisor", "TapFactory"]

_log = logging.getLogger("mcptrio.supervisor")

CLOSE_TIMEOUT = 1.0
"""Seconds for closing a channel, and for sending the last answers on it."""

TapFactory: TypeAlias = Callable[[Session, Peer | None], MessageTap | None]
"""A function that returns a tap for a new session, or ``None``. The peer is known only in revisions without a
handshake."""


class Supervisor:
    """Runs the sessions and requests of one server.

    Args:
        server_info: The wire form of Implementation, added to results in revisions without a handshake.
        handlers: The capabilities' handlers, by method.
        custom: The methods of plugins, by name.
        listeners: The listeners of plugins for notifications, by method.
        state: The state that requests share.
        serves: Returns whether the server advertises a capability.
        param_headers: Returns the parameter headers of a tool, from header to path.
        missing_scopes: Returns the scopes that a principal lacks for a message.
        route: Returns the ASGI application of a plugin at a path, or ``None``.
        readiness: Returns the body of ``/readyz``.
        middleware: The plugins' middleware.
    """

    def __init__(
        self,
        settings: ServerSettings,
        state: RuntimeState,
        *,
        server_info: dict[str, Any],
        handlers: dict[str, Handler],
        custom: Mapping[str, Method],
        listeners: Mapping[str, Sequence[Listener]],
        serves: Callable[[str], bool],
        param_headers: Callable[[str], Mapping[str, tuple[str, ...]]],
        missing_scopes: Callable[[Incoming, Principal | None], frozenset[str]],
        route: Callable[[str], ASGIApp | None],
        readiness: Callable[[], Readiness],
        middleware: MiddlewareProvider,
    ) -> None:
        self.settings = settings
        self.handlers = handlers
        self.custom = custom
        self.listeners = listeners
        self.state = state
        self.sessions = state.sessions
        self.works = state.works
        self.threads = state.threads
        self.loop = state.loop
        self.gate = Gate(settings, state.deadlines, state.works, state.observers)
        self.workers = Workers(state.start)
        """Shared by the sessions over HTTP."""
        self.param_headers = param_headers
        self.missing_scopes = missing_scopes
        self.route = route
        self.readiness = readiness
        self._server_info = server_info
        self._client_info_cache = ClientInfoCache()
        self._serves = serves
        self.middleware = middleware
        self.tap_factories: list[TapFactory] = []
        """Called for each new session."""
        # One object for all sessions, because each would take 200 bytes.
        self._begin_session = partial(state.start, self._run_session)

    # Lifecycle

    @property
    def nursery(self) -> trio.Nursery:
        """See :attr:`mcptrio.runtime.state.RuntimeState.nursery`."""
        return self.state.nursery

    @property
    def draining(self) -> bool:
        """True once new requests are refused."""
        return self.gate.is_closed

    @property
    def in_flight(self) -> int:
        """Requests in flight."""
        return self.gate.in_flight

    async def drain(self) -> None:
        """Refuse new requests, wait at most ``timeouts.shutdown`` seconds for those in flight, and cancel the rest."""
        self.gate.close()
        for session in self.sessions:
            session.closing.set()
            for scope in session.in_flight.values():
                if scope.state is RequestState.KEPT_OPEN:
                    self.nursery.start_soon(session.conclude, scope)
        self.state.runs.stop()
        tasks = self.state.tasks
        if tasks is not None:
            tasks.stop()
        with trio.move_on_at(self.gate.drain_deadline):
            await self.gate.wait_idle()
            await self.works.wait_ended()
        if tasks is not None:
            await tasks.finish()
        await self._fail_remaining_requests()
        for session in list(self.sessions):
            session.end("the server is stopping")

    async def _fail_remaining_requests(self) -> None:
        """Fail the requests of shared channels that have not ended in time."""
        # Over HTTP, the exchange of each request sends the error.
        late = [scope for session in self.sessions if session.is_shared for scope in session.in_flight.values()]
        for scope in late:
            scope.fail(Overloaded("the server is stopping"))
        if late:
            with trio.move_on_after(CLOSE_TIMEOUT):
                await self.gate.wait_idle()

    async def drain_owner(self, owner: str, reason: str, deadline: float) -> None:
        """Wait until no code of a plugin runs for a request.

        Parked handlers are cancelled at once. Calls that have not ended by ``deadline`` are cancelled and fail. If a
        request calls this within the plugin's middleware, this does not wait for that request, because it would wait
        for itself.
        """
        self.state.parking.clear(reason, owner=owner)
        current = CURRENT.get()
        calling_request = current.scope if current is not None else None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.works.drain, owner, reason, deadline)
            nursery.start_soon(self.state.surrounding.drain, owner, reason, deadline, calling_request)

    def cancel_request(self, session: int, id: RequestId, reason: str) -> bool:
        """See :meth:`mcptrio.Server.cancel_request`."""
        scope = next((each.in_flight.get(id) for each in self.sessions if each.number == session), None)
        if scope is not None:
            scope.fail(InternalError(f"{scope.label} was cancelled: {reason}"))
        return scope is not None

    def tap_session(self, session: Session, tap: MessageTap) -> None:
        """Pass all messages of a session to a tap from now on, including those of requests in flight."""
        session.add_tap(tap)
        for scope in session.in_flight.values():
            # A TappedSink and a BatchSink already use the session's list of taps.
            if not isinstance(scope.sink, TappedSink | BatchSink):
                scope.sink = session.tapped(scope.sink)
                if isinstance(scope.progress, ProgressReporter):
                    scope.progress.sink = scope.sink

    def end_session(self, number: int, reason: str) -> bool:
        """See :meth:`mcptrio.Server.end_session`."""
        session = next((each for each in self.sessions if each.number == number), None)
        if session is not None:
            session.end(reason)
        return session is not None

    def has(self, session: Conversation) -> bool:
        """Return whether a session belongs to this server, even if it has ended."""
        return isinstance(session, Session) and session.server is self

    def forget(self, session: Session) -> None:
        """See :class:`mcptrio.runtime.session.SessionOwner`."""
        self._unregister(session)

    # The engine: what transports call

    async def serve(
        self, channel: MessageChannel, *, principal: Principal | None = None, trusts_forwarded_caller: bool = False
    ) -> None:
        """Serve one peer on one channel until either side ends it.

        Args:
            trusts_forwarded_caller: Whether the peer is the parent process of an isolated plugin, which forwards
                callers; see :mod:`mcptrio.runtime.callers`.

        Raises:
            Overloaded: Too many sessions; the channel is still open, so that the caller can report it.
            RuntimeError: The server is not open.
        """
        # Raises if the server is not open: no task would watch deadlines.
        _ = self.nursery
        write_now = channel.send_now if isinstance(channel, SynchronousChannel) else None
        limits = self.settings.limits
        outbox = Outbox(limits.outbox, max_bytes=limits.outbox_bytes, write_now=write_now)
        session = Session(
            server=self,
            settings=self.settings,
            connection=self._connection(),
            name=channel.name,
            principal=principal,
            sinks=[outbox],
            is_shared=True,
            trusts_forwarded_caller=trusts_forwarded_caller,
        )
        self._register(session)
        self._tap(session)
        try:
            await session.serve_channel(channel, outbox)
        finally:
            self._unregister(session)
            self.state.parking.clear("its client has disconnected", session=session)
            # Shielded, because the channel must be closed when this task is cancelled too.
            with trio.move_on_after(CLOSE_TIMEOUT, shield=True):
                await channel.aclose()

    async def answer(
        self,
        message: Request | Notification,
        sink: MessageSink,
        *,
        principal: Principal | None = None,
        opened: Callable[[Callable[[str], None]], None] | None = None,
        may_stay_open: bool = False,
    ) -> bool:
        """Serve one self-contained message. See :meth:`mcptrio.abc.Engine.answer`."""
        connection = self._connection(handshake=False)
        session = Session(
            server=self,
            settings=self.settings,
            connection=connection,
            name="http",
            principal=principal,
            sinks=[sink],
        )
        is_kept_open = False
        try:
            self.gate.refuse_closed(message.method)
            event = connection.receive(message)
            if self.tap_factories:
                self._tap(session, event.peer if isinstance(event, RequestReceived) else None)
                sink = session.show_received(message, sink)

            def begin(scope: RequestScope) -> None:
                scope.can_stay_open = may_stay_open
                self.sessions.add(session)
                if opened is not None:
                    opened(scope.cancel)

            if isinstance(event, RequestReceived):
                is_kept_open = await session.answer(event, sink, opened=begin)
            elif isinstance(event, MessageRefused):
                await sink.send(event.reply)
            elif isinstance(event, NotificationReceived):
                # In the caller's task, so that a client with many notifications slows down only itself.
                with trace_received(message):
                    for listener in self.listeners.get(event.method.name, ()):
                        await handle_notification(listener, session, event)
        finally:
            if not is_kept_open:
                self.sessions.discard(session)
                sink.close()
        return is_kept_open

    def open_session(self, *, principal: Principal | None = None, record: SessionRecord | None = None) -> Session:
        """Return a session that waits for ``initialize``, or the local part of a stored one.

        Raises:
            Overloaded: Too many sessions, or the server is stopping.
        """
        self.gate.refuse_closed("initialize")
        # No task is started here: most sessions are idle, and a session starts its task when it needs one.
        session = Session(
            server=self,
            settings=self.settings,
            connection=self._connection(record=record, id_prefix=True),
            name="http session",
            id=record.id if record is not None else None,
            principal=principal,
            record=record,
            on_subscriptions=self.state.on_subscriptions,
            on_missed_changes=self.state.on_missed_changes,
            begin=self._begin_session,
        )
        self._register(session)
        self._tap(session)
        session.keep_alive()
        return session

    async def run_guarded(self, task: Callable[[], Awaitable[object]], what: str) -> None:
        """Run a task of a transport; its exceptions are logged and do not propagate."""
        outcome = await run_guarded(task)
        if isinstance(outcome, Failure):
            _log.error("%s failed", what, exc_info=outcome.error)

    # Private

    def _connection(
        self, *, handshake: bool = True, record: SessionRecord | None = None, id_prefix: bool = False
    ) -> Connection:
        return Connection(
            serves=self._serves,
            server_info=self._server_info,
            custom=self.custom,
            peer=peer_of(record) if record is not None else None,
            initialized=record.initialized if record is not None else False,
            handshake=handshake,
            # Several replicas may send requests in one HTTP session, so their ids must differ.
            id_prefix=f"{secrets.token_hex(4)}-" if id_prefix else "",
            client_info_cache=self._client_info_cache,
        )

    def _tap(self, session: Session, peer: Peer | None = None) -> None:
        for make_tap in self.tap_factories:
            tap = make_tap(session, peer)
            if tap is not None:
                session.add_tap(tap)

    def _register(self, session: Session) -> None:
        limit = self.settings.limits.sessions
        if len(self.sessions) >= limit:
            raise Overloaded(f"too many sessions: {limit} are open", retry_after=10.0)
        session.is_counted = True
        self.sessions.add(session)

    def _unregister(self, session: Session) -> None:
        self.sessions.discard(session)
        if session.is_counted:
            session.is_counted = False
            self.state.observers.session_ended(session, session.reason)
            for tap in session.taps:
                tap.ended()

    async def _run_session(self, session: Session) -> None:
        try:
            await session.run()
        finally:
            self._unregister(session)
