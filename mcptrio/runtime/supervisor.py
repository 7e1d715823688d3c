"""The supervisor: every session and every request of a server lives below it.

Made by the server, called by the transports (it is their Engine).
The one rule: nothing runs that is not in the tree below its nursery, and when it is told to stop, all of it ends:
what is in flight has ``timeouts.shutdown`` seconds, then it is cancelled.

    Supervisor ── Session (one peer) ── RequestScope (one request)
       └───────── parked handlers, waiting between two requests for a client's answer
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any

import trio

from mcptrio.abc import ASGIApp, MessageChannel, Outlet, Principal, PromptChannel, SessionRecord, StateSealer
from mcptrio.abc.status import Readiness
from mcptrio.errors import ConnectionClosed, MCPError, Overloaded
from mcptrio.ground.deadlines import Deadlines
from mcptrio.ground.guarded import Done, Failure, run_guarded
from mcptrio.ground.shares import Places
from mcptrio.outbox import Outbox
from mcptrio.protocol.connection import Connection
from mcptrio.protocol.events import NotificationReceived, Peer, Refused, RequestReceived
from mcptrio.protocol.introductions import Introductions
from mcptrio.protocol.messages import Incoming, Notification, Request
from mcptrio.protocol.model.lifecycle import ClientCapabilities, Implementation, PingParams
from mcptrio.protocol.model.methods import Method, Side
from mcptrio.protocol.revisions.registry import REVISIONS
from mcptrio.runtime.current import CURRENT
from mcptrio.runtime.dispatch import Around, Handler, Middlewares
from mcptrio.runtime.effects import Effects
from mcptrio.runtime.request_scope import RequestScope
from mcptrio.runtime.request_state import LIFETIME
from mcptrio.runtime.session import Session
from mcptrio.runtime.settings import ServerSettings
from mcptrio.runtime.state import RuntimeState
from mcptrio.runtime.workers import Workers

__all__ = ["Listener", "Supervisor"]

_log = logging.getLogger("mcptrio.supervisor")

Listener = Callable[[Session, Any], Awaitable[None]]
"""Hears a notification: the session it came in, and its params."""
GOODBYE = 1.0
"""Seconds for closing a channel, whatever it does."""


class Supervisor:
    """
    Args:
        server_info: the wire form of Implementation, stamped on results of per-request revisions.
        handlers: method to handler; the capabilities put theirs in.
        serves: whether a capability is advertised.
        mirrored: a tool's mirrored parameters, header to path.
        state: what the requests share.
        readiness: what ``/readyz`` shows.
        middleware: what plugins put around every request.
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
        sealer: StateSealer,
        mirrored: Callable[[str], Mapping[str, tuple[str, ...]]],
        lacking_scopes: Callable[[Incoming, Principal | None], frozenset[str]],
        route: Callable[[str], ASGIApp | None],
        readiness: Callable[[], Readiness],
        middleware: Middlewares,
    ) -> None:
        self.settings = settings
        self._server_info = server_info
        self.handlers = handlers
        self.custom = custom
        self.listeners = listeners
        self.sealer = sealer
        self.sessions = state.sessions
        self.in_flight = 0
        self.loop = state.loop
        self.held = Places(settings.limits.held_bytes)
        self.deadlines = Deadlines()
        self.parking = state.parking
        self.works = state.works
        self._surrounding = state.surrounding
        self.effects = Effects(LIFETIME)
        self.threads = state.threads
        self.workers = Workers(self._start)
        """Of the sessions over HTTP."""
        self._introductions = Introductions()
        self._serves = serves
        self._mirrored = mirrored
        self.lacking_scopes = lacking_scopes
        self.route = route
        self._readiness = readiness
        self._middleware = middleware
        self._nursery: trio.Nursery | None = None
        self._draining = trio.Event()
        self._idle = trio.Event()
        self.stop_by = inf
        """Trio time until which what is in flight may go on, once the server is stopping."""

    # Its own life

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Live until cancelled; then everything below is cancelled too."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self.loop.enter()
            nursery.start_soon(self.deadlines.run)
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    @property
    def nursery(self) -> trio.Nursery:
        if self._nursery is None:
            raise RuntimeError("the server is not open: use `async with server.open() as running:`")
        return self._nursery

    @property
    def draining(self) -> bool:
        return self._draining.is_set()

    async def drain(self) -> None:
        """Take nothing new; wait for what is in flight, at most ``timeouts.shutdown`` seconds; cancel the rest."""
        if not self.draining:
            self.stop_by = trio.current_time() + self.settings.timeouts.shutdown
        self._draining.set()
        for session in self.sessions:
            session.closing.set()
            for scope in session.in_flight.values():
                if scope.stands:
                    self.nursery.start_soon(session.conclude, scope)
        self.parking.clear("the server is stopping")
        with trio.move_on_at(self.stop_by):
            if self.in_flight:
                await self._idle.wait()
            await self.works.wait_ended()
        await self._answer_the_rest()
        for session in list(self.sessions):
            session.end("the server is stopping")

    async def _answer_the_rest(self) -> None:
        """Answer what has not ended in time with an error, where one connection carries all answers of a session. Over
        HTTP each request is answered by its own exchange."""
        late = [scope for session in self.sessions if session.is_shared for scope in session.in_flight.values()]
        for scope in late:
            scope.give_up(Overloaded("the server is stopping"))
        if late:
            with trio.move_on_after(GOODBYE):
                await self._idle.wait()

    @property
    def around(self) -> Around | None:
        """Through which handlers are called, where plugins put something around them."""
        return self._middleware.around if self._middleware else None

    def admit(self, session: Session) -> None:
        """Whether one more request may start.

        Raises:
            Overloaded: with the limit that is reached.
        """
        limits = self.settings.limits
        if self.draining:
            raise Overloaded("the server is stopping", retry_after=self.settings.timeouts.shutdown)
        # Handlers of requests that have ended may still clean up.
        if max(self.in_flight, len(self.works)) >= limits.requests:
            raise Overloaded(f"too many requests: {limits.requests} are in flight on this server")
        if len(session.in_flight) >= limits.requests_per_session:
            raise Overloaded(f"too many requests: {limits.requests_per_session} are in flight in this session")

    def opened(self, scope: RequestScope) -> None:
        """One request more is in flight. Raises what :meth:`RequestScope.hold` raises."""
        scope.hold(self.held)
        self.in_flight += 1
        self.deadlines.add(scope)

    def released(self, scope: RequestScope) -> None:
        """One request less is in flight."""
        self.in_flight -= 1
        scope.let_go()
        self.deadlines.discard(scope)
        if not self.in_flight and self.draining:
            self._idle.set()

    async def drain_owner(self, owner: str, reason: str, deadline: float) -> None:
        """Wait until no code of a plugin is at work for a request. Handlers that it has parked are cancelled at once;
        calls that have not ended by ``deadline`` are cancelled and answered with an error.

        A request that asks for this inside of the plugin's middleware is not waited for, since it waits itself.
        """
        self.parking.clear(reason, owner=owner)
        current = CURRENT.get()
        asking = current.scope if current is not None else None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.works.drain, owner, reason, deadline)
            nursery.start_soon(self._surrounding.drain, owner, reason, deadline, asking)

    # The engine: what transports call

    async def serve(
        self, channel: MessageChannel, *, principal: Principal | None = None, believes: bool = False
    ) -> None:
        """Serve one peer on one channel until either side ends it.

        Args:
            believes: the peer is the process that started this one for a plugin, and says for whom it asks; see
                :mod:`mcptrio.runtime.callers`.

        Raises:
            Overloaded: too many sessions; the channel is still open, for saying so.
            RuntimeError: the server is not open: nothing would keep its deadlines.
        """
        _ = self.nursery
        write_now = channel.send_now if isinstance(channel, PromptChannel) else None
        limits = self.settings.limits
        outbox = Outbox(limits.outbox, max_bytes=limits.outbox_bytes, write_now=write_now)
        session = Session(
            self,
            self._connection(),
            name=channel.name,
            principal=principal,
            outlet=outbox,
            shared=True,
            believes=believes,
        )
        self._count(session)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, channel, outbox, session)
                if self.settings.ping_interval:
                    session.start(self._keep_alive, session)
                await session.run(partial(self._read, channel, session, outbox))
                outbox.close()
                # What is queued still goes out, to a peer that reads.
                nursery.cancel_scope.deadline = trio.current_time() + GOODBYE
        finally:
            self.sessions.discard(session)
            self.parking.clear("its client has left", session=session)
            with trio.move_on_after(GOODBYE, shield=True):
                await channel.aclose()

    async def answer(
        self,
        message: Request | Notification,
        outlet: Outlet,
        *,
        principal: Principal | None = None,
        opened: Callable[[Callable[[str], None]], None] | None = None,
        standing: bool = False,
    ) -> bool:
        """Serve one self-contained message. Cancelling the caller cancels the request."""
        stands = False
        try:
            if self.draining:
                raise Overloaded("the server is stopping", retry_after=self.settings.timeouts.shutdown)
            connection = self._connection(handshake=False)
            event = connection.receive(message)
            if isinstance(event, Refused):
                await outlet.send(event.reply)
            elif isinstance(event, RequestReceived):
                session = Session(self, connection, name="http", principal=principal, outlet=outlet)
                scope = session.open_scope(event, outlet)
                scope.may_stand = standing
                if opened is not None:
                    opened(scope.cancel)
                self.sessions.add(session)
                try:
                    stands = await session.handle(scope)
                finally:
                    if not stands:
                        self.sessions.discard(session)
            elif isinstance(event, NotificationReceived):
                session = Session(self, connection, name="http", principal=principal, outlet=outlet)
                # The caller waits, which is what slows down who floods us.
                for listener in self.listeners.get(event.method.name, ()):
                    await self.hear(listener, session, event)
        finally:
            if not stands:
                outlet.close()
        return stands

    def open_session(self, *, principal: Principal | None = None, record: SessionRecord | None = None) -> Session:
        """A session waiting for ``initialize``, or the local part of a stored one.

        Raises:
            Overloaded: too many sessions, or the server is stopping.
        """
        if self.draining:
            raise Overloaded("the server is stopping", retry_after=self.settings.timeouts.shutdown)
        connection = self._connection(record=record, id_prefix=True)
        # Most sessions do nothing most of the time: a task is there for those alone that need one.
        session = Session(
            self,
            connection,
            name="http session",
            id=record.id if record is not None else None,
            principal=principal,
            record=record,
            begin=self._begin,
        )
        self._count(session)
        if self.settings.ping_interval:
            session.start(self._keep_alive, session)
        return session

    async def contained(self, task: Callable[[], Awaitable[object]], what: str) -> None:
        """Run a task of a transport; what it raises is logged and ends nothing."""
        outcome = await run_guarded(task)
        if isinstance(outcome, Failure):
            _log.error("%s failed", what, exc_info=outcome.error)

    def mirrored_parameters(self, tool: str) -> Mapping[str, tuple[str, ...]]:
        return self._mirrored(tool)

    def readiness(self) -> Readiness:
        return self._readiness()

    # What sessions need

    async def hear(self, listener: Listener, session: Session, event: NotificationReceived) -> None:
        """Pass a notification on. What the listener raises is logged; it may take as long as a request."""
        outcome: Done[None] | Failure | None = None
        with trio.move_on_after(self.settings.timeouts.request) as patience:
            outcome = await run_guarded(listener, session, event.params)
        if isinstance(outcome, Failure):
            _log.error("%s failed", event.method.name, exc_info=outcome.error)
        elif patience.cancelled_caught:
            _log.error("%s was not heard in time", event.method.name)

    # Private

    def _connection(
        self, *, handshake: bool = True, record: SessionRecord | None = None, id_prefix: bool = False
    ) -> Connection:
        peer = None
        if record is not None:
            revision = REVISIONS[record.revision]
            peer = Peer(
                revision=revision,
                info=revision.structure(dict(record.client_info), Implementation) if record.client_info else None,
                capabilities=revision.structure(dict(record.client_capabilities), ClientCapabilities),
            )
        return Connection(
            serves=self._serves,
            server_info=self._server_info,
            custom=self.custom,
            peer=peer,
            initialized=record.initialized if record is not None else False,
            handshake=handshake,
            id_prefix=f"{secrets.token_hex(4)}-" if id_prefix else "",
            introductions=self._introductions,
        )

    def _count(self, session: Session) -> None:
        limit = self.settings.limits.sessions
        if len(self.sessions) >= limit:
            raise Overloaded(f"too many sessions: {limit} are open", retry_after=10.0)
        self.sessions.add(session)

    def _start(self, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        self.nursery.start_soon(function, *args)

    def _begin(self, session: Session) -> None:
        self.nursery.start_soon(self._run_session, session)

    async def _run_session(self, session: Session) -> None:
        try:
            await session.run()
        finally:
            self.sessions.discard(session)

    async def _read(self, channel: MessageChannel, session: Session, outbox: Outbox) -> None:
        """The receive loop of a channel."""
        try:
            while True:
                for incoming in await channel.receive():
                    session.receive(incoming, outbox)
                    if session.negotiating is not None:
                        # What is pipelined behind initialize is read in the revision that it settles.
                        await session.negotiating.wait()
                # Whoever floods us is made to wait for the answers, not us for memory.
                await outbox.wait_for_room()
        except trio.EndOfChannel:
            session.close(self.settings.timeouts.shutdown)
        except ConnectionClosed as error:
            session.end(str(error))

    @staticmethod
    async def _write(channel: MessageChannel, outbox: Outbox, session: Session) -> None:
        """The writer of a channel: everything queued goes out in one write."""
        try:
            while True:
                await channel.send(await outbox.take())
        except trio.EndOfChannel:
            pass
        except ConnectionClosed as error:
            outbox.abort()
            session.end(str(error))

    async def _keep_alive(self, session: Session) -> None:
        """Ping the peer; a peer that does not answer twice in a row is gone.

        Source: MCP 2025-11-25, basic/utilities/ping.
        """
        missed = 0
        while not session.closing.is_set():
            with trio.move_on_after(self.settings.ping_interval):
                await session.closing.wait()
                return
            peer, outlet = session.connection.peer, session.outlet
            if peer is None or outlet is None or peer.revision.method("ping", Side.CLIENT) is None:
                continue
            try:
                await session.outgoing.request(
                    "ping", PingParams(), peer=peer, outlet=outlet, timeout=self.settings.timeouts.ping
                )
                missed = 0
            except MCPError as error:
                # An answer all the same.
                missed = 0
                _log.debug("%s: a ping was answered with an error: %s", session.name, error.message)
            except trio.TooSlowError:
                missed += 1
                _log.warning("%s: no answer to a ping within %g s", session.name, self.settings.timeouts.ping)
                if missed == 2:
                    session.end("the peer no longer answers pings")
            except ConnectionClosed:
                # That stream has ended; over HTTP the client may open another.
                continue
