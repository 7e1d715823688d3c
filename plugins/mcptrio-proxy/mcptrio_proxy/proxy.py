"""Looks after the servers: mounts them, waits for them at the start, tells how they fare, begins anew with one.

Registered by the hook. The one rule: nothing that an operator may have written as a secret is told: no arguments, no
environment, no headers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Literal

import trio
from attrs import field, frozen

from mcptrio import Context, MountStatus, ToolError, hookimpl, tool

from .upstreams import Upstream

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

    @hookimpl
    def lifespan(self, server: Any) -> AbstractAsyncContextManager[None]:
        return self._open(server)

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
        await ctx.report_progress(0, 1, f"ending {name}")
        upstream.mount.restart()
        with trio.move_on_after(_RESTARTING):
            await upstream.mount.until_listed()
        await ctx.report_progress(1, 1, upstream.mount.status.state)
        return _listed(upstream)

    # Private

    @asynccontextmanager
    async def _open(self, server: Any) -> AsyncIterator[None]:
        mounts = [upstream.mount for upstream in self._upstreams.values() if upstream.mount is not None]
        async with AsyncExitStack() as stack:
            for mount in mounts:
                await stack.enter_async_context(mount.lifespan(server))
            with trio.move_on_after(self._wait):
                for mount in mounts:
                    await mount.until_listed()
            yield


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
