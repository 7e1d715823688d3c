"""Admission control: admits requests within the limits of a server, and counts each until it has ended.

Sessions admit and release their requests here. The error of a refused request names the limit.
"""

from __future__ import annotations

from collections.abc import Sized
from math import inf

import trio

from mcptrio.abc import MessageSink
from mcptrio.abc.observers import RefusalReason
from mcptrio.errors import Overloaded
from mcptrio.ground.deadlines import Deadlines
from mcptrio.ground.shares import RefCountedShare, Shares
from mcptrio.protocol.events import RequestReceived
from mcptrio.runtime.conversation import Conversation
from mcptrio.runtime.observers import Observers
from mcptrio.runtime.request import RequestScope
from mcptrio.runtime.settings import ServerSettings

__all__ = ["Gate"]


class Gate:
    """Admits requests within the limits of a server, and counts them.

    Args:
        works: The running handlers. Handlers of ended requests count against ``limits.requests`` too.
    """

    def __init__(self, settings: ServerSettings, deadlines: Deadlines, works: Sized, observers: Observers) -> None:
        self.in_flight = 0
        self.is_closed = False
        self.drain_deadline = inf
        """Trio clock time at which requests in flight are cancelled, once the gate is closed."""
        self._limits = settings.limits
        self._timeouts = settings.timeouts
        self._deadlines = deadlines
        self._works = works
        self._observers = observers
        self.memory = Shares(settings.limits.held_bytes)
        self._idle = trio.Event()

    def admit(
        self, session: Conversation, request: RequestReceived, sink: MessageSink, *, owns_sink: bool = False
    ) -> RequestScope:
        """Admit a request. The caller must call :meth:`release` once.

        Raises:
            Overloaded: A limit is reached, or the server is stopping.
        """
        if self.is_closed:
            self.refuse_closed(request.method.name)
        limits = self._limits
        # Both are compared: a handler may still clean up after its request has ended.
        if self.in_flight >= limits.requests or len(self._works) >= limits.requests:
            self._report_refusal(request, "requests")
            raise Overloaded(f"too many requests: {limits.requests} are in flight on this server")
        if session.requests >= limits.requests_per_session:
            self._report_refusal(request, "session")
            raise Overloaded(f"too many requests: {limits.requests_per_session} are in flight in this session")
        memory = self._take_memory(session, request) if request.weight else None
        scope = RequestScope(request, sink, session, self._deadlines, memory, owns_sink)
        self.in_flight += 1
        session.requests += 1
        session.last_peer = request.peer
        self._deadlines.scopes.add(scope)
        if scope.deadline < self._deadlines.next:
            self._deadlines.moved(scope)
        return scope

    def release(self, scope: RequestScope) -> None:
        """Note that the request has ended."""
        self.in_flight -= 1
        scope.session.requests -= 1
        if scope.memory is not None:
            # A handler that still runs counts as another user of this memory.
            scope.memory.release()
        self._deadlines.scopes.discard(scope)
        if self._observers.listening:
            self._observers.request_ended(scope)
        if self.is_closed and not self.in_flight:
            self._idle.set()

    def close(self) -> None:
        """Refuse new requests. Requests in flight have ``timeouts.shutdown`` seconds."""
        if not self.is_closed:
            self.is_closed = True
            self.drain_deadline = trio.current_time() + self._timeouts.shutdown

    def refuse_closed(self, method: str) -> None:
        """Refuse a request if the gate is closed. Otherwise do nothing.

        Raises:
            Overloaded: The gate is closed.
        """
        if self.is_closed:
            self._observers.request_refused(method, "stopping")
            raise Overloaded("the server is stopping", retry_after=self._timeouts.shutdown)

    async def wait_idle(self) -> None:
        """Wait until no request is in flight. Called when the gate is closed."""
        if self.in_flight:
            await self._idle.wait()

    def _report_refusal(self, request: RequestReceived, reason: RefusalReason) -> None:
        self._observers.request_refused(request.method.name, reason)

    def _take_memory(self, session: Conversation, request: RequestReceived) -> RefCountedShare:
        places = self.memory
        place = places.take(session if request.owner is None else request.owner, request.weight)
        if place is None:
            self._report_refusal(request, "memory")
            raise Overloaded(
                f"too much memory: the parameters take about {request.weight} bytes, those of all running requests"
                f" {places.taken}; the limit is {places.limit}, and half of it for one client"
            )
        return RefCountedShare(places, place)
