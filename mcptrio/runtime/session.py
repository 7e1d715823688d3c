"""A session: one peer in this process, with its requests in flight.

The supervisor makes it. A stdio process has one session. Over HTTP, the local part of a handshake session is one, and
each request of a revision without a handshake has its own. Everything that a session starts ends with it: the tasks in
its nursery, and its requests, which over HTTP run in workers that all sessions share.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Protocol

import trio
from attrs import define, field

from mcptrio.abc import MessageChannel, MessageSink
from mcptrio.abc.status import SessionStatus
from mcptrio.abc.tracing import TRACING, trace_received
from mcptrio.errors import ConnectionClosed, MCPError, Overloaded
from mcptrio.ground.workers import Workers
from mcptrio.outbox import Outbox
from mcptrio.protocol.events import (
    CancelReceived,
    Event,
    MessageRefused,
    NotificationReceived,
    RequestReceived,
    ResponseReceived,
    Unexpected,
)
from mcptrio.protocol.messages import Batch, ErrorResponse, Incoming, Malformed, Message, RequestId, Response
from mcptrio.runtime.batches import BatchSink
from mcptrio.runtime.conversation import Conversation
from mcptrio.runtime.current import CURRENT
from mcptrio.runtime.gate import Gate
from mcptrio.runtime.keepalive import keep_alive
from mcptrio.runtime.middleware import MiddlewareProvider
from mcptrio.runtime.notifications import Listener, handle_notification
from mcptrio.runtime.request import Handler, RequestScope, dispatch
from mcptrio.runtime.request_lifecycle import RequestState
from mcptrio.runtime.settings import ServerSettings
from mcptrio.runtime.taps import show_sent

__all__ = ["Session", "SessionOwner"]

_log = logging.getLogger("mcptrio.session")

FLUSH_TIMEOUT = 1.0
"""Seconds for writing queued messages after the last read."""


class SessionOwner(Protocol):
    """The interface of the supervisor for its sessions."""

    settings: ServerSettings
    gate: Gate
    workers: Workers
    """The workers of all sessions that have none of their own."""
    handlers: dict[str, Handler]
    listeners: Mapping[str, Sequence[Listener]]
    middleware: MiddlewareProvider

    def forget(self, session: Session, /) -> None:
        """Called when the session has ended."""
        ...


@define(eq=False, slots=False, kw_only=True)
class Session(Conversation):
    """A session with its requests and tasks. The arguments that are not listed are those of :class:`Conversation`.

    Args:
        begin: A function called before the first task. It must start a task that calls :meth:`run`. Without it, the
            owner of the session calls :meth:`run`.
    """

    server: SessionOwner
    _begin: Callable[[Session], None] | None = field(alias="begin", default=None)
    in_flight: dict[RequestId, RequestScope] = field(init=False, factory=dict)
    reason: str | None = field(init=False, default=None)
    is_counted: bool = field(init=False, default=False)
    """Whether it counts against ``limits.sessions``. A session of a single request does not."""
    _is_closed: bool = field(init=False, default=False)
    _nursery: trio.Nursery | None = field(init=False, default=None)
    _unstarted_tasks: list[tuple[Callable[..., Awaitable[None]], tuple[Any, ...]]] = field(init=False, factory=list)
    """Tasks that were started before :meth:`run`."""
    _pending_notifications: int = field(init=False, default=0)
    _negotiating: trio.Event | None = field(init=False, default=None)
    """Set after the response to ``initialize``; ``None`` while no ``initialize`` is in progress."""

    @cached_property
    def _workers(self) -> Workers:
        return Workers(self.start) if self.is_shared else self.server.workers

    @cached_property
    def _cancel_scope(self) -> trio.CancelScope:
        return trio.CancelScope()

    # Lifecycle

    async def serve_channel(self, channel: MessageChannel, outbox: Outbox) -> None:
        """Serve the peer on a channel until either side closes it."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write, channel, outbox)
            self.keep_alive()
            await self.run(partial(self._read, channel, outbox))
            outbox.close()
            # A peer that reads still gets the queued messages.
            nursery.cancel_scope.deadline = trio.current_time() + FLUSH_TIMEOUT

    async def run(self, body: Callable[[], Awaitable[None]] | None = None) -> None:
        """Run until :meth:`end` is called, or until ``body`` has returned and no request is in flight."""
        with self._cancel_scope:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for function, args in self._unstarted_tasks:
                    nursery.start_soon(function, *args)
                self._unstarted_tasks.clear()
                if body is None:
                    await trio.sleep_forever()
                else:
                    nursery.start_soon(body)
        self._nursery = None
        self._close()

    def keep_alive(self) -> None:
        """Start pings to the peer if the settings enable them."""
        if self.settings.ping_interval:
            self.start(keep_alive, self, self.end)

    def start(self, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        if self._nursery is not None:
            self._nursery.start_soon(function, *args)
            return
        # Sessions over HTTP have no task until they need one, which saves 10 KiB each.
        self._unstarted_tasks.append((function, args))
        if self._begin is not None and not self._is_closed:
            begin, self._begin = self._begin, None
            begin(self)

    def end(self, reason: str) -> None:
        """Cancel all requests and tasks, and end the session. The first reason is kept."""
        if self.reason is None:
            self.reason = reason
        for scope in list(self.in_flight.values()):
            scope.cancel(reason)
        if self._begin is None:
            self._cancel_scope.cancel()
        elif not self._is_closed:
            # run() does this otherwise, but it was never called.
            self._close()
            self.server.forget(self)

    @property
    def ended(self) -> bool:
        """True once the session accepts no more messages."""
        return self._is_closed or self.reason is not None

    @property
    def busy(self) -> bool:
        return bool(self.in_flight or self.sinks)

    def _close(self) -> None:
        """Stop sending, and end all waits for answers of the peer."""
        self._is_closed = True
        self.outgoing.close(self.reason or "the session ended")
        if self.is_shared:
            # These requests will not run: the session's own workers have ended with its nursery.
            for scope in list(self.in_flight.values()):
                self.release(scope)
                scope.sink.close()
        for sink in self.sinks:
            sink.close()

    async def _read(self, channel: MessageChannel, outbox: Outbox) -> None:
        try:
            while True:
                for incoming in await channel.receive():
                    self.receive(incoming, outbox)
                    if self._negotiating is not None:
                        # Messages that the client pipelines after initialize must be read in the negotiated revision.
                        await self._negotiating.wait()
                # Backpressure: read nothing from a peer that does not read its answers.
                await outbox.wait_for_room()
        except trio.EndOfChannel:
            # The peer may still read, so running requests get some time to finish.
            self.closing.set()
            self.outgoing.close("the peer has closed its side")
            deadline = trio.current_time() + self.settings.timeouts.shutdown
            self._cancel_scope.deadline = min(self._cancel_scope.deadline, deadline)
        except ConnectionClosed as error:
            self.end(str(error))
        self._workers.close()

    async def _write(self, channel: MessageChannel, outbox: Outbox) -> None:
        try:
            while True:
                items = await outbox.take()
                if self.taps:
                    show_sent(self.taps, items)
                await channel.send(items)
        except trio.EndOfChannel:
            pass  # The outbox is closed and empty.
        except ConnectionClosed as error:
            outbox.abort()
            self.end(str(error))

    # Receiving

    def receive(self, incoming: Incoming, sink: MessageSink) -> bool:
        """Handle a received message or batch. ``sink`` is closed after the last response.

        Returns:
            False for a response or a cancellation whose request another replica may have, because this one has not.
        """
        if self._is_closed or self.reason is not None:
            # The session has no tasks left that could answer.
            if not self.is_shared:
                sink.close()
            return True
        if self.taps:
            sink = self.show_received(incoming, sink)
        if isinstance(incoming, Batch):
            return self._receive_batch(incoming, sink)
        return self._receive(incoming, sink, not self.is_shared)

    def _receive_batch(self, batch: Batch, sink: MessageSink) -> bool:
        refusal = self.connection.batch_refusal(batch.messages)
        if refusal is not None:
            self.start(self._refuse, refusal, sink, not self.is_shared)
            return True
        collector = BatchSink(batch, sink, start=self.start, closes=not self.is_shared)
        known = [self._receive(message, collector, True) for message in batch.messages]
        return any(known)

    def _receive(self, message: Message | Malformed, sink: MessageSink, owns_sink: bool) -> bool:
        event = self.connection.receive(message)
        if isinstance(event, RequestReceived):
            self._accept(event, sink, owns_sink)
            return True
        if isinstance(event, MessageRefused):
            self.start(self._refuse, event.reply, sink, owns_sink)
            return True
        with trace_received(message):
            known = self._handle(event)
        if owns_sink:
            sink.close()
        return known

    def _handle(self, event: Event) -> bool:
        """Handle an event that is not a request. Returns the same as :meth:`receive`."""
        if isinstance(event, CancelReceived):
            scope = self.in_flight.get(event.id)
            # A client must not cancel initialize (2025-11-25, basic/utilities/cancellation).
            if scope is not None and scope.request.method.name != "initialize":
                scope.cancel(event.reason or "cancelled by the client")
            return scope is not None
        if isinstance(event, ResponseReceived):
            self.outgoing.settle(event)
        elif isinstance(event, NotificationReceived):
            self._pass_to_listeners(event)
        elif isinstance(event, Unexpected):
            _log.debug("%s: ignored %s", self.name, event.what)
            return not event.what.startswith(("a response", "an error"))
        return True

    def _accept(self, event: RequestReceived, sink: MessageSink, owns_sink: bool) -> None:
        try:
            scope = self.server.gate.admit(self, event, sink, owns_sink=owns_sink)
        except Overloaded as error:
            # A task sends the refusal, because the reader must not wait for room in the sink.
            self.start(self._refuse, self.connection.error(event, error), sink, owns_sink)
            return
        self.in_flight[event.id] = scope
        if event.method.name == "initialize":
            self._negotiating = trio.Event()
        self._workers.put(self, scope)

    def _pass_to_listeners(self, event: NotificationReceived) -> None:
        if event.method.name == "notifications/initialized":
            self.initialized()
        for listener in self.server.listeners.get(event.method.name, ()):
            if self._pending_notifications >= self.settings.limits.requests_per_session:
                # Notifications have no responses that would slow the peer down, so their number must be limited.
                _log.warning("%s: notification dropped, too many are pending: method=%s", self.name, event.method.name)
                return
            self._pending_notifications += 1
            self.start(self._run_listener, listener, event)

    async def _run_listener(self, listener: Listener, event: NotificationReceived) -> None:
        try:
            await handle_notification(listener, self, event)
        finally:
            self._pending_notifications -= 1

    async def _refuse(self, reply: ErrorResponse, sink: MessageSink, close: bool) -> None:
        try:
            await sink.send(reply)
        except ConnectionClosed:
            pass  # The peer has disconnected, so nothing receives the refusal.
        finally:
            if close:
                sink.close()

    # Serving requests

    async def answer(
        self, event: RequestReceived, sink: MessageSink, *, opened: Callable[[RequestScope], None]
    ) -> bool:
        """Serve the single request of this session in the task of the caller. ``opened`` is called when it is admitted.

        Returns:
            True if the request is kept open without a task, until :meth:`conclude` or a cancellation.
        """
        scope = self.server.gate.admit(self, event, sink)
        self.in_flight[event.id] = scope
        is_kept_open = False
        try:
            opened(scope)
            with trio.CancelScope() as cancel_scope:
                if scope.attach_cancel_scope(cancel_scope):
                    await self.serve(scope)
            is_kept_open = scope.state is RequestState.KEPT_OPEN
            if not is_kept_open:
                await self.finish(scope)
        finally:
            if is_kept_open:
                scope.on_cancelled = partial(self.release, scope)
            else:
                self.release(scope)
        if is_kept_open and self.closing.is_set():
            await self.conclude(scope)
            return False
        return is_kept_open

    async def conclude(self, scope: RequestScope) -> None:
        """Answer a request that is kept open without a task, because the server is stopping."""
        if scope.open is not None and scope.state is RequestState.KEPT_OPEN:
            scope.reply = self.connection.result(scope.request, scope.open.result())
            await self.finish(scope)

    async def serve(self, scope: RequestScope) -> None:
        CURRENT.set(scope)
        if TRACING.tracer is not None:
            with TRACING.tracer.serving(scope):
                await self._dispatch(scope)
        else:
            await self._dispatch(scope)

    async def _dispatch(self, scope: RequestScope) -> None:
        try:
            scope.reply = await dispatch(self.server.handlers, scope, self.server.middleware.around)
        except MCPError as error:
            scope.reply = self.connection.error(scope.request, error)

    async def finish(self, scope: RequestScope) -> None:
        """Send the answer, if there is one, and release the request."""
        try:
            reply = scope.finish()
            if reply is not None:
                sink = scope.sink
                # The queue is used if other requests are in flight, because it combines several answers into one write,
                # and if there are taps, because its writer passes messages to them.
                if len(self.in_flight) > 1 or self.taps or not isinstance(sink, Outbox) or not sink.send_now(reply):
                    await sink.send(reply)
                if isinstance(reply, Response):
                    scope.on_lost_result = None
        except ConnectionClosed:
            scope.reason = "the connection was closed before the answer was sent"
            _log.debug("%s: answer lost, the connection was closed: %s", self.name, scope.label)
        finally:
            self.release(scope)

    def release(self, scope: RequestScope) -> None:
        is_open = scope.open is not None
        if not scope.close():
            return
        request = scope.request
        if scope.on_lost_result is not None:
            scope.on_lost_result()
        if scope.reply is None:
            self.connection.drop_response(request)
        if self.in_flight.get(request.id) is scope:
            del self.in_flight[request.id]
        self.server.gate.release(scope)
        if is_open:
            self.server.forget(self)
        if scope.owns_sink:
            scope.sink.close()
        if self._negotiating is not None and request.method.name == "initialize":
            self.negotiated()
            self._negotiating.set()
            self._negotiating = None

    @property
    def status(self) -> SessionStatus:
        return self.status_with(tuple(scope.status for scope in self.in_flight.values()))
