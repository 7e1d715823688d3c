"""One server of a host: connected, reconnected, watched, and disconnected when it is removed.

The host creates one per server and runs it in its nursery. Its errors affect no other server: they are in
its state, or are raised to the caller.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, Literal, TypeAlias, TypeVar

import trio
from attrs import define, frozen

from mcptrio.abc.links import LinkOpener
from mcptrio.client.client import Client
from mcptrio.client.connection_watcher import ConnectionWatcher
from mcptrio.client.handlers import Handlers
from mcptrio.client.options import OWN_INFO, ClientOptions
from mcptrio.client.subscriptions import Change
from mcptrio.errors import ConnectionClosed, MCPTrioError
from mcptrio.ground.backoff import MAX_PAUSE_SECONDS, Backoff
from mcptrio.ground.guarded import Failure, run_guarded
from mcptrio.host.options import HostOptions
from mcptrio.protocol.model.lifecycle import Implementation
from mcptrio.protocol.revisions.registry import REVISIONS
from mcptrio.protocol.revisions.revision import ChangeDelivery

__all__ = ["ConnectionState", "ConnectionStatus", "ManagedServer", "SpokenRevision"]

_log = logging.getLogger("mcptrio.host.managed_server")

T = TypeVar("T")

ConnectionState: TypeAlias = Literal["connecting", "ready", "failed", "removed"]
"""The state of a host's connection to one server."""


@frozen(kw_only=True)
class ConnectionStatus:
    """The connection of a host to one of its servers.

    Args:
        state: ``connecting``; ``ready``; ``failed``: the connection failed or was lost, and is retried unless
            ``is_over``.
        where: The program or the URL, without parts that may be secret.
        reason: The last error; ``None`` if there was none since it was last ready.
        revision: The revision of the current or the last connection.
        info: The server's own name and version, from its ``serverInfo``.
        instructions: The server's instructions for the model.
        connections: The number of connections so far.
        is_over: Whether no more attempts follow.
    """

    state: ConnectionState
    where: str
    reason: str | None
    revision: str | None
    info: Implementation | None
    instructions: str | None
    connections: int
    is_over: bool


@define
class SpokenRevision:
    """The revision that a server uses; unknown again when a connection to it has failed."""

    version: str | None = None


class ManagedServer(ConnectionWatcher):
    """One server of a host.

    Args:
        name: The user's name for the server.
        openers: Ways to connect to it; empty if it is known to be unreachable.
        where: The program or the URL of the server.
        moved: A function called when the state of the server has changed.
        spoken: The revision found earlier, if any. Kept up to date.
    """

    def __init__(
        self,
        name: str,
        *,
        prefix: str,
        openers: list[LinkOpener],
        where: str,
        can_restart: bool,
        handlers: Handlers,
        options: HostOptions,
        moved: Callable[[ManagedServer], object],
        spoken: SpokenRevision,
    ) -> None:
        self.name = name
        self.prefix = prefix
        self.where = where
        self.options = options
        self.connections = 0
        self.known: dict[str, dict[str, Any]] = {}
        """The listed ``tools`` and ``prompts`` by their names in the host; cleared when they change."""
        self.generation = 0
        """How often ``known`` was cleared, so that a late list is recognized as stale."""
        self.listed: dict[str, tuple[Any, ...]] = {}
        """The last list of each kind."""
        self.late: set[str] = set()
        """The kinds of lists that were late and are still being read in the background."""
        self._nursery: trio.Nursery | None = None
        """Set while the client runs."""
        self._openers = openers
        self._restarts = options.restart and can_restart
        self._handlers = handlers
        self._moved = moved
        self._spoken = spoken
        self._state: ConnectionState = "connecting"
        self._reason: str | None = None
        self._client: Client | None = None
        """The client of the last connection."""
        self._asking: set[trio.CancelScope] = set()
        self.is_over = False
        """Whether no more attempts to connect follow."""
        self._was_down = False
        self._lot = trio.lowlevel.ParkingLot()
        self._scope = trio.CancelScope()
        self._gone = trio.Event()
        self._is_kept = False

    @property
    def status(self) -> ConnectionStatus:
        client = self._client
        return ConnectionStatus(
            state=self._state,
            where=self.where,
            reason=self._reason,
            revision=client.revision if client is not None else None,
            info=client.server_info if client is not None else None,
            instructions=client.instructions if client is not None else None,
            connections=self.connections,
            is_over=self.is_over,
        )

    @property
    def is_coming(self) -> bool:
        """Whether the first connection is still being made, so that waiting is worthwhile."""
        return self._state == "connecting" and not self._was_down

    @property
    def tells_of_tools(self) -> bool:
        """Whether the server reports changes to its tools without a subscription, as it does in handshake revisions."""
        client = self._client
        if client is None or REVISIONS[client.revision].changes is not ChangeDelivery.UNSOLICITED:
            return False
        return client.capabilities.tools is not None and bool(client.capabilities.tools.list_changed)

    def knows(self, kind: str, name: str) -> bool:
        """Return whether the last list contains this name and is still current."""
        return name in self.known.get(kind, {})

    def mark_failed(self, reason: str) -> None:
        """Mark the server as unreachable for good."""
        self._reason, self.is_over = reason, True
        self._move("failed")

    # Keeping it

    async def keep(self, *, is_shielded: bool = False) -> None:
        """Connect, and connect again, until the server is removed.

        Args:
            is_shielded: Whether it stays connected when the caller is cancelled, until :meth:`close`.
        """
        self._is_kept = True
        self._scope.shield = is_shielded
        try:
            with self._scope:
                await self._keep_trying()
        finally:
            # Callers that still wait must get an error when the host's block ends.
            if not self.is_over:
                self._end("the host is closed")
            self._gone.set()

    async def remove(self) -> None:
        """Disconnect from the server; waiting callers get an error. Takes at most the link's close timeout."""
        self._end("it was removed")
        self._scope.cancel()
        # Without a task that keeps it, for example because the host is not open, there is nothing to wait for.
        if self._is_kept:
            await self._gone.wait()

    def close(self) -> None:
        """Start to disconnect, because the host's block has ended."""
        self._scope.cancel()

    # Asking it

    async def connected(self, timeout: float | None = None) -> Client:
        """Return the server's client once it is connected.

        Args:
            timeout: Seconds; by default ``options.ready_timeout``.

        Raises:
            ConnectionClosed: It is not connected within this time, or will never be.
        """
        timeout = self.options.ready_timeout if timeout is None else timeout
        # It may fail and be connected again while this waits.
        await self.until(lambda: self._state == "ready" or self.is_over, timeout=timeout)
        if self._state != "ready" or self._client is None:
            away = f"no connection within {timeout:g} s"
            why = self._reason or (
                away if self._is_kept else "the host is not open: write `async with host:` around it"
            )
            raise ConnectionClosed(f"{self.name} is not connected: {why}")
        return self._client

    async def ask(self, work: Callable[[Client], Awaitable[T]], *, timeout: float | None = None) -> T:
        """Call a function with the server's client once it is connected.

        Args:
            timeout: Seconds to wait for the connection; by default ``options.ready_timeout``.

        Raises:
            ConnectionClosed: It is not connected, or was disconnected meanwhile.
        """
        client = await self.connected(timeout)
        with trio.CancelScope() as scope:
            self._asking.add(scope)
            try:
                return await work(client)
            finally:
                self._asking.discard(scope)
        # Only a disconnection cancels the scope; every other end of `work` has returned or raised above.
        raise ConnectionClosed(f"{self.name}: {self._reason}")

    def await_late(self, kind: str, work: Callable[[], Awaitable[object]]) -> None:
        """Keep reading a late list in the background while the connection lasts."""
        if self._nursery is not None and kind not in self.late:
            self.late.add(kind)
            self._nursery.start_soon(self._await_late, kind, work)

    async def _await_late(self, kind: str, work: Callable[[], Awaitable[object]]) -> None:
        try:
            # Guarded: a list that fails late has no reader that could handle the error.
            await run_guarded(work)
        finally:
            self.late.discard(kind)

    async def until(self, is_so: Callable[[], bool], *, timeout: float = inf) -> bool:
        """Wait for a state. Return whether it was reached."""
        with trio.move_on_after(timeout):
            while not is_so():
                await self._lot.park()
        return is_so()

    async def until_connected_again(self) -> None:
        """Wait for the next connection, or until no more attempts follow."""
        connections = self.connections
        await self.until(lambda: self.is_over or self.connections > connections)

    # Reports of the client's connections

    def opening(self) -> None:
        self._move("connecting")

    def settled(self) -> None:
        # The client reports its first connection by returning from `start`; later ones are only visible here.
        if self._nursery is not None:
            self._came()

    def changed(self, change: Change) -> None:
        if change.kind in ("tools", "prompts"):
            # Before subscriptions receive the change, which may list again at once.
            self.known.pop(change.kind, None)
            self.generation += 1

    def ended(self, reason: str) -> None:
        # Removal has its own reason, which the end of the link must not replace.
        if self._state == "removed":
            return
        self._reason = reason
        # After a failed first attempt, keep() may try another way.
        if self._state == "ready" or self._was_down:
            self._was_down = True
            self._move("failed")

    # Private

    async def _keep_trying(self) -> None:
        backoff = Backoff()
        while not self.is_over:
            started = trio.current_time()
            self._fail(await run_guarded(self._live))
            if self.is_over:
                return
            # It was up for a while, so the next failure begins with a short pause again.
            if trio.current_time() - started > MAX_PAUSE_SECONDS:
                backoff.reset()
            pause = backoff.next_pause()
            _log.warning("%s: %s; trying again in %.2g s", self.name, self._reason, pause)
            await trio.sleep(pause)

    async def _live(self) -> None:
        """Run one client until its connection ends and cannot be renewed.

        Raises:
            MCPTrioError: It could not connect.
        """
        options = ClientOptions(
            name=self.name,
            info=self.options.info or OWN_INFO,
            handlers=self._handlers,
            timeouts=self.options.timeouts,
            restart=self._restarts,
            ping_interval=self.options.ping_interval,
            log_level=self.options.log_level,
            known=self._spoken.version,
        )
        client = Client(self._openers, options, self)
        try:
            async with trio.open_nursery() as nursery:
                start: Callable[..., Awaitable[None]] = client.run
                failure: MCPTrioError | None = await nursery.start(start)
                # Raised here, so that it leaves the nursery as itself and not in a group.
                if failure is not None:
                    raise failure
                self._client, self._nursery = client, nursery
                self._spoken.version = client.revision
                self._came()
        finally:
            self._nursery = None
            # Calls on the old connection must fail now: their answers cannot arrive any more.
            self._cut_off()

    def _came(self) -> None:
        self.connections += 1
        # A restarted server may have other tools under the same names.
        self.known.clear()
        self.generation += 1
        self._reason = None
        self._move("ready")

    def _fail(self, outcome: object) -> None:
        if isinstance(outcome, Failure):
            # The server may have been replaced by one with another revision: negotiate from the newest again.
            self._spoken.version = None
            self._reason = str(outcome.error)
            if not isinstance(outcome.error, MCPTrioError | OSError):
                # A bug here or in a transport must not affect the other servers.
                _log.error("%s: the client failed", self.name, exc_info=outcome.error)
                self._reason = f"the client failed: {type(outcome.error).__name__}"
        self._was_down = True
        self.is_over = not self._restarts
        self._move("failed")

    def _end(self, reason: str) -> None:
        self.is_over = True
        self._reason = reason
        self._move("removed")
        self._cut_off()

    def _cut_off(self) -> None:
        for scope in self._asking:
            scope.cancel()

    def _move(self, state: ConnectionState) -> None:
        if self._state == "removed":
            return
        self._state = state
        self._lot.unpark_all()
        self._moved(self)
