"""Keeps a client connected to one server: opens links, negotiates a revision and replaces lost sessions.

Client owns one ClientSupervisor. One task per client does the connecting; callers wait for its result in
:meth:`ClientSupervisor.current`, so a cancelled caller never leaves a session half negotiated. The states:

    CONNECTING ── negotiated ──▶ READY ── session forgotten ──▶ RENEWING ── negotiated ──▶ READY
    CONNECTING ── failed ──▶ DISCONNECTED (the first attempt: CLOSED)
    READY, RENEWING ── link closed ──▶ DISCONNECTED ── pause ──▶ CONNECTING (without restart: CLOSED)

============  ==========================================  ====================================================
state         the link and the session                    ``current()``
============  ==========================================  ====================================================
CONNECTING    the link is being opened or negotiated      waits
READY         requests are sent, pings check the server   returns the session
RENEWING      the link stays, a new session is negotiated waits; raises the error if an attempt fails
DISCONNECTED  no link, for a pause that doubles           waits
CLOSED        no link, and no further attempt             raises ConnectionClosed with the reason
============  ==========================================  ====================================================

- The end of the ``async with connect(...)`` block leads from every state to CLOSED.
- Each transition to READY starts a new generation. The client clears its cache before that.
- The session stays set until this task notices that its link has closed, so ``current()`` checks the link as well.
- Only the link reports that a session is lost, so requests that fail together cause only one renewal.

Source: MCP 2025-11-25, basic/transports, "Session Management"; MCP 2026-07-28, basic/transports/stdio, "Shutdown".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import TypeGuard

import trio
from attrs import define, field

from mcptrio.abc.links import LinkOpener
from mcptrio.client.connection_watcher import ConnectionWatcher
from mcptrio.client.consent import with_consent
from mcptrio.client.options import ClientOptions
from mcptrio.client.session import ClientSession
from mcptrio.errors import (
    ConnectionClosed,
    MCPError,
    MCPTrioError,
    RemoteProtocolError,
    RequestFailed,
    SessionLost,
)
from mcptrio.ground.backoff import MAX_PAUSE_SECONDS, Backoff
from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.protocol.revisions.registry import LATEST_HANDSHAKE

__all__ = ["ClientSupervisor"]

_log = logging.getLogger("mcptrio.client.supervisor")


@define(eq=False)
class _StateChange:
    """One wait for the next change of the session's state."""

    event: trio.Event = field(factory=trio.Event)
    failure: MCPTrioError | None = None
    """The reason if the change is a failed attempt to negotiate a session."""


class ClientSupervisor:
    """Owns the link and the session of one client.

    Args:
        openers: Transports that reach the server, in the order in which they are tried.
        make_session: Creates a session that has not been negotiated.
        settled: Called before the client uses each session except the first.
    """

    def __init__(
        self,
        openers: Sequence[LinkOpener],
        make_session: Callable[[], ClientSession],
        settled: Callable[[], None],
        options: ClientOptions,
        watcher: ConnectionWatcher,
    ) -> None:
        self._openers = list(openers)
        self._make_session = make_session
        self._settled = settled
        self._options = options
        self._watcher = watcher
        self._known_version = options.known
        self._session: ClientSession | None = None
        # The session, or the previous one while the client is not connected.
        self.last_session: ClientSession | None = None
        # Number of sessions so far; a renewed session counts as a new one.
        self.generation = 0
        # Signalled and replaced whenever the session is set or removed, an attempt fails, or the supervisor ends.
        self._state_change = _StateChange()
        self._ended: str | None = None

    async def run(self, *, task_status: trio.TaskStatus[MCPTrioError | None]) -> None:
        """Stay connected until cancelled. Reports ``None`` to ``task_status`` once connected, or the exception."""
        try:
            await self._stay_connected(task_status)
        finally:
            if self._ended is None:
                self._end("the block of `async with connect(...)` has ended")

    async def _stay_connected(self, task_status: trio.TaskStatus[MCPTrioError | None]) -> None:
        backoff = Backoff()
        pending_status: trio.TaskStatus[MCPTrioError | None] | None = task_status
        while True:
            started = trio.current_time()
            try:
                reason = await with_consent(partial(self._connect_once, pending_status))
                pending_status = None
            except MCPTrioError as error:
                reason = str(error)
                self._discover_again(error)
                backoff.wait_at_least(getattr(error, "retry_after", None) or 0.0)
                if pending_status is not None:
                    self._end(reason)
                    pending_status.started(error)
                    return
            if not self._options.restart:
                self._end(reason)
                return
            # A connection that lasted longer than the longest pause was a success, so the next pause is short again.
            if trio.current_time() - started > MAX_PAUSE_SECONDS:
                backoff.reset()
            pause = backoff.next_pause()
            _log.warning("%s; connecting again in %.2g s", reason, pause)
            await trio.sleep(pause)

    async def current(self, within: float | None = None) -> ClientSession:
        """Return the session, waiting until one is ready. This is a checkpoint only if it waits.

        Args:
            within: Seconds to wait, at most and by default ``timeouts.connect``.

        Raises:
            ConnectionClosed: No session became ready in time, or the client has ended.
            RequestFailed: The server has forgotten the session and refuses a new one.
        """
        if self._is_usable(self._session):
            return self._session
        seconds = min(self._options.timeouts.connect, inf if within is None else within)
        with trio.move_on_after(seconds):
            while self._ended is None:
                change = self._state_change
                await change.event.wait()
                if self._is_usable(self._session):
                    return self._session
                if change.failure is not None:
                    status = getattr(change.failure, "status", None)
                    # Raised at once, so that the callers get the reason before the next attempt.
                    raise RequestFailed(str(change.failure), status=status, delivered=False) from change.failure
        raise ConnectionClosed(self._ended or f"not connected again within {seconds:g} s")

    async def until_lost(self, generation: int) -> None:
        """Wait until the session of this generation is no longer in use."""
        while self._ended is None and self._session is not None and self.generation == generation:
            await self._state_change.event.wait()

    @property
    def restarts(self) -> bool:
        """True if a lost session is replaced."""
        return self._options.restart and self._ended is None

    @property
    def has_ended(self) -> bool:
        return self._ended is not None

    # Private

    async def _connect_once(self, pending_status: trio.TaskStatus[MCPTrioError | None] | None) -> str:
        """Open a link, serve it until it closes, and return the reason. Raises if no session could be negotiated."""
        for opener in (openers := list(self._openers)):
            try:
                try:
                    return await self._try_opener(opener, self._known_version, pending_status)
                except ConnectionClosed as error:
                    if self._known_version is not None or self._options.revision is not None:
                        raise
                    # Some servers exit if they do not know the first request, such as server/discover.
                    _log.info("%s; connecting again with a handshake", error)
                    try:
                        return await self._try_opener(opener, LATEST_HANDSHAKE.version, pending_status)
                    except ConnectionClosed:
                        # An open channel cannot be opened again, so only the first error has the cause.
                        raise error from None
            except RequestFailed as failed:
                # 401 and 403 concern credentials, which are the same for another transport.
                refuses = failed.status is not None and 400 <= failed.status < 500 and failed.status not in (401, 403)
                if opener is openers[-1] or not refuses or isinstance(failed, SessionLost):
                    raise
                _log.info("%s; trying another transport", failed)
        raise AssertionError("there is at least one opener")

    async def _try_opener(
        self, opener: LinkOpener, known: str | None, pending_status: trio.TaskStatus[MCPTrioError | None] | None
    ) -> str:
        # The reason if the client is cancelled or removed.
        reason = "it was disconnected"
        self._watcher.opening()
        try:
            reason = await self._serve_link(opener, known, pending_status)
            return reason
        except MCPTrioError as error:
            reason = str(error)
            raise
        finally:
            self._watcher.ended(reason)

    async def _serve_link(
        self, opener: LinkOpener, known: str | None, pending_status: trio.TaskStatus[MCPTrioError | None] | None
    ) -> str:
        session = self._make_session()
        is_negotiated = False
        try:
            # Each of the two nurseries unwraps exception groups: one those of this body, the other those of the link.
            async with open_hidden_nursery(), opener(session.receive) as link, open_hidden_nursery() as nursery:
                with session.attached(link, nursery):
                    await self._negotiate(session, known)
                    # Try this opener first next time. The others are kept, because the server may change its transport.
                    self._openers.sort(key=lambda each: each is not opener)
                    is_negotiated = True
                    self._set_session(session)
                    try:
                        if pending_status is not None:
                            pending_status.started(None)
                        return await self._keep_link(session)
                    finally:
                        # Closing the link may take a while, and requests must not use the session in the meantime.
                        self._set_session(None)
        except MCPTrioError as error:
            if not is_negotiated:
                raise
            return str(error)

    async def _keep_link(self, session: ClientSession) -> str:
        """Renew the session whenever the server forgets it. Return why the link has closed."""
        backoff = Backoff()
        renewed_at = -inf
        while True:
            reason = await self._watch_session(session)
            if reason is not None:
                return reason
            self._set_session(None)
            # Pauses grow if the server forgets each new session soon.
            if renewed_at is not None and trio.current_time() - renewed_at < MAX_PAUSE_SECONDS:
                await trio.sleep(backoff.next_pause())
            else:
                backoff.reset()
            await self._renew(session)
            renewed_at = trio.current_time()
            self._set_session(session)

    async def _watch_session(self, session: ClientSession) -> str | None:
        """Ping the server until the link closes. Return the reason, or ``None`` if only the session is lost."""
        reason: str | None = None
        async with trio.open_nursery() as nursery:
            if self._options.ping_interval:
                nursery.start_soon(session.keep_alive, nursery.cancel_scope)
            try:
                reason = await session.link.wait_closed()
            except SessionLost as lost:
                # If this were raised here, the nursery could wrap it in a group with a Cancelled from outside.
                _log.info("%s: %s; starting a new session", session.link.name, lost)
            nursery.cancel_scope.cancel()
        return reason or session.end_reason or None

    async def _renew(self, session: ClientSession) -> None:
        """Negotiate a new session on the same link. Callers that wait receive the error of each failed attempt."""
        backoff = Backoff()
        while not session.link.closed:
            try:
                await with_consent(lambda: self._negotiate(session, self._known_version))
                return
            except MCPTrioError as error:
                is_known = self._known_version is not None
                self._discover_again(error)
                if is_known and getattr(error, "status", None) in (400, 404, 405):
                    # Without a pause, because the server may only have been upgraded and no longer speak that version.
                    continue
                backoff.wait_at_least(getattr(error, "retry_after", None) or 0.0)
                pause = backoff.next_pause()
                _log.warning("%s: new session failed: %s; trying again in %.2g s", session.link.name, error, pause)
                self._signal_change(error)
            await trio.sleep(pause)

    async def _negotiate(self, session: ClientSession, known: str | None) -> None:
        with trio.move_on_after(self._options.timeouts.connect):
            await session.negotiate(known)
            self._known_version = session.revision.version
            return
        # After ConnectionClosed, _connect_once would try a handshake, which would wait for the same time again.
        raise RequestFailed(f"{session.link.name} did not answer within {self._options.timeouts.connect:g} s")

    def _discover_again(self, error: MCPTrioError) -> None:
        if isinstance(error, MCPError | RemoteProtocolError) or getattr(error, "status", None) is not None:
            # The server has answered, but may run another version by now, so discover its revision again.
            self._known_version = None

    def _end(self, reason: str) -> None:
        self._ended = reason
        self._set_session(None)

    def _set_session(self, session: ClientSession | None) -> None:
        if session is not None and self.generation:
            # Entries of the previous session must not be served to callers of the new one.
            self._settled()
        self._session = session
        self.last_session = session or self.last_session
        self.generation += session is not None
        self._signal_change()
        if session is not None:
            self._watcher.settled()

    def _signal_change(self, failure: MCPTrioError | None = None) -> None:
        change, self._state_change = self._state_change, _StateChange()
        change.failure = failure
        change.event.set()

    @staticmethod
    def _is_usable(session: ClientSession | None) -> TypeGuard[ClientSession]:
        return session is not None and not session.link.closed
