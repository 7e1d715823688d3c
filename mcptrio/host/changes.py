"""Changes of all servers of a host, as one async iterator.

``Host.subscribe`` yields it. The subscription includes servers that are added later. Each server has its own bounded
queue, and the queues are read in turn, so a server with many changes does not delay those of others.

Source: MCP 2026-07-28, basic/patterns/subscriptions; MCP 2025-11-25, server/resources, "Subscriptions".
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Literal, TypeAlias

import trio
from attrs import define, field, frozen

from mcptrio.client.client import Client
from mcptrio.errors import ConnectionClosed, MCPError
from mcptrio.ground.backoff import MAX_PAUSE_SECONDS, Backoff
from mcptrio.ground.guarded import Failure, run_guarded
from mcptrio.host.managed_server import ManagedServer
from mcptrio.host.tasks import HostTask

__all__ = ["ChangeFollower", "HostChange", "HostChangeKind", "HostChanges", "report_task"]

_log = logging.getLogger("mcptrio.host.changes")

HostChangeKind: TypeAlias = Literal["server", "tools", "prompts", "resources", "resource", "task"]
"""The kind of change: a server's connection, a list, the contents of one resource, or the state of a task."""

_MAX_WAITING_CHANGES = 256
"""Distinct unread changes of one server. When full, the oldest is dropped, and a change of kind ``server`` reports that
all lists and resources of the server may have changed."""


@frozen
class HostChange:
    """A change on one server.

    Args:
        server: The name of the server.
        kind: ``tools``, ``prompts`` or ``resources`` for a list; ``resource`` for the contents of one; ``task`` for a
            task; ``server`` if the server was connected, lost, added or removed, so that its lists have changed too.
            :meth:`mcptrio.Host.status` has details.
        uri: The URI of the resource, which may be below the subscribed URI.
        task: The state of the task.
    """

    server: str
    kind: HostChangeKind
    uri: str | None = None
    task: HostTask | None = None


class HostChanges:
    """The changes of a subscription: ``async for change in changes``, until the host is closed. See ``Host.subscribe``.

    Equal changes that are not read yet are reported once, and only the newest state of a task is reported.
    """

    def __init__(self) -> None:
        self.missing: dict[str, str] = {}
        """The servers that do not report all requested changes, with the reason."""
        self._waiting: OrderedDict[str, dict[HostChange | str, HostChange]] = OrderedDict()
        self._lot = trio.lowlevel.ParkingLot()
        self._ended = False

    def __aiter__(self) -> AsyncIterator[HostChange]:
        return self

    async def __anext__(self) -> HostChange:
        """Wait for the next change and return it. The servers take turns.

        Raises:
            ConnectionClosed: The host is closed, and all changes were read.
        """
        # Queued changes are returned without waiting, and a loop over them must still be cancellable.
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._waiting:
            if self._ended:
                raise ConnectionClosed("the host is closed")
            await self._lot.park()
        server, changes = self._waiting.popitem(last=False)
        change = changes.pop(next(iter(changes)))
        if changes:
            # Added at the end, so that the other servers have their turn first.
            self._waiting[server] = changes
        return change

    # For the host

    def put(self, change: HostChange) -> None:
        changes = self._waiting.setdefault(change.server, {})
        key = change if change.task is None else change.task.id
        # The reader is told that all lists and resources of the server may have changed, which includes the dropped
        # change.
        if key not in changes and len(changes) >= _MAX_WAITING_CHANGES:
            del changes[next(iter(changes))]
            key = change = HostChange(change.server, "server")
        changes[key] = change
        self._lot.unpark()

    def end(self) -> None:
        """Report that no more changes follow."""
        self._ended = True
        self._lot.unpark_all()


@define(eq=False)
class ChangeFollower:
    """Follows the servers for one subscription, in the nursery of the subscription.

    Args:
        uris: Resources to follow, by server.
        tools, prompts, resources: True to follow this list.
        tasks: True to report the tasks of tool calls.
    """

    _nursery: trio.Nursery
    _uris: Mapping[str, Sequence[str]]
    _tools: bool
    _prompts: bool
    _resources: bool
    _tasks: bool
    changes: HostChanges = field(factory=HostChanges, init=False)

    def follow(self, member: ManagedServer) -> None:
        """Report a server's changes from now on, also after reconnections."""
        if self._tools or self._prompts or self._resources or self._uris.get(member.name):
            self._nursery.start_soon(self._follow, member)

    def server_changed(self, member: ManagedServer) -> None:
        """Report that a server was connected, lost, added or removed."""
        self.changes.put(HostChange(member.name, "server"))

    def report_task(self, server: str, task: HostTask) -> None:
        """Report the state of a task."""
        if self._tasks:
            self.changes.put(HostChange(server, "task", task=task))

    # Private

    async def _follow(self, member: ManagedServer) -> None:
        backoff = Backoff()
        while not member.has_ended:
            started = trio.current_time()
            outcome = await run_guarded(partial(member.ask, partial(self._report_changes, member), timeout=inf))
            # The client has ended, so the next turn waits for a new connection.
            if not isinstance(outcome, Failure) or member.has_ended:
                continue
            if isinstance(outcome.error, MCPError):
                # A server that refuses the subscription will refuse it again over this connection.
                self.changes.missing[member.name] = outcome.error.message
                await member.until_connected_again()
                continue
            if not isinstance(outcome.error, ConnectionClosed):
                self.changes.missing[member.name] = str(outcome.error)
                _log.warning("%s: subscription to changes failed: %s", member.name, outcome.error)
            # The subscription has lasted for a while, so this failure has another cause than the last one.
            if trio.current_time() - started > MAX_PAUSE_SECONDS:
                backoff.reset()
            await member.until(lambda: member.has_ended, timeout=backoff.next_pause())

    async def _report_changes(self, member: ManagedServer, client: Client) -> None:
        """Report changes until the client ends or the server is removed.

        Raises:
            MCPTrioError: The server refuses the subscription, or the client has ended.
        """
        uris = self._uris.get(member.name, ())
        async with client.subscribe(
            uris, tools=self._tools, prompts=self._prompts, resources=self._resources
        ) as changes:
            # The subscription works now, so the failure of an earlier connection does not matter.
            self.changes.missing.pop(member.name, None)
            if changes.missing:
                self.changes.missing[member.name] = f"the server does not report {', '.join(changes.missing)}"
            async for change in changes:
                self.changes.put(HostChange(member.name, change.kind, change.uri))


def report_task(subscriptions: Iterable[ChangeFollower], server: str, task: HostTask) -> None:
    """Report the state of a task to all subscriptions that follow tasks."""
    for each in subscriptions:
        each.report_task(server, task)
