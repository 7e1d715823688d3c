"""Changes of all servers of a host, as one async iterator.

``Host.subscribe`` returns it. It follows current and later servers. Each server has its own bounded queue, and the
queues are read in turn, so a server with many changes does not hide those of others.

Source: MCP 2026-07-28, basic/patterns/subscriptions; MCP 2025-11-25, server/resources, "Subscriptions".
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from math import inf
from typing import Literal, TypeAlias

import trio
from attrs import field, frozen

from mcptrio.client.client import Client
from mcptrio.errors import ConnectionClosed, MCPError
from mcptrio.ground.backoff import MAX_PAUSE_SECONDS, Backoff
from mcptrio.ground.guarded import Failure, run_guarded
from mcptrio.host.managed_server import ManagedServer

__all__ = ["Following", "HostChange", "HostChangeKind", "HostChanges", "WantedChanges"]

_log = logging.getLogger("mcptrio.host.changes")

HostChangeKind: TypeAlias = Literal["server", "tools", "prompts", "resources", "resource"]
"""The kind of change: a server's connection, a list, or the contents of one resource."""

_MAX_WAITING_CHANGES = 256
"""Different unread changes of one server. When full, the oldest is dropped, and all its lists and subscribed resources
count as changed."""


@frozen
class HostChange:
    """Something has changed.

    Args:
        server: whose.
        kind: ``tools``, ``prompts`` or ``resources`` for a list; ``resource`` for the contents of one; ``server`` if
            the server was connected, lost, added or removed, and its lists with it. :meth:`mcptrio.Host.status` has
            details.
        uri: of the resource; it may lie below the one subscribed to.
    """

    server: str
    kind: HostChangeKind
    uri: str | None = None


@frozen(kw_only=True)
class WantedChanges:
    """The changes that a subscription wants."""

    uris: Mapping[str, Sequence[str]] = field(factory=dict)
    """By server."""
    tools: bool = False
    prompts: bool = False
    resources: bool = False

    def of(self, server: str) -> bool:
        """Whether the server has to be followed at all."""
        return bool(self.tools or self.prompts or self.resources or self.uris.get(server))


class HostChanges:
    """``async for change in changes``; ends when the host is closed. Made by ``Host.subscribe``.

    Equal changes that are not read yet are reported once.
    """

    def __init__(self) -> None:
        self.missing: dict[str, str] = {}
        """The servers that do not tell of all that was asked for, and why."""
        self._waiting: OrderedDict[str, dict[HostChange, None]] = OrderedDict()
        self._lot = trio.lowlevel.ParkingLot()
        self._ended = False

    def __aiter__(self) -> AsyncIterator[HostChange]:
        return self

    async def __anext__(self) -> HostChange:
        """
        Raises:
            ConnectionClosed: the host is closed, and everything has been read.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._waiting:
            if self._ended:
                raise ConnectionClosed("the host is closed")
            await self._lot.park()
        server, changes = self._waiting.popitem(last=False)
        change = next(iter(changes))
        del changes[change]
        if changes:
            self._waiting[server] = changes
        return change

    # For the host

    def put(self, change: HostChange) -> None:
        changes = self._waiting.setdefault(change.server, {})
        if change not in changes and len(changes) >= _MAX_WAITING_CHANGES:
            del changes[next(iter(changes))]
            change = HostChange(change.server, "server")
        changes[change] = None
        self._lot.unpark()

    def end(self) -> None:
        """Nothing more will come."""
        self._ended = True
        self._lot.unpark_all()


class Following:
    """Follows servers for one subscription, below its nursery."""

    def __init__(self, wanted: WantedChanges, changes: HostChanges, nursery: trio.Nursery) -> None:
        self._wanted = wanted
        self._changes = changes
        self._nursery = nursery

    def follow(self, member: ManagedServer) -> None:
        """Hear of a server's changes from now on, and whenever it is connected."""
        if self._wanted.of(member.name):
            self._nursery.start_soon(self._follow, member)

    def moved(self, member: ManagedServer) -> None:
        """A server came or went."""
        self._changes.put(HostChange(member.name, "server"))

    def end(self) -> None:
        self._changes.end()

    # Private

    async def _follow(self, member: ManagedServer) -> None:
        backoff = Backoff()
        while not member.is_over:
            started = trio.current_time()
            outcome = await run_guarded(partial(member.ask, partial(self._hand_on, member), timeout=inf))
            if not isinstance(outcome, Failure) or member.is_over:
                continue
            if isinstance(outcome.error, MCPError):
                self._changes.missing[member.name] = outcome.error.message
                await member.until_connected_again()
                continue
            if not isinstance(outcome.error, ConnectionClosed):
                self._changes.missing[member.name] = str(outcome.error)
                _log.warning("%s: its changes cannot be followed: %s", member.name, outcome.error)
            if trio.current_time() - started > MAX_PAUSE_SECONDS:
                backoff.reset()
            await member.until(lambda: member.is_over, timeout=backoff.draw())

    async def _hand_on(self, member: ManagedServer, client: Client) -> None:
        """Until the server's client has ended, or is cut off.

        Raises:
            MCPTrioError: the server does not tell, or the client ended.
        """
        wanted = self._wanted
        async with client.subscribe(
            wanted.uris.get(member.name, ()), tools=wanted.tools, prompts=wanted.prompts, resources=wanted.resources
        ) as changes:
            self._changes.missing.pop(member.name, None)
            if changes.missing:
                self._changes.missing[member.name] = f"the server does not report {', '.join(changes.missing)}"
            async for change in changes:
                self._changes.put(HostChange(member.name, change.kind, change.uri))
