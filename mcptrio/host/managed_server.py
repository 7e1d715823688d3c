"""One server of a host: connects to it, reconnects, watches the connection, and disconnects when it is removed.

The host creates one for each server and runs it in its nursery. Errors of one server do not affect the others: they
are in the status of the server, or are raised to the caller.
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

__all__ = ["ConnectionState", "ConnectionStatus", "KnownRevision", "ManagedServer"]

_log = logging.getLogger("mcptrio.host.managed_server")

T = TypeVar("T")

ConnectionState: TypeAlias = Literal["connecting", "ready", "failed", "removed"]
"""The state of a host's connection to one server."""


@frozen(kw_only=True)
class ConnectionStatus:
    """The connection of a host to one of its servers.

    Args:
        state: ``connecting``; ``ready``; ``failed``: the connection has failed or was lost, and is retried unless
            ``has_ended``.
        where: The program or the URL, without parts that may be secret.
        reason: The last error since the server was last ready; ``None`` if there was no error.
        revision: The revision of the current or the last connection.
        info: The server's own name and version, from its ``serverInfo``.
        instructions: The server's instructions for the model.
        connections: The number of connections so far.
        has_ended: True if no more attempts to connect follow.
    """

    state: ConnectionState
    where: str
    reason: str | None
    revision: str | None
    info: Implementation | None
    instructions: str | None
    connections: int
    has_ended: bool


@define
class KnownRevision:
    """The revision that a server uses; ``None`` if it is unknown, or a connection has failed since."""

    version: str | None = None


class ManagedServer(ConnectionWatcher):
    """One server of a host.

    Args:
        name: The name that the user gave the server.
        openers: The transports that reach the server; empty if it cannot be reached.
        where: The program or the URL of the server.
        on_change: Called when the state of the server has changed.
        known_revision: The revision of an earlier connection, which is updated.
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
        on_change: Callable[[ManagedServer], object],
        known_revision: KnownRevision,
    ) -> None:
        self.name = name
        self.prefix = prefix
        self.where = where
        self.options = options
        self.connections = 0
        self.named_items: dict[str, dict[str, Any]] = {}
        """By kind, the listed ``tools`` and ``prompts`` by their names in the host. Cleared when they change."""
        self.generation = 0
        """How often ``named_items`` was cleared. A list with an earlier generation is stale."""
        self.last_lists: dict[str, tuple[Any, ...]] = {}
        """The last list of each kind."""
        self.late_kinds: set[str] = set()
        """The kinds of lists that were late and are still being read in the background."""
        self._nursery: trio.Nursery | None = None
        """Set while the client runs."""
        self._openers = openers
        self._restarts = options.restart and can_restart
        self._handlers = handlers
        self._on_change = on_change
        self._known_revision = known_revision
        self._state: ConnectionState = "connecting"
        self._reason: str | None = None
        self._client: Client | None = None
        """The client of the last connection."""
        self._request_scopes: set[trio.CancelScope] = set()
        self.has_ended = False
        """True once no more attempts to connect follow."""
        self._has_failed = False
        self._state_changed = trio.lowlevel.ParkingLot()
        self._scope = trio.CancelScope()
        self._disconnected = trio.Event()
        self._is_running = False

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
            has_ended=self.has_ended,
        )

    @property
    def is_first_connecting(self) -> bool:
        """True while the first connection is being made, so that a list waits for the server."""
        return self._state == "connecting" and not self._has_failed

    @property
    def reports_tool_changes(self) -> bool:
        """True if the server reports changes to its tools without a subscription, as it does in handshake revisions."""
        client = self._client
        if client is None or REVISIONS[client.revision].changes is not ChangeDelivery.UNSOLICITED:
            return False
        return client.capabilities.tools is not None and bool(client.capabilities.tools.list_changed)

    def knows(self, kind: str, name: str) -> bool:
        """Return whether the last list contains this name and is still current."""
        return name in self.named_items.get(kind, {})

    def mark_failed(self, reason: str) -> None:
        """Mark the server as permanently unreachable."""
        self._reason, self.has_ended = reason, True
        self._set_state("failed")

    # The connection

    async def run(self, *, is_shielded: bool = False) -> None:
        """Connect, and reconnect, until the server is removed.

        Args:
            is_shielded: True to stay connected until :meth:`close` if the caller is cancelled.
        """
        self._is_running = True
        self._scope.shield = is_shielded
        try:
            with self._scope:
                await self._reconnect()
        finally:
            # Callers that wait must get an error when the host's block ends.
            if not self.has_ended:
                self._end("the host is closed")
            self._disconnected.set()

    async def remove(self) -> None:
        """Disconnect from the server. Waiting callers get an error. Takes at most the link's close timeout."""
        self._end("it was removed")
        self._scope.cancel()
        # If run() was not called, for example because the host is not open, there is nothing to wait for.
        if self._is_running:
            await self._disconnected.wait()

    def close(self) -> None:
        """Start to disconnect, because the host's block has ended."""
        self._scope.cancel()

    # Requests

    async def connected(self, timeout: float | None = None) -> Client:
        """Return the server's client once it is connected.

        Args:
            timeout: Seconds; by default ``options.ready_timeout``.

        Raises:
            ConnectionClosed: The server is not connected within this time, or no more attempts follow.
        """
        timeout = self.options.ready_timeout if timeout is None else timeout
        # The connection may fail, and be made again, during this wait.
        await self.until(lambda: self._state == "ready" or self.has_ended, timeout=timeout)
        if self._state != "ready" or self._client is None:
            late = f"no connection within {timeout:g} s"
            reason = self._reason or (
                late if self._is_running else "the host is not open: write `async with host:` around it"
            )
            raise ConnectionClosed(f"{self.name} is not connected: {reason}")
        return self._client

    async def ask(self, work: Callable[[Client], Awaitable[T]], *, timeout: float | None = None) -> T:
        """Call a function with the server's client once it is connected.

        Args:
            timeout: Seconds to wait for the connection; by default ``options.ready_timeout``.

        Raises:
            ConnectionClosed: The server is not connected, or was disconnected in the meantime.
        """
        client = await self.connected(timeout)
        with trio.CancelScope() as scope:
            self._request_scopes.add(scope)
            try:
                return await work(client)
            finally:
                self._request_scopes.discard(scope)
        # Only a disconnection cancels the scope. Otherwise `work` has returned or raised above.
        raise ConnectionClosed(f"{self.name}: {self._reason}")

    def finish_late_list(self, kind: str, work: Callable[[], Awaitable[object]]) -> None:
        """Keep reading a late list in the background while the connection lasts."""
        if self._nursery is not None and kind not in self.late_kinds:
            self.late_kinds.add(kind)
            self._nursery.start_soon(self._finish_late_list, kind, work)

    async def _finish_late_list(self, kind: str, work: Callable[[], Awaitable[object]]) -> None:
        try:
            # Guarded, because no caller waits for the list and could handle an error.
            await run_guarded(work)
        finally:
            self.late_kinds.discard(kind)

    async def until(self, condition: Callable[[], bool], *, timeout: float = inf) -> bool:
        """Wait until a condition is true. Return whether it is."""
        with trio.move_on_after(timeout):
            while not condition():
                await self._state_changed.park()
        return condition()

    async def until_connected_again(self) -> None:
        """Wait for the next connection, or until no more attempts follow."""
        connections = self.connections
        await self.until(lambda: self.has_ended or self.connections > connections)

    # Reports of the client's connections

    def opening(self) -> None:
        self._set_state("connecting")

    def settled(self) -> None:
        # The start of the client reports the first connection. Only later connections are reported here.
        if self._nursery is not None:
            self._mark_ready()

    def changed(self, change: Change) -> None:
        if change.kind in ("tools", "prompts"):
            # Cleared before subscribers receive the change, because they may read the list again at once.
            self.named_items.pop(change.kind, None)
            self.generation += 1

    def ended(self, reason: str) -> None:
        # The reason of a removal must not be replaced.
        if self._state == "removed":
            return
        self._reason = reason
        # During the first connection, the client may still try another opener.
        if self._state == "ready" or self._has_failed:
            self._has_failed = True
            self._set_state("failed")

    # Private

    async def _reconnect(self) -> None:
        backoff = Backoff()
        while not self.has_ended:
            started = trio.current_time()
            self._fail(await run_guarded(self._run_client))
            if self.has_ended:
                return
            # The connection has lasted for a while, so the next pause is short again.
            if trio.current_time() - started > MAX_PAUSE_SECONDS:
                backoff.reset()
            pause = backoff.next_pause()
            _log.warning("%s: %s; trying again in %.2g s", self.name, self._reason, pause)
            await trio.sleep(pause)

    async def _run_client(self) -> None:
        """Run one client until its connection ends and cannot be renewed.

        Raises:
            MCPTrioError: The client could not connect.
        """
        options = ClientOptions(
            name=self.name,
            info=self.options.info or OWN_INFO,
            handlers=self._handlers,
            timeouts=self.options.timeouts,
            restart=self._restarts,
            ping_interval=self.options.ping_interval,
            log_level=self.options.log_level,
            known=self._known_revision.version,
        )
        client = Client(self._openers, options, self)
        try:
            async with trio.open_nursery() as nursery:
                start: Callable[..., Awaitable[None]] = client.run
                failure: MCPTrioError | None = await nursery.start(start)
                # Raised here, so that the nursery does not wrap it in a group.
                if failure is not None:
                    raise failure
                self._client, self._nursery = client, nursery
                self._known_revision.version = client.revision
                self._mark_ready()
        finally:
            self._nursery = None
            # Calls on the old connection fail now, because their answers cannot arrive any more.
            self._cancel_requests()

    def _mark_ready(self) -> None:
        self.connections += 1
        # A restarted server may have other tools under the same names.
        self.named_items.clear()
        self.generation += 1
        self._reason = None
        self._set_state("ready")

    def _fail(self, outcome: object) -> None:
        if isinstance(outcome, Failure):
            # Another version may have replaced the server, so the next negotiation begins with the newest revision.
            self._known_revision.version = None
            self._reason = str(outcome.error)
            if not isinstance(outcome.error, MCPTrioError | OSError):
                # This is a bug here or in a transport, which must not affect the other servers.
                _log.error("%s: the client failed", self.name, exc_info=outcome.error)
                self._reason = f"the client failed: {type(outcome.error).__name__}"
        self._has_failed = True
        self.has_ended = not self._restarts
        self._set_state("failed")

    def _end(self, reason: str) -> None:
        self.has_ended = True
        self._reason = reason
        self._set_state("removed")
        self._cancel_requests()

    def _cancel_requests(self) -> None:
        for scope in self._request_scopes:
            scope.cancel()

    def _set_state(self, state: ConnectionState) -> None:
        if self._state == "removed":
            return
        self._state = state
        self._state_changed.unpark_all()
        self._on_change(self)
