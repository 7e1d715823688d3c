"""A plugin that offers the tools, resources, prompts and completions of another MCP server.

Plugins, programs and the command line create it. Clients see the other server's entries unchanged except for their
names. If the other server fails, only its calls in flight fail.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import ClassVar, Literal, TypeAlias

import trio
from attrs import field, frozen

from mcptrio.capabilities.catalog import catalog_of
from mcptrio.capabilities.registrar import Registrar
from mcptrio.client.client import Client
from mcptrio.connecting.connect import openers
from mcptrio.connecting.targets import Target
from mcptrio.errors import ConfigError, ConnectionClosed
from mcptrio.host.list_collection import ListKind, list_one
from mcptrio.host.listing import own_item
from mcptrio.host.managed_server import ManagedServer
from mcptrio.mounting.calls import CallsInFlight
from mcptrio.mounting.exported_features import ExportedFeatures
from mcptrio.mounting.options import MountOptions
from mcptrio.mounting.questions import RelayingHandlers
from mcptrio.mounting.relay import CallRelay, describe_reason
from mcptrio.mounting.remote_access import AccessReport, RemoteAccess
from mcptrio.mounting.resource_watcher import ResourceWatcher
from mcptrio.mounting.upstream import KINDS, Upstream
from mcptrio.plugins.hooks import lifespan
from mcptrio.protocol.model.lifecycle import Implementation

__all__ = ["Mount", "MountState", "MountStatus"]

_log = logging.getLogger("mcptrio.mounting")

MountState: TypeAlias = Literal["closed", "starting", "ready", "disconnected", "stopped"]
"""The state of a mounted server. A ``stopped`` server is started by the next call."""


@frozen(kw_only=True)
class MountStatus:
    """The state of a mounted server.

    Args:
        state: ``closed`` while our server is not open; ``starting``; ``ready``; ``disconnected`` while a failed or lost
            connection is retried; ``stopped`` until the next call starts the server.
        where: The program or the URL, without parts that may be secret.
        reason: The last error since the server was last ready, without the program's standard error, which is in the
            log; ``None`` if there was no error.
        revision: The revision of the current or the last connection.
        info: The mounted server's own name and version, from its ``serverInfo``.
        starts: The number of times that the mounted server was started. Reconnections after a crash are not counted.
        offers: The number of offered entries by kind: ``tools``, ``prompts``, ``resources`` and ``templates``.
    """

    state: MountState
    where: str
    reason: str | None = None
    revision: str | None = None
    info: Implementation | None = None
    starts: int = 0
    offers: dict[str, int] = field(factory=dict)


class Mount:
    """Another MCP server as a plugin: ``Server(plugins=[Mount("npx some-server", name="some")])``.

    Args:
        target: A target of :func:`mcptrio.connect`.
        name: The prefix of its tools, and its name in logs and errors; by default that of the target.
        options: The prefix, timeouts and limits of the mount.

    Raises:
        ConfigError: The target is invalid, or can be connected to only once.
    """

    _forwards_caller: ClassVar = False
    """True for the process of an isolated plugin, which accepts the caller and reports its access decisions."""

    def __init__(self, target: Target, *, name: str | None = None, options: MountOptions | None = None) -> None:
        _, self._where, can_restart = openers(target)
        # A mount reconnects, which an already open channel does not allow.
        if not can_restart:
            raise ConfigError("target: expected one that can be connected to again, got an open channel")
        self.__name__ = name or self._where
        self._target = target
        self._options = options or MountOptions()
        self._open: tuple[Upstream, ExportedFeatures] | None = None

    @property
    def name(self) -> str:
        """The name of the mount."""
        return self.__name__

    @property
    def status(self) -> MountStatus:
        """The state of the server."""
        if self._open is None:
            return MountStatus(state="closed", where=self._where)
        upstream, offers = self._open
        starts, counts = upstream.starts, offers.counts()
        if upstream.is_stopped or upstream.member is None:
            state: MountState = "stopped" if upstream.is_stopped else "starting"
            return MountStatus(state=state, where=self._where, starts=starts, offers=counts)
        status = upstream.member.status
        # A failed connection is retried, so the operator gets "disconnected" for every other state.
        states: dict[str, MountState] = {"ready": "ready", "connecting": "starting"}
        return MountStatus(
            state=states.get(status.state, "disconnected"),
            where=self._where,
            reason=None if status.reason is None else describe_reason(status.reason, is_isolated=self._forwards_caller),
            revision=status.revision,
            info=status.info,
            starts=starts,
            offers=counts,
        )

    async def until_listed(self) -> None:
        """Wait until the server's entries are offered, or its first connection has failed.

        Raises:
            ConnectionClosed: Our server is not open.
        """
        if self._open is None:
            raise ConnectionClosed(
                f"{self.name}: the server that mounts it is not open: use `async with server.open():`"
            )
        await self._open[0].until_settled()

    def restart(self) -> None:
        """Stop the server and start it again at once. Its calls in flight fail.

        Raises:
            ConnectionClosed: Our server is not open.
        """
        if self._open is None:
            raise ConnectionClosed(
                f"{self.name}: the server that mounts it is not open: use `async with server.open():`"
            )
        self._open[0].restart()

    @lifespan
    @asynccontextmanager
    async def opened(self, server: Registrar) -> AsyncIterator[None]:
        """Connect to the server and offer its entries while the block lasts.

        Raises:
            ConnectionClosed: The server is required and cannot be reached.
        """
        # The functions below use names that are bound further down, because these objects need each other.
        calls = CallsInFlight(self.name, lambda: upstream.connection)
        offers: ExportedFeatures
        remote_access: RemoteAccess

        async def read_list(member: ManagedServer, kind: ListKind) -> None:
            listed, is_whole = await list_one(member, kind)
            if not is_whole:
                _log.warning("%s: only the first %d of its %s are offered", self.name, member.options.listed, kind)
            # No timeout: the connection exists, and only its capabilities are read.
            completes = await member.ask(_has_completions, timeout=0.0)
            access = AccessReport()
            if self._forwards_caller:
                access = await member.ask(AccessReport.of, timeout=0.0)
                remote_access.reset(access)
            scopes = access.scopes.get(_COMPONENTS[kind])
            offers.set_list(kind, [own_item(each) for each in listed], completes=completes, scopes=scopes)

        handlers = RelayingHandlers(relay=calls.ask, on_log=calls.forward_log, url_completed=calls.url_completed)
        # Messages to our own process are not recorded, because they name the caller and the scopes of its token.
        recorder = None if self._forwards_caller else catalog_of(server).recorder
        upstream = Upstream(
            self.name, self._target, self._options, handlers=handlers, read_list=read_list, recorder=recorder
        )
        relay = CallRelay(self.name, upstream, calls, forwards_caller=self._forwards_caller)
        offers = ExportedFeatures(server, self.name, self._options, relay)
        remote_access = RemoteAccess(catalog_of(server), self.name, upstream, offers.own_name)
        watcher = ResourceWatcher(self.name, catalog_of(server), upstream, offers.has)
        self._open = upstream, offers
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(upstream.run)
                nursery.start_soon(watcher.run)
                for kind in KINDS:
                    nursery.start_soon(offers.retry, kind)
                with trio.move_on_after(self._options.start_timeout):
                    await upstream.until_settled()
                # Our server starts without this mount. Its clients are notified when the lists arrive.
                if not upstream.listed.is_set():
                    self._defer_lists(server, upstream)
                    if self._options.required:
                        nursery.start_soon(self._wait_for_connection, upstream)
                yield
                offers.withdraw()
                # Only a mount that ends alone waits here. If our plugin or server ends, its calls have ended before.
                with trio.move_on_after(catalog_of(server).settings.timeouts.shutdown):
                    await calls.wait_none()
                nursery.cancel_scope.cancel()
        finally:
            self._open = None
            # After the entries were withdrawn, because this removes the middleware that decides about access to them.
            # Until the next process has reported, access is denied, so no entry is shown too early.
            remote_access.end()

    def _defer_lists(self, server: Registrar, upstream: Upstream) -> None:
        if self._options.required and upstream.has_failed:
            raise self._unreachable_error(upstream)
        if self._options.start_timeout:
            reason = upstream.member.status.reason if upstream.member is not None else None
            _log.warning("%s is not connected yet; its entries follow later: %s", self.name, reason or "it is starting")
        # Clients of handshake revisions learn only at initialize that lists can change.
        server.announce_lists()

    async def _wait_for_connection(self, upstream: Upstream) -> None:
        """Wait for the first connection while our server serves other plugins.

        Raises:
            ConnectionClosed: The server was not reached within ``options.timeouts.connect``. This ends our lifespan, so
                that our plugin is quarantined.
        """
        await upstream.until_settled()
        if upstream.has_failed:
            raise self._unreachable_error(upstream)

    def _unreachable_error(self, upstream: Upstream) -> ConnectionClosed:
        reason = upstream.member.status.reason if upstream.member is not None else None
        return ConnectionClosed(f"{self.name} cannot be reached: {reason}")


_COMPONENTS: Mapping[ListKind, str] = {
    "tools": "tool",
    "prompts": "prompt",
    "resources": "resource",
    "templates": "resource",
}


async def _has_completions(client: Client) -> bool:
    return client.capabilities.completions is not None
