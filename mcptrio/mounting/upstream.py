"""The connection to a mounted server, which is started when it is needed and stopped when it is idle.

The mount runs it in the nursery of our plugin's lifespan, and the relay uses it. Connections are made in that nursery,
not in the task of a call, so a cancelled call does not affect others.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import TypeVar

import trio

from mcptrio.client.client import Client
from mcptrio.client.handlers import Handlers
from mcptrio.client.subscriptions import Changes
from mcptrio.connecting.connect import openers
from mcptrio.connecting.targets import Target
from mcptrio.errors import ConnectionClosed, MCPError
from mcptrio.ground.backoff import Backoff
from mcptrio.ground.guarded import Failure, run_guarded
from mcptrio.host.list_collection import ListKind
from mcptrio.host.managed_server import KnownRevision, ManagedServer
from mcptrio.host.options import HostOptions
from mcptrio.mounting.options import MountOptions
from mcptrio.recording.link import recorded_opener
from mcptrio.recording.recorder import Recorder
from mcptrio.recording.transcript import UPSTREAM

__all__ = ["KINDS", "Upstream"]

_log = logging.getLogger("mcptrio.mounting.upstream")

T = TypeVar("T")

KINDS: tuple[ListKind, ...] = ("tools", "prompts", "resources", "templates")


class Upstream:
    """The connection of one mount.

    Args:
        read_list: Reads one kind of list and offers its entries. It is called again when the list has changed.
        recorder: Records the messages.

    Raises:
        ConfigError: The target is invalid.
    """

    def __init__(
        self,
        name: str,
        target: Target,
        options: MountOptions,
        *,
        handlers: Handlers,
        read_list: Callable[[ManagedServer, ListKind], Awaitable[None]],
        recorder: Recorder | None = None,
    ) -> None:
        self._name = name
        self._openers, self.where, self._can_restart = openers(target)
        if recorder is not None:
            self._openers = [recorded_opener(opener, recorder, f"{UPSTREAM}{name}") for opener in self._openers]
        self._options = options
        self._host_options = HostOptions(
            timeouts=options.timeouts, ready_timeout=options.timeouts.connect, restart=True
        )
        self._handlers = handlers
        self._read_list = read_list
        self.member: ManagedServer | None = None
        """The current or the last connection; ``None`` before the first one."""
        self.is_stopped = False
        """True while the server is stopped until the next call."""
        self.listed = trio.Event()
        """Set once the lists are offered for the first time. :meth:`restart` replaces it with a new event."""
        self._users = 0
        self._was_used = False
        self._last_used = trio.current_time()
        self._changed = trio.lowlevel.ParkingLot()
        self._restart_requested = trio.Event()
        self._known_revision = KnownRevision()
        self.starts = 0
        """The number of starts."""

    async def run(self) -> None:
        """Start the server, stop it when it is idle, and start it again for the next call. Runs until cancelled."""
        while True:
            # A new event for each start, because an earlier request for a restart must not end the new connection.
            self._restart_requested = trio.Event()
            self.is_stopped = False
            self.starts += 1
            member = self.member = self._new_member()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(member.run)
                nursery.start_soon(self._follow, member)
                self._changed.unpark_all()
                is_idle = await self._wait_idle_or_restart(member)
                # Set before the connection is closed, so that a call that arrives now waits for the next connection.
                self.is_stopped = is_idle
                await member.remove()
                nursery.cancel_scope.cancel()
            self._changed.unpark_all()
            if is_idle:
                _log.info("%s stopped: idle; the next call starts it", self._name)
                await self._wait_until(lambda: self._users > 0 or self._restart_requested.is_set())

    async def ask(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Call a function with the server's client.

        Raises:
            ConnectionClosed: There is no connection within ``options.ready_timeout`` seconds, or it was lost.
        """
        # One deadline for all three waits below, so that a call does not wait longer than the option allows.
        deadline = trio.current_time() + self._options.ready_timeout
        self._users += 1
        self._was_used = True
        self._changed.unpark_all()
        try:
            with trio.move_on_at(deadline):
                await self._wait_until(lambda: self.member is not None and not self.is_stopped)
            member = self.member
            if member is None or self.is_stopped:
                raise ConnectionClosed(f"{self._name} is not connected: it is starting")

            async def when_connected(client: Client) -> T:
                # The client notices the end of a connection earlier than the managed server.
                await client.until_connected(max(deadline - trio.current_time(), 0.0))
                return await work(client)

            return await member.ask(when_connected, timeout=max(deadline - trio.current_time(), 0.0))
        finally:
            # The idle timeout begins when the last call has ended.
            self._users -= 1
            self._last_used = trio.current_time()
            self._changed.unpark_all()

    def restart(self) -> None:
        """End the connection and make a new one at once. Calls in flight raise ConnectionClosed."""
        self._restart_requested.set()
        # Calls that wait for the old connection fail now instead of after their timeout.
        self.member = None
        self.listed = trio.Event()
        self._changed.unpark_all()

    async def until_listed(self) -> None:
        """Wait until the lists have been offered, however many connections that takes."""
        await self._wait_until(lambda: self.listed.is_set())

    async def until_settled(self) -> None:
        """Wait until the lists are offered, or the first connection has failed."""
        await self._wait_until(lambda: self.listed.is_set() or self.has_failed)

    @property
    def connection(self) -> tuple[int, int]:
        """A value that differs for each connection."""
        return self.starts, 0 if self.member is None else self.member.connections

    @property
    def has_failed(self) -> bool:
        """True if the first attempt to connect has failed, and no later one has succeeded."""
        member = self.member
        return member is not None and member.connections == 0 and member.status.state == "failed"

    # Private

    def _new_member(self) -> ManagedServer:
        # With the revision of the last connection, the negotiation of the next one saves a round trip.
        self._known_revision.version = self._options.revision or self._known_revision.version
        return ManagedServer(
            self._name,
            prefix="",
            openers=list(self._openers),
            where=self.where,
            can_restart=self._can_restart,
            handlers=self._handlers,
            options=self._host_options,
            on_change=lambda _: self._changed.unpark_all(),
            known_revision=self._known_revision,
        )

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._changed.park()

    async def _wait_idle_or_restart(self, member: ManagedServer) -> bool:
        """Wait for a restart or for the idle timeout. Return True for the timeout."""
        while not self._restart_requested.is_set():
            # A lazy server is stopped as soon as its lists are read. After the first call, the idle timeout applies.
            idle = 0.0 if self._options.lazy and not self._was_used else self._options.idle_timeout
            # The server is not stopped before the lists are offered, because it would then offer nothing.
            if idle is None or self._users or not self.listed.is_set():
                await self._changed.park()
            elif trio.current_time() >= self._last_used + idle:
                return True
            else:
                with trio.move_on_at(self._last_used + idle):
                    await self._changed.park()
        return False

    # Following changes

    async def _follow(self, member: ManagedServer) -> None:
        """Read the lists at each connection and whenever they have changed."""
        backoff = Backoff()
        # Each round ends when the connection does, or with an error of a list.
        while not member.has_ended:
            outcome = await run_guarded(partial(member.ask, partial(self._listen, member), timeout=inf))
            if not isinstance(outcome, Failure):
                backoff.reset()
                continue
            if member.has_ended:
                return
            # The managed server itself logs a lost connection.
            if not isinstance(outcome.error, ConnectionClosed):
                _log.warning("%s: its lists cannot be read: %s", self._name, outcome.error)
            await member.until(lambda: member.has_ended, timeout=backoff.next_pause())

    async def _listen(self, member: ManagedServer, client: Client) -> None:
        """Read the lists and follow their changes, until the server is connected again.

        Raises:
            MCPTrioError: A list cannot be read.
        """
        can = client.capabilities
        async with trio.open_nursery() as nursery:
            # The subscription itself does not end at a reconnection, but the lists must be read again.
            async def watch() -> None:
                await member.until_connected_again()
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            try:
                async with client.subscribe(
                    tools=can.tools is not None and bool(can.tools.list_changed),
                    prompts=can.prompts is not None and bool(can.prompts.list_changed),
                    resources=can.resources is not None and bool(can.resources.list_changed),
                ) as changes:
                    # Read after subscribing, so that no change is missed in between.
                    await self._read_lists(member)
                    await self._read_changed_lists(member, changes)
            except MCPError as error:
                _log.info("%s: subscription to list changes refused: %s", self._name, error)
                await self._read_lists(member)
                await trio.sleep_forever()

    async def _read_lists(self, member: ManagedServer) -> None:
        for kind in KINDS:
            await self._read_list(member, kind)
        if not self.listed.is_set():
            # The idle timeout begins here, so that a slow start is not followed by an immediate stop.
            self._last_used = trio.current_time()
            self.listed.set()
            self._changed.unpark_all()

    async def _read_changed_lists(self, member: ManagedServer, changes: Changes) -> None:
        async for change in changes:
            # One notification covers both lists of the protocol.
            if change.kind == "resources":
                await self._read_list(member, "resources")
                await self._read_list(member, "templates")
            elif change.kind != "resource":
                await self._read_list(member, change.kind)
