"""The plugin ``mount``, which mounts, lists and restarts the servers of the tables ``[mount.NAME]``.

The command line loads it if the configuration has such a table. Its tools never return arguments, environments and
headers, which may contain secrets.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Literal

import trio
from attrs import field, frozen

from mcptrio.capabilities.context import Context
from mcptrio.capabilities.decorators import tool
from mcptrio.capabilities.registrar import Registrar
from mcptrio.errors import ToolError
from mcptrio.mounting.mount import Mount
from mcptrio.mounting.tables import MountedServer, MountTables, mounted_servers
from mcptrio.plugins.hooks import hookimpl, lifespan
from mcptrio.plugins.setup import PluginSetup

__all__ = ["ListedMount", "ListedMounts", "Mounts"]

_RESTART_TIMEOUT = 30.0
"""Seconds that ``restart_mount`` waits for the server."""


@frozen(kw_only=True)
class ListedMount:
    """The state of one mounted server.

    Args:
        state: Ready; starting; disconnected (lost or not reached; retried); stopped (the next call starts
            it); broken (its entry is invalid); closed.
        where: The program or the URL.
        reason: The last error.
        server: The mounted server's own name and version.
        starts: The number of times that it was started.
        offers: The number of its offered tools, prompts, resources and templates.
    """

    name: str
    state: Literal["ready", "starting", "disconnected", "stopped", "broken", "closed"]
    where: str | None = None
    reason: str | None = None
    revision: str | None = None
    server: str | None = None
    starts: int = 0
    offers: dict[str, int] = field(factory=dict)


@frozen(kw_only=True)
class ListedMounts:
    """The mounted servers."""

    mounts: tuple[ListedMount, ...]


class Mounts:
    """The plugin ``mount``.

    Raises:
        ConfigError: A file cannot be read, or two files have a server of the same name.
    """

    def __init__(self, config: MountTables) -> None:
        self._servers = mounted_servers(config)
        self._running: tuple[Registrar, trio.Nursery] | None = None
        self._mounted: dict[str, _Mounted] = {}
        """The mounts, by the name of the server. An unmounted one is kept until another one has the same name."""

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        server.on_new_settings(self.reconfigure)

    def reconfigure(self, config: MountTables) -> bool:
        """Mount and unmount servers so that they match the tables. A server whose table has changed is replaced.

        Raises:
            ConfigError: A file cannot be read, or two files have a server of the same name.
        """
        configured = mounted_servers(config)
        # Before its lifespan, the plugin is made again with the new settings.
        if self._running is None:
            return False
        unchanged = {
            name: old for name, old in self._servers.items() if name in configured and configured[name].is_same(old)
        }
        for name in self._servers.keys() - unchanged.keys():
            # Broken entries have no mount, so nothing runs for them.
            if name in self._mounted:
                self._mounted[name].stop.set()
        self._servers = {**configured, **unchanged}
        for name in configured.keys() - unchanged.keys():
            # The new mount waits until the previous one of this name has ended, because both register the same names.
            self._mount(*self._running, configured[name])
        return True

    @tool(title="Mounted servers", read_only=True, idempotent=True, open_world=False)
    async def list_mounts(self) -> ListedMounts:
        """List the servers whose tools are offered here: whether each is connected, and the last error."""
        return ListedMounts(mounts=tuple(_describe(server) for server in self._servers.values()))

    @tool(title="Restart a mounted server", read_only=False, destructive=True, idempotent=True, open_world=True)
    async def restart_mount(self, ctx: Context, name: str) -> ListedMount:
        """Stop one mounted server and start it again. Its calls in flight fail.

        Args:
            name: The name of the server in {tool:list_mounts}.
        """
        server = self._servers.get(name)
        if server is None:
            raise ToolError(f"expected one of {', '.join(self._servers) or 'none'}, got {name!r}")
        if server.mount is None:
            raise ToolError(f"{name} cannot be started: {server.failure}")
        if server.mount.status.state == "closed":
            raise ToolError(f"{name} is starting with new settings: call {{tool:list_mounts}} to see its state")
        # A restart may take half a minute, and a client without progress would give up earlier.
        await ctx.report_progress(0, 1, f"stopping {name}")
        server.mount.restart()
        with trio.move_on_after(_RESTART_TIMEOUT):
            await server.mount.until_listed()
        await ctx.report_progress(1, 1, server.mount.status.state)
        return _describe(server)

    # Private

    @lifespan
    async def opened(self, server: Registrar) -> AsyncGenerator[None]:
        async with trio.open_nursery() as nursery:
            for each in self._servers.values():
                self._mount(server, nursery, each)
            # All wait at the same time, so the start takes only as long as the slowest server.
            async with trio.open_nursery() as waiting:
                for name, mounted in self._mounted.items():
                    waiting.start_soon(mounted.until_listed, self._servers[name].table.start_timeout)
            self._running = server, nursery
            yield
            self._running = None
            for mounted in self._mounted.values():
                mounted.stop.set()

    def _mount(self, server: Registrar, nursery: trio.Nursery, mounted_server: MountedServer) -> None:
        if mounted_server.mount is not None:
            previous = self._mounted.get(mounted_server.name)
            mounted = self._mounted[mounted_server.name] = _Mounted(mounted_server.mount, previous)
            nursery.start_soon(mounted.run, server)


class _Mounted:
    """A server that its own task mounts, until ``stop`` is set.

    Args:
        previous: The previous mount with this name, which must end first.
    """

    def __init__(self, mount: Mount, previous: _Mounted | None) -> None:
        self._mount = mount
        self._previous = previous
        self._open = trio.Event()
        self._ended = trio.Event()
        self.stop = trio.Event()

    async def run(self, server: Registrar) -> None:
        try:
            if self._previous is not None:
                # Both register the same names, so the previous mount must have withdrawn its entries.
                await self._previous._ended.wait()
                # Otherwise a server that is replaced a thousand times would keep a chain of a thousand mounts.
                self._previous = None
            if not self.stop.is_set():
                async with self._mount.opened(server):
                    self._open.set()
                    await self.stop.wait()
        finally:
            # Set after a failure too, because the next mount with this name must not wait forever.
            self._ended.set()

    async def until_listed(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds until the server's entries are offered or its first connection has failed."""
        with trio.move_on_after(timeout):
            await self._open.wait()
            await self._mount.until_listed()


def _describe(server: MountedServer) -> ListedMount:
    if server.mount is None:
        return ListedMount(name=server.name, state="broken", reason=server.failure)
    status = server.mount.status
    return ListedMount(
        name=server.name,
        state=status.state,
        where=status.where,
        reason=status.reason,
        revision=status.revision,
        server=f"{status.info.name} {status.info.version}" if status.info is not None else None,
        starts=status.starts,
        offers=dict(status.offers),
    )
