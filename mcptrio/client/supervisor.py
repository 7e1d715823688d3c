"""Keeps a session with one server: opens a link, agrees on a revision, and does so again when it is lost.

Run by the client in its own nursery.
The one rule: whoever asks for the session gets one that is agreed on, waits for one that is being made, or is told why
there will be none.

Source: MCP 2025-11-25, basic/transports, "Session Management"; MCP 2026-07-28, basic/transports/stdio, "Shutdown".
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeGuard

import trio

from mcptrio.abc import LinkOpener
from mcptrio.client.session import ClientSession
from mcptrio.client.timeouts import ClientTimeouts
from mcptrio.errors import ConnectionClosed, ConsentNeeded, MCPError, MCPTrioError, RemoteProtocolError, RequestFailed
from mcptrio.nurseries import open_hidden_nursery
from mcptrio.protocol.revisions.registry import LATEST_HANDSHAKE

__all__ = ["CONSENTS", "ClientSupervisor"]

_log = logging.getLogger("mcptrio.client.supervisor")

CONSENTS = 3
"""Times that a person is asked for one connection or one call; each time it is for something else."""
FIRST = 0.5
LONGEST = 30.0
"""Seconds before a lost server is started again: doubled from the first to the longest, give or take a quarter; a
connection that lived for that long starts anew."""


class ClientSupervisor:
    """
    Args:
        openers: ways to reach the server, in the order in which they are tried.
        make_session: makes a session that has not met its server.
        settled: called with each session when it has been agreed on, and again when it has been renewed.
        restart: whether a link that ends is opened again.
        ping_interval: seconds of silence after which the server is pinged; 0 for never.
        pinned: the revision to speak.
        known: the version that was agreed on with this server before, by another client; so it need not be found out.
    """

    def __init__(
        self,
        openers: Sequence[LinkOpener],
        make_session: Callable[[], ClientSession],
        settled: Callable[[ClientSession], Awaitable[None]],
        *,
        timeouts: ClientTimeouts,
        restart: bool,
        ping_interval: float,
        pinned: str | None,
        known: str | None = None,
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
        self._session: ClientSession | None = None
        self.last: ClientSession | None = None
        """The session, or while there is none the one before."""
        self._changed = trio.Event()
        """Set, and replaced, when a session comes or goes, or there will be none."""
        self._ended: str | None = None
        self._renewing = trio.Lock()

    async def run(self, *, task_status: trio.TaskStatus[MCPTrioError | None]) -> None:
        """Keep the session; started with ``None`` when there is one, or with the reason why there is none."""
        pause = FIRST
        waiting: trio.TaskStatus[MCPTrioError | None] | None = task_status
        while True:
            started = trio.current_time()
            try:
                reason = await self._authorized(waiting)
                waiting = None
            except MCPTrioError as error:
                reason = str(error)
                if isinstance(error, MCPError | RemoteProtocolError) or getattr(error, "status", None) is not None:
                    # It answers, but not as it did: another version of the server may be there, and is asked anew.
                    self._known = None
                if waiting is not None:
                    self._end(reason)
                    waiting.started(error)
                    return
            if not self._restart:
                self._end(reason)
                return
            if trio.current_time() - started > LONGEST:
                pause = FIRST
            _log.warning("%s; connecting again in %.2g s", reason, pause)
            await trio.sleep(pause * random.uniform(0.75, 1.25))
            pause = min(pause * 2, LONGEST)

    async def current(self) -> ClientSession:
        """The session; waits for one that is being made. A checkpoint only where it has to wait.

        Raises:
            ConnectionClosed: there is none and will be none, or none in time.
        """
        if self._is_usable(self._session):
            return self._session
        with trio.move_on_after(self._timeouts.connect):
            while self._ended is None:
                await self._changed.wait()
                if self._is_usable(self._session):
                    return self._session
        raise ConnectionClosed(self._ended or f"not connected again within {self._timeouts.connect:g} s")

    @property
    def restarts(self) -> bool:
        """Whether there will be another session after one that was lost."""
        return self._restart

    @property
    def is_over(self) -> bool:
        """Whether there will be no session any more."""
        return self._ended is not None

    async def renew(self, session: ClientSession, generation: int) -> None:
        """The server has forgotten the session as it was in this generation: make it anew, once for all who ask."""
        async with self._renewing:
            if session.generation == generation and session is self._session:
                await session.renew()
                await self._settled(session)

    # Private

    async def _authorized(self, waiting: trio.TaskStatus[MCPTrioError | None] | None) -> str:
        """As :meth:`_connected`; a person is asked where the server wants them to be, outside of its deadlines."""
        for _ in range(CONSENTS):
            try:
                return await self._connected(waiting)
            except ConsentNeeded as needed:
                await needed.ask()
        return await self._connected(waiting)

    async def _connected(self, waiting: trio.TaskStatus[MCPTrioError | None] | None) -> str:
        """Connect, and stay until the link ends; returns why it did.

        Raises:
            MCPTrioError: no session came about.
        """
        for number, opener in enumerate(self._openers):
            is_last = number + 1 == len(self._openers)
            try:
                try:
                    return await self._once(opener, self._known, waiting)
                except ConnectionClosed as error:
                    if self._known is not None or self._pinned is not None:
                        raise
                    # Some servers end at a first request they do not know.
                    _log.info("%s; trying once more with a handshake", error)
                    try:
                        return await self._once(opener, LATEST_HANDSHAKE.version, waiting)
                    except ConnectionClosed:
                        # A channel cannot be opened twice; why it ended is the first one's to say.
                        raise error from None
            except RequestFailed as failed:
                if is_last or failed.status is None or not 400 <= failed.status < 500 or failed.status in (401, 403):
                    raise
                _log.info("%s; trying an older transport", failed)
        raise AssertionError("there is at least one opener")

    async def _once(
        self, opener: LinkOpener, known: str | None, waiting: trio.TaskStatus[MCPTrioError | None] | None
    ) -> str:
        session = self._make_session()
        is_settled = False
        try:
            # Links have nurseries of their own; the outer one here takes what is raised out of their groups.
            async with open_hidden_nursery(), opener(session.receive) as link, open_hidden_nursery() as nursery:
                with session.attached(link, nursery):
                    with trio.move_on_after(self._timeouts.connect) as patience:
                        await session.negotiate(pinned=self._pinned, known=known)
                    if patience.cancelled_caught:
                        # Not ConnectionClosed: that would be worth another attempt, of the same length.
                        raise RequestFailed(f"{link.name} did not answer within {self._timeouts.connect:g} s")
                    self._known = session.revision.version
                    self._openers = [opener]
                    is_settled = True
                    self._set(session)
                    try:
                        if waiting is not None:
                            waiting.started(None)
                        else:
                            await self._settled(session)
                        return await self._until_lost(session)
                    finally:
                        # Before the link is left, which may take a while.
                        self._set(None)
        except MCPTrioError as error:
            if not is_settled:
                raise
            return str(error)

    async def _until_lost(self, session: ClientSession) -> str:
        reason = ""

        async def learn(wait: Callable[[], Awaitable[str]], scope: trio.CancelScope) -> None:
            nonlocal reason
            reason = await wait()
            scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(learn, session.link.wait_closed, nursery.cancel_scope)
            if self._ping_interval:
                nursery.start_soon(learn, lambda: session.keep_alive(self._ping_interval), nursery.cancel_scope)
        return reason

    def _end(self, reason: str) -> None:
        self._ended = reason
        self._set(None)

    def _set(self, session: ClientSession | None) -> None:
        self._session = session
        self.last = session or self.last
        self._changed.set()
        self._changed = trio.Event()

    @staticmethod
    def _is_usable(session: ClientSession | None) -> TypeGuard[ClientSession]:
        """Whether a request can be sent; between the end of a link and its notice here, none can."""
        return session is not None and not session.link.closed
