"""The sessions of handshake revisions over HTTP.

``HTTPApp`` owns them. No process owns a session: each process serves the requests that reach it. For this, the process
makes a local part of the session from the stored record, and drops the part when it is idle. Only the store decides
whether a session exists.

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
from mcptrio.http.server.session import MAX_RECORD_AGE, HTTPSession, SharedSessionState
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
        bus: Carries messages to the other replicas; ``None`` if there are none.
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
        self.shared = SharedSessionState(
            store=store,
            events=events,
            replicas=self._replicas,
            limits=limits,
            keepalives=keepalives,
            start_soon=self._start_soon,
        )
        """Also passed to the sessions of HTTP with SSE."""
        self._local: OrderedDict[str, HTTPSession] = OrderedDict()
        """The local parts, by id. The least recently used one is first."""
        self._expired: dict[str, None] = {}
        """Expired sessions whose events must be deleted."""
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the tasks of all sessions, and drop local parts that are idle for too long. Runs until cancelled."""
        try:
            async with trio.open_nursery() as self._nursery:
                task_status.started()
                while True:
                    await trio.sleep(_EXPIRY_INTERVAL)
                    await self._engine.run_guarded(self._expire_idle, "looking for idle sessions")
        finally:
            self._nursery = None
            for session in tuple(self._local.values()):
                session.end("the server stops")
            self._local.clear()

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
            Overloaded: The store has too many sessions.
            StoreFailed: The session could not be stored.
        """
        await session.save()
        self._add_local(session)

    async def find(self, id: str, principal: Principal | None) -> HTTPSession | None:
        """Return the session with this id; ``None`` if there is none or it belongs to another principal.

        Raises:
            Overloaded: The session has no local part yet, and the engine has too many.
            StoreFailed: The record cannot be read.
        """
        self._check_running()
        session = self._local.get(id)
        if session is not None and trio.current_time() < session.valid_until:
            record = session.saved
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            record = await self._load(id, session)
            session = self._local.get(id)
        if record is None:
            if session is not None:
                await self._remove(session, "the session has ended elsewhere")
            return None
        if record.principal is not principal and not is_same_principal(record.principal, principal):
            _log.warning("request refused, the session belongs to another principal: %s", principal)
            return None
        if session is not None and session.peer.ended:
            session.end("the session of the engine has ended")
        if session is None or session.ended:
            session = HTTPSession(self.shared, self._open_peer(principal, record), record)
            self._add_local(session)
        elif record is not session.saved:
            session.refresh(record)
        self._local.move_to_end(id)
        session.last_used = session.last_touched = trio.current_time()
        return session

    async def end(self, session: HTTPSession) -> None:
        """End the session on every replica, because the client has requested it."""
        # Deleted first, so that a replica that misses the notice finds no record at the next request.
        await self._store.delete(session.id)
        await self._remove(session, "the client has ended the session")
        self._replicas.publish(session.id, Notice.END)
        if self._replicas.is_enabled:
            # The next request may reach a replica that has just read the record and has missed the notice.
            await trio.sleep(MAX_RECORD_AGE)

    async def _load(self, id: str, session: HTTPSession | None) -> SessionRecord | None:
        """Read the record. If there is a local part, another replica may have ended or changed the session since."""
        began, change_notices = trio.current_time(), session.change_notices if session is not None else 0
        record = await self._store.load(id)
        if record is None or record.revision not in REVISIONS:
            # An unknown revision was stored by a newer version before a downgrade. The client must start a new session.
            return None
        # The client's next requests may arrive before the notice that the session is initialized. So until then, the
        # record is read for each request.
        is_settled = self._replicas.is_enabled and record.initialized
        if session is not None and is_settled and session.change_notices == change_notices:
            session.valid_until = began + MAX_RECORD_AGE
        return record

    def _open_peer(self, principal: Principal | None, record: SessionRecord | None) -> PeerSession:
        """Return a session of the engine. If the engine has no room, release the least recently used idle session.

        Raises:
            Overloaded: Every local part is busy, or the server is stopping.
        """
        try:
            return self._engine.open_session(principal=principal, record=record)
        except Overloaded:
            idle = next((session for session in self._local.values() if session.is_idle), None)
            if idle is None:
                raise
        # Nothing is lost: the session stays in the store, and its next request makes a local part again.
        self._release(idle, "released for another session: the limit of sessions is reached")
        return self._engine.open_session(principal=principal, record=record)

    def _release(self, session: HTTPSession, reason: str) -> None:
        """Drop a local part. The store keeps the session."""
        session.end(reason)
        # Another local part may have the same id by now.
        if self._local.get(session.id) is session:
            del self._local[session.id]

    def _start_soon(self, function: Callable[..., Awaitable[object]], *args: Any) -> None:
        work = partial(function, *args)
        self._check_running().start_soon(self._engine.run_guarded, work, "a task of an HTTP session")

    def _check_running(self) -> trio.Nursery:
        if self._nursery is None:
            raise RuntimeError("HTTPApp.run() is not running: start it in the nursery that serves the application")
        return self._nursery

    def _add_local(self, session: HTTPSession) -> None:
        previous = self._local.get(session.id)
        if previous is not None:
            previous.end("its local part was replaced")
        self._local[session.id] = session
        session.follow()

    async def _remove(self, session: HTTPSession, reason: str) -> None:
        self._release(session, reason)
        await self.events.drop(session.id)

    async def _expire_idle(self) -> None:
        now = trio.current_time()
        for session in tuple(self._local.values()):
            if session.ended:
                self._release(session, "the session has ended")
                continue
            # The record may not have been stored when it changed.
            await session.try_to_save()
            # The bus may have lost a message.
            if self._replicas.is_enabled:
                await session.read_inbox()
            get_stream = session.get_stream
            if (
                get_stream is not None
                and not get_stream.readers
                and now - get_stream.unread_since > self._limits.resume_timeout
            ):
                await session.stop_listening()
            if session.peer.busy or session.exchanges:
                session.last_used = now
                if now - session.last_touched > _TOUCH_INTERVAL:
                    session.last_touched = now
                    # Loading tells the store that the session is in use, so that it does not expire during a long call.
                    stored = await self._store.load(session.id)
                    if stored is not None:
                        session.refresh(stored)
            elif now - session.last_used > self._limits.idle_timeout:
                self._release(session, "idle here")
        self._expired.update(dict.fromkeys(await self._store.expire()))
        while self._expired:
            # The session stays on the list until its events are dropped, because the store reports it only once.
            id = next(iter(self._expired))
            local_session = self._local.get(id)
            if local_session is not None:
                self._release(local_session, "the session has expired")
            await self.events.drop(id)
            self._expired.pop(id, None)
            self._replicas.publish(id, Notice.END)
