"""Looks after the servers: mounts them, waits for them at the start, tells how they fare, begins anew with one.

Registered by the hook. The one rule: nothing that an operator may have written as a secret is told: no arguments, no
environment, no headers.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Literal

import trio
from attrs import field, frozen

from mcptrio import Context, Mount, MountStatus, PluginSetup, Registrar, ToolError, hookimpl, lifespan, tool

from .config import Config
from .upstreams import Upstream, upstreams_of

__all__ = ["Listed", "ListedUpstreams", "Proxy"]

_RESTARTING = 30.0
"""Seconds that ``restart_upstream`` waits for the server."""


@frozen(kw_only=True)
class Listed:
    """How one server fares.

    Args:
        state: ready; starting; away (lost or not reached, and tried again); asleep (ended until it is called); broken
            (its entry is wrong); closed.
        where: the program or the URL it is reached by.
        reason: what went wrong last.
        server: what it calls itself, and its version.
        starts: how often it was begun with.
        offers: how many tools, prompts, resources and templates of it are offered.
    """

    name: str
    state: Literal["ready", "starting", "away", "asleep", "broken", "closed"]
    where: str | None = None
    reason: str | None = None
    revision: str | None = None
    server: str | None = None
    starts: int = 0
    offers: dict[str, int] = field(factory=dict)


@frozen(kw_only=True)
class ListedUpstreams:
    """All of them."""

    upstreams: tuple[Listed, ...]


class Proxy:
    """
    Args:
        wait: seconds that the start waits for all of them.
    """

    def __init__(self, upstreams: Sequence[Upstream], *, wait: float) -> None:
        self._upstreams = {upstream.name: upstream for upstream in upstreams}
        self._wait = wait
        self._running: tuple[Registrar, trio.Nursery] | None = None
        self._mounted: dict[str, _Mounted] = {}
        """By the name of the server. One that was unmounted stays until another one has its name."""

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        server.on_new_settings(self.reconfigure)

    def reconfigure(self, config: Config) -> bool:
        """Mount and unmount what differs. A server with another entry or other settings is replaced.

        Raises:
            ConfigError: a file cannot be read, or a setting is for a server that there is not.
        """
        wanted = {upstream.name: upstream for upstream in upstreams_of(config)}
        if self._running is None:
            return False
        kept = {name: old for name, old in self._upstreams.items() if name in wanted and wanted[name].is_same(old)}
        for name in self._upstreams.keys() - kept.keys():
            if name in self._mounted:
                self._mounted[name].leave.set()
        self._upstreams = {**wanted, **kept}
        for name in wanted.keys() - kept.keys():
            self._mount(*self._running, wanted[name])
        return True

    @tool(title="Servers behind the proxy", read_only=True, idempotent=True, open_world=False)
    async def list_upstreams(self) -> ListedUpstreams:
        """List the servers whose tools are offered here: whether each is there, and what went wrong where it is not."""
        return ListedUpstreams(upstreams=tuple(_listed(upstream) for upstream in self._upstreams.values()))

    @tool(title="Restart a server", read_only=False, destructive=True, idempotent=True, open_world=True)
    async def restart_upstream(self, ctx: Context, name: str) -> Listed:
        """End one of the servers behind this one, and start it anew. Calls that it is working on fail.

        Args:
            name: as list_upstreams tells it.
        """
        upstream = self._upstreams.get(name)
        if upstream is None:
            raise ToolError(f"expected one of {', '.join(self._upstreams) or 'none'}, got {name!r}")
        if upstream.mount is None:
            raise ToolError(f"{name} cannot be started: {upstream.fault}")
        if upstream.mount.status.state == "closed":
            raise ToolError(f"{name} is about to be started with its new settings: call list_upstreams to see when")
        await ctx.report_progress(0, 1, f"ending {name}")
        upstream.mount.restart()
        with trio.move_on_after(_RESTARTING):
            await upstream.mount.until_listed()
        await ctx.report_progress(1, 1, upstream.mount.status.state)
        return _listed(upstream)

    # Private

    @lifespan
    async def opened(self, server: Registrar) -> AsyncGenerator[None]:
        async with trio.open_nursery() as nursery:
            for upstream in self._upstreams.values():
                self._mount(server, nursery, upstream)
            with trio.move_on_after(self._wait):
                for mounted in self._mounted.values():
                    await mounted.until_listed()
            self._running = server, nursery
            yield
            self._running = None
            for mounted in self._mounted.values():
                mounted.leave.set()

    def _mount(self, server: Registrar, nursery: trio.Nursery, upstream: Upstream) -> None:
        if upstream.mount is not None:
            before = self._mounted.get(upstream.name)
            mounted = self._mounted[upstream.name] = _Mounted(upstream.mount, before)
            nursery.start_soon(mounted.keep, server)


class _Mounted:
    """A server that is mounted by a task of its own, until ``leave`` is set.

    Args:
        before: the mount that had the name before. It ends first.
    """

    def __init__(self, mount: Mount, before: _Mounted | None) -> None:
        self._mount = mount
        self._before = before
        self._open = trio.Event()
        self._gone = trio.Event()
        self.leave = trio.Event()

    async def keep(self, server: Registrar) -> None:
        try:
            if self._before is not None:
                await self._before._gone.wait()
                self._before = None
            if not self.leave.is_set():
                async with self._mount.opened(server):
                    self._open.set()
                    await self.leave.wait()
        finally:
            self._gone.set()

    async def until_listed(self) -> None:
        """Wait until what the server has is offered, or it is known that it cannot be reached at once."""
        await self._open.wait()
        await self._mount.until_listed()


def _listed(upstream: Upstream) -> Listed:
    if upstream.mount is None:
        return Listed(name=upstream.name, state="broken", reason=upstream.fault)
    status: MountStatus = upstream.mount.status
    return Listed(
        name=upstream.name,
        state=status.state,
        where=status.where,
        reason=status.reason,
        revision=status.revision,
        server=f"{status.info.name} {status.info.version}" if status.info is not None else None,
        starts=status.starts,
        offers=dict(status.offers),
    )
