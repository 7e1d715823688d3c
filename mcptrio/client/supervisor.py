"""Keeps a session with one server: opens a link, agrees on a revision, and does so again when either is lost.

One task per client, started with the client, opens links and agrees. Callers wait for its result in
:meth:`ClientSupervisor.current`, so a cancelled caller never leaves a session half renewed. A session is in one state:

    CONNECTING ── agreed ──▶ READY ── session forgotten ──▶ RENEWING ── agreed ──▶ READY
    CONNECTING ── failed ──▶ DISCONNECTED (at the first attempt CLOSED)
    READY, RENEWING ── link ended ──▶ DISCONNECTED ── pause ──▶ CONNECTING (without restart CLOSED)

============  ==========================================  ====================================================
state         the link and the session                    ``current()``
============  ==========================================  ====================================================
CONNECTING    the link is being opened, or agreed over    waits
READY         agreed; requests go out, pings are sent     returns the session
RENEWING      the link is kept, and agreed over again     waits; a failed attempt is raised, the next one follows
DISCONNECTED  none, for a pause that doubles              waits
CLOSED        none, and there will be none                raises ConnectionClosed with the reason
============  ==========================================  ====================================================

- The block of ``connect`` leads to CLOSED from every state when it ends.
- Each way into READY begins another generation. Results of the last one leave the cache first.
- Between the end of a link and its report to this task, the session looks READY; ``current()`` checks the link as well.
- Only a link reports a loss, so several requests that notice the same one lead to one renewal.

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
from mcptrio.client.consent import with_consent
from mcptrio.client.session import ClientSession
from mcptrio.client.timeouts import ClientTimeouts
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
class _Turn:
    """The wait until something about the session changes."""

    over: trio.Event = field(factory=trio.Event)
    failure: MCPTrioError | None = None
    """Why no session was made, if that is what has changed."""


class ClientSupervisor:
    """
    Args:
        openers: ways to reach the server, in the order in which they are tried.
        make_session: makes a session that has not met its server.
        settled: called before each session except the first is used.
        restart: whether a link that ends is opened again.
        ping_interval: seconds of silence after which the server is pinged; 0 for never.
        pinned: the revision to speak.
        known: the version that was agreed on with this server before, by another client; so it need not be found out.
        prefers_handshake: whether a handshake is tried first if neither is given.
    """

    def __init__(
        self,
        openers: Sequence[LinkOpener],
        make_session: Callable[[], ClientSession],
        settled: Callable[[], None],
        *,
        timeouts: ClientTimeouts,
        restart: bool,
        ping_interval: float,
        pinned: str | None,
        known: str | None = None,
        prefers_handshake: bool = False,
    ) -> None:
        self._openers = list(openers)
        self._make_session = make_session
        self._settled = settled
        self._timeouts = timeouts
        self._restart = restart
        self._ping_interval = ping_interval
        self._pinned = pinned
        self._known = known
        """The version agreed on before."""
        self._prefers_handshake = prefers_handshake
        self._session: ClientSession | None = None
        self.last_session: ClientSession | None = None
        """The session, or while there is none the one before."""
        self.generation = 0
        """Number of sessions so far; a renewed session counts as another one."""
        self._turn = _Turn()
        """Ends when a session comes or goes, when none could be made, or when there will be none."""
        self._ended: str | None = None

    async def run(self, *, task_status: trio.TaskStatus[MCPTrioError | None]) -> None:
        """Keep the session; started with ``None`` when there is one, or with the reason why there is none."""
        try:
            await self._keep(task_status)
        finally:
            if self._ended is None:
                self._end("the block of `async with connect(...)` has ended")

    async def _keep(self, task_status: trio.TaskStatus[MCPTrioError | None]) -> None:
        backoff = Backoff()
        waiting: trio.TaskStatus[MCPTrioError | None] | None = task_status
        while True:
            started = trio.current_time()
            try:
                reason = await with_consent(partial(self._connected, waiting))
                waiting = None
            except MCPTrioError as error:
                reason = str(error)
                self._doubt(error)
                backoff.wait_at_least(getattr(error, "retry_after", None) or 0.0)
                if waiting is not None:
                    self._end(reason)
                    waiting.started(error)
                    return
            if not self._restart:
                self._end(reason)
                return
            if trio.current_time() - started > MAX_PAUSE_SECONDS:
                backoff.reset()
            pause = backoff.draw()
            _log.warning("%s; connecting again in %.2g s", reason, pause)
            await trio.sleep(pause)

    async def current(self, within: float | None = None) -> ClientSession:
        """Return the session, waiting for one that is being made. A checkpoint only if it has to wait.

        Args:
            within: seconds to wait; at most ``timeouts.connect``, which is the default.

        Raises:
            ConnectionClosed: there is none and will be none, or none in time.
            RequestFailed: the server has forgotten the session and does not begin another one.
        """
        if self._is_usable(self._session):
            return self._session
        seconds = min(self._timeouts.connect, inf if within is None else within)
        with trio.move_on_after(seconds):
            while self._ended is None:
                turn = self._turn
                await turn.over.wait()
                if self._is_usable(self._session):
                    return self._session
                if turn.failure is not None:
                    status = getattr(turn.failure, "status", None)
                    raise RequestFailed(str(turn.failure), status=status, delivered=False) from turn.failure
        raise ConnectionClosed(self._ended or f"not connected again within {seconds:g} s")

    async def until_lost(self, generation: int) -> None:
        """Wait until the session of this generation is not in use any more."""
        while self._ended is None and self._session is not None and self.generation == generation:
            await self._turn.over.wait()

    @property
    def restarts(self) -> bool:
        """Whether there will be another session after one that was lost."""
        return self._restart and self._ended is None

    @property
    def is_over(self) -> bool:
        """Whether there will be no session any more."""
        return self._ended is not None

    # Private

    async def _connected(self, waiting: trio.TaskStatus[MCPTrioError | None] | None) -> str:
        """Connect, and stay until the link ends; returns why it did.

        Raises:
            MCPTrioError: no session came about.
        """
        ways = list(self._openers)
        for opener in ways:
            try:
                try:
                    return await self._try_opener(opener, self._known, waiting)
                except ConnectionClosed as error:
                    if self._known is not None or self._pinned is not None:
                        raise
                    # Some servers end at a first request they do not know.
                    _log.info("%s; trying once more with a handshake", error)
                    try:
                        return await self._try_opener(opener, LATEST_HANDSHAKE.version, waiting)
                    except ConnectionClosed:
                        # A channel cannot be opened twice; why it ended is the first one's to say.
                        raise error from None
            except RequestFailed as failed:
                refuses = failed.status is not None and 400 <= failed.status < 500 and failed.status not in (401, 403)
                if opener is ways[-1] or not refuses or isinstance(failed, SessionLost):
                    raise
                _log.info("%s; trying another transport", failed)
        raise AssertionError("there is at least one opener")

    async def _try_opener(
        self, opener: LinkOpener, known: str | None, waiting: trio.TaskStatus[MCPTrioError | None] | None
    ) -> str:
        session = self._make_session()
        is_settled = False
        try:
            # Links have nurseries of their own; the outer one here takes what is raised out of their groups.
            async with open_hidden_nursery(), opener(session.receive) as link, open_hidden_nursery() as nursery:
                with session.attached(link, nursery):
                    await self._negotiate(session, known)
                    # The server may move to another transport later, so the other ways are kept.
                    self._openers.sort(key=lambda each: each is not opener)
                    is_settled = True
                    self._set(session)
                    try:
                        if waiting is not None:
                            waiting.started(None)
                        return await self._keep_link(session)
                    finally:
                        # Before the link is left, which may take a while.
                        self._set(None)
        except MCPTrioError as error:
            if not is_settled:
                raise
            return str(error)

    async def _keep_link(self, session: ClientSession) -> str:
        """Renew the session as often as the server forgets it; return why its link ended."""
        backoff = Backoff()
        renewed = -inf
        while True:
            reason = await self._watch_session(session)
            if reason is not None:
                return reason
            self._set(None)
            # A server that forgets every session is asked ever more rarely.
            if renewed is not None and trio.current_time() - renewed < MAX_PAUSE_SECONDS:
                await trio.sleep(backoff.draw())
            else:
                backoff.reset()
            await self._renew(session)
            renewed = trio.current_time()
            self._set(session)

    async def _watch_session(self, session: ClientSession) -> str | None:
        """Ping the server, where the revision has pings; return why the link ended; ``None`` if the session did."""
        reason: str | None = None
        async with trio.open_nursery() as nursery:
            if self._ping_interval:
                nursery.start_soon(session.keep_alive, self._ping_interval, nursery.cancel_scope)
            try:
                reason = await session.link.wait_closed()
            except SessionLost as lost:
                # Not raised: with a cancellation from outside it would be in a group.
                _log.info("%s: %s; beginning another one", session.link.name, lost)
            nursery.cancel_scope.cancel()
        return reason or session.given_up or None

    async def _renew(self, session: ClientSession) -> None:
        """Agree with the server anew, on the same link; callers that wait meanwhile hear of each failed attempt."""
        backoff = Backoff()
        while not session.link.closed:
            try:
                await with_consent(lambda: self._negotiate(session, self._known))
                return
            except MCPTrioError as error:
                is_known = self._known is not None
                self._doubt(error)
                if is_known and getattr(error, "status", None) in (400, 404, 405):
                    continue  # at once: it was asked for a version that it may no longer speak
                backoff.wait_at_least(getattr(error, "retry_after", None) or 0.0)
                pause = backoff.draw()
                _log.warning("%s: no new session: %s; trying again in %.2g s", session.link.name, error, pause)
                self._end_turn(error)
            await trio.sleep(pause)

    async def _negotiate(self, session: ClientSession, known: str | None) -> None:
        with trio.move_on_after(self._timeouts.connect):
            await session.negotiate(pinned=self._pinned, known=known, prefers_handshake=self._prefers_handshake)
            self._known = session.revision.version
            return
        # Not ConnectionClosed: that would be worth another attempt, of the same length.
        raise RequestFailed(f"{session.link.name} did not answer within {self._timeouts.connect:g} s")

    def _doubt(self, error: MCPTrioError) -> None:
        """Find out again what the server speaks if it answers otherwise than before: its version may have changed."""
        if isinstance(error, MCPError | RemoteProtocolError) or getattr(error, "status", None) is not None:
            self._known = None

    def _end(self, reason: str) -> None:
        self._ended = reason
        self._set(None)

    def _set(self, session: ClientSession | None) -> None:
        if session is not None and self.generation:
            self._settled()
        self._session = session
        self.last_session = session or self.last_session
        self.generation += session is not None
        self._end_turn()

    def _end_turn(self, failure: MCPTrioError | None = None) -> None:
        turn, self._turn = self._turn, _Turn()
        turn.failure = failure
        turn.over.set()

    @staticmethod
    def _is_usable(session: ClientSession | None) -> TypeGuard[ClientSession]:
        """Whether a request can be sent; between the end of a link and its notice here, none can."""
        return session is not None and not session.link.closed
