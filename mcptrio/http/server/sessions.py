"""The sessions of handshake revisions over HTTP.

``HTTPApp`` owns this. No process owns a session: each process serves the requests that reach it. For a session that
it serves, a process keeps a local part, which it makes from the stored record and drops when it is idle. Only the store
decides whether a session exists.

Source: MCP 2025-11-25, basic/transports, "Session Management".
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import trio

from mcptrio.abc import Bus, Engine, EventStore, PeerSession, Principal, SessionRecord, SessionStore
from mcptrio.errors import Overloaded
from mcptrio.http.server.keepalives import Keepalives
from mcptrio.http.server.limits import HTTPLimits
from mcptrio.http.server.replicas import Notice, Replicas
from mcptrio.http.server.request_auth import is_same_principal
from mcptrio.http.server.session import RECORD_AGE, HTTPSession, Shared
from mcptrio.protocol.revisions.registry import REVISIONS

__all__ = ["Sessions"]

_EXPIRY_INTERVAL: Final = 5.0
"""Seconds between two searches for idle sessions."""
_TOUCH_INTERVAL: Final = 60.0
"""Seconds between two reports to the store that a session is in use. Stores expire sessions after much longer."""

_log = logging.getLogger("mcptrio.http.sessions")


class Sessions:
    """The sessions that this process serves.

    Args:
        bus: Reaches the other replicas; ``None`` if there are none.
    """

    def __init__(
        self,
        engine: Engine,
        store: SessionStore,
        events: EventStore,
        bus: Bus | None,
        limits: HTTPLimits,
        keepalives: Keepalives,
    ) -> None:
        self.events = events
        self._store = store
        self._limits = limits
        self._engine = engine
        self._replicas = Replicas(bus)
        self.shared = Shared(
            store=store,
            events=events,
            replicas=self._replicas,
            limits=limits,
            keepalives=keepalives,
            start_soon=self._start_soon,
        )
        """Also for the sessions of HTTP with SSE."""
        self._here: OrderedDict[str, HTTPSession] = OrderedDict()
        """The least recently used first."""
        self._expired: dict[str, None] = {}
        """Expired sessions whose events must be deleted."""
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Own the tasks of all sessions, and drop those that are idle for too long. Runs until cancelled."""
        try:
            async with trio.open_nursery() as self._nursery:
                task_status.started()
                while True:
                    await trio.sleep(_EXPIRY_INTERVAL)
                    await self._engine.run_guarded(self._expire_idle, "looking for idle sessions")
        finally:
            self._nursery = None
            for session in tuple(self._here.values()):
                session.end("the server stops")
            self._here.clear()

    def open(self, principal: Principal | None) -> HTTPSession:
        """Return a new session before ``initialize``. Requests find it after :meth:`keep`.

        Raises:
            Overloaded: The engine has too many sessions.
        """
        self._check_running()
        return HTTPSession(self.shared, self._open_peer(principal, None), None)

    async def keep(self, session: HTTPSession) -> None:
        """Store a session whose ``initialize`` has succeeded.

        Raises:
            Overloaded: The store has too many.
            StoreFailed: It could not be stored.
        """
        await session.save()
        self._enter(session)

    async def find(self, id: str, principal: Principal | None) -> HTTPSession | None:
        """Return the session with this id, or ``None`` if there is none or it belongs to another principal.

        Raises:
            Overloaded: It has no local part yet, and the engine has too many.
            StoreFailed: The record cannot be read.
        """
        self._check_running()
        session = self._here.get(id)
        if session is not None and trio.current_time() < session.current_until:
            record = session.saved
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            record = await self._load(id, session)
            session = self._here.get(id)
        if record is None:
            if session is not None:
                await self._forget(session, "the session has ended elsewhere")
            return None
        if record.principal is not principal and not is_same_principal(record.principal, principal):
            _log.warning("refused a request for the session of another principal: %s", principal)
            return None
        if session is not None and session.peer.ended:
            session.end("its local part has ended")
        if session is None or session.ended:
            session = HTTPSession(self.shared, self._open_peer(principal, record), record)
            self._enter(session)
        elif record is not session.saved:
            session.refresh(record)
        self._here.move_to_end(id)
        session.used = session.touched = trio.current_time()
        return session

    async def end(self, session: HTTPSession) -> None:
        """End the session on every replica, because the client wants it."""
        # The store first: a replica that misses the message finds no record at the next request.
        await self._store.delete(session.id)
        await self._forget(session, "the client has ended the session")
        self._replicas.publish(session.id, Notice.END)
        if self._replicas.exist:
            # The client may send its next request to a replica that has just read the record and missed the notice.
            await trio.sleep(RECORD_AGE)

    async def _load(self, id: str, session: HTTPSession | None) -> SessionRecord | None:
        """Read the record, although a local part may exist: another replica may have ended or changed the session."""
        began, renewals = trio.current_time(), session.renewals if session is not None else 0
        record = await self._store.load(id)
        if record is None or record.revision not in REVISIONS:
            # Stored by a newer version before a downgrade: the client must start a new session.
            return None
        # A client sends its next requests before a notice that it is initialized reaches all replicas.
        is_settled = self._replicas.exist and record.initialized
        if session is not None and is_settled and session.renewals == renewals:
            session.current_until = began + RECORD_AGE
        return record

    def _open_peer(self, principal: Principal | None, record: SessionRecord | None) -> PeerSession:
        """Return a local part at the engine; if it has no room, release the least recently used idle part first.

        Raises:
            Overloaded: Every local part is busy, or the server is stopping.
        """
        try:
            return self._engine.open_session(principal=principal, record=record)
        except Overloaded:
            idle = next((session for session in self._here.values() if session.is_idle), None)
            if idle is None:
                raise
        # Nothing is lost: the session stays in the store and gets a local part again with its next request.
        self._release(idle, "another session needs its place")
        return self._engine.open_session(principal=principal, record=record)

    def _release(self, session: HTTPSession, reason: str) -> None:
        """Drop a local part; the store keeps the session."""
        session.end(reason)
        # The client may have a newer local part under the same id by now.
        if self._here.get(session.id) is session:
            del self._here[session.id]

    def _start_soon(self, function: Callable[..., Awaitable[object]], *args: Any) -> None:
        work = partial(function, *args)
        self._check_running().start_soon(self._engine.run_guarded, work, "a task of an HTTP session")

    def _check_running(self) -> trio.Nursery:
        if self._nursery is None:
            raise RuntimeError("HTTPApp.run() is not running: start it in the nursery that serves the application")
        return self._nursery

    def _enter(self, session: HTTPSession) -> None:
        before = self._here.get(session.id)
        if before is not None:
            before.end("its local part was replaced")
        self._here[session.id] = session
        session.follow()

    async def _forget(self, session: HTTPSession, reason: str) -> None:
        self._release(session, reason)
        await self.events.drop(session.id)

    async def _expire_idle(self) -> None:
        now = trio.current_time()
        for session in tuple(self._here.values()):
            if session.ended:
                self._release(session, "the session has ended")
                continue
            # A record that could not be stored when it changed.
            await session.try_to_save()
            # A message of the bus may have been lost.
            if self._replicas.exist:
                await session.read_inbox()
            get_stream = session.get_stream
            if (
                get_stream is not None
                and not get_stream.readers
                and now - get_stream.unread_since > self._limits.resume_timeout
            ):
                await session.stop_listening()
            if session.peer.busy or session.exchanges:
                session.used = now
                if now - session.touched > _TOUCH_INTERVAL:
                    session.touched = now
                    # Loading counts as use: a long call must not let its session expire in the store.
                    stored = await self._store.load(session.id)
                    if stored is not None:
                        session.refresh(stored)
            elif now - session.used > self._limits.idle_timeout:
                self._release(session, "idle here")
        self._expired.update(dict.fromkeys(await self._store.expire()))
        while self._expired:
            # It stays on the list until its events are dropped: the store names it once.
            id = next(iter(self._expired))
            session_here = self._here.get(id)
            if session_here is not None:
                self._release(session_here, "the session has expired")
            await self.events.drop(id)
            self._expired.pop(id, None)
            self._replicas.publish(id, Notice.END)
