"""The plugins of an open server: starts, stops and restarts their lifespans and background tasks.

They run in a nursery of the server, around everything else that runs. A change to one plugin does not affect the
others, and a stopped plugin leaves nothing running.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from inspect import isasyncgen
from typing import Any

import trio

from mcptrio.errors import ConfigError, PluginError
from mcptrio.ground.guarded import Done, Failure, run_guarded
from mcptrio.ground.quoting import quote_name
from mcptrio.plugins.contributions import Contributions
from mcptrio.plugins.manager import PluginManager
from mcptrio.plugins.plugin import Plugin
from mcptrio.plugins.settings import PluginTables
from mcptrio.runtime.lifespans import Lifespan
from mcptrio.runtime.supervisor import Supervisor

__all__ = ["RunningPlugins"]

_log = logging.getLogger("mcptrio.plugins")

LEAVE_TIMEOUT = 1.0
"""Minimum seconds for the end of a lifespan, even if its requests have used the whole timeout."""


class RunningPlugins:
    """The lifespans and background tasks of a server's plugins.

    Args:
        supervisor: The supervisor of the server's requests.
        plugins: The plugins, with their states.
        contributions: Adds and withdraws the entries of the plugins.
    """

    def __init__(self, supervisor: Supervisor, plugins: PluginManager, contributions: Contributions) -> None:
        self._supervisor = supervisor
        self._plugins = plugins
        self._contributions = contributions
        self._lifespans: dict[str, Lifespan] = {}
        """The open lifespans by plugin, in the order of their start."""
        self._nursery: trio.Nursery | None = None
        self._entering: dict[str, trio.CancelScope] = {}
        """By plugin, the scope around a lifespan that is starting."""
        self._locks: defaultdict[str, trio.Lock] = defaultdict(trio.Lock)
        """By plugin, the lock that allows one change at a time."""

    async def enter_all(self, nursery: trio.Nursery) -> None:
        """Start all plugins, in the order of registration. From now on, plugins may be enabled and disabled.

        Raises:
            PluginError: A plugin failed, and the server is strict.
        """
        self._nursery = nursery
        for plugin in self._plugins.active():
            async with self._locks[plugin.name]:
                # The plugin may have been disabled, and enabled again, in the meantime.
                if plugin.state == "loaded":
                    await self._enter(plugin)

    async def leave_all(self, drain_deadline: float) -> None:
        """End all lifespans, the last one first, each by ``drain_deadline`` or in :data:`LEAVE_TIMEOUT` seconds."""
        # From now on nothing is started, and `_change` runs in the caller.
        self._nursery = None
        for scope in self._entering.values():
            scope.cancel()
        # In reverse order, because a later plugin may use an earlier one.
        while self._lifespans:
            await self._leave_lifespan(next(reversed(self._lifespans)), drain_deadline)

    async def enable(self, name: str) -> Plugin:
        """Start a disabled plugin, or retry one in quarantine. A running plugin is not changed.

        Clients see its entries when its lifespan has yielded. The start completes even if the caller is cancelled.

        Returns:
            The plugin; in quarantine if it failed.

        Raises:
            ConfigError: There is no such plugin.
            PluginError: The plugin failed, and the server is strict.
        """
        plugin = self._plugin(name)

        async def work() -> None:
            if plugin.state not in ("loaded", "running"):
                with self._contributions.suspended(plugin):
                    await self._leave(plugin, trio.current_time())
                    await self._begin(plugin)

        await self._change(plugin, work)
        return plugin

    async def disable(self, name: str) -> Plugin:
        """Withdraw a plugin's entries, wait ``timeouts.shutdown`` seconds for its calls, and leave its lifespan.

        All of this is done even if the caller is cancelled. A lifespan that has not yielded yet is cancelled.

        Raises:
            ConfigError: There is no such plugin.
        """
        plugin = self._plugin(name)
        # Outside the lock, which the start of the plugin holds until its lifespan has yielded.
        if plugin.name in self._entering:
            self._entering[plugin.name].cancel()

        async def work() -> None:
            if plugin.state != "disabled":
                self._contributions.forget(plugin)
                plugin.disable()
                await self._drain(plugin, "the plugin was disabled")
                _log.info("%s is disabled", plugin.label)

        await self._change(plugin, work)
        return plugin

    def quarantine(self, plugin: Plugin, failure: str, error: BaseException | None = None) -> None:
        """Withdraw a plugin's entries and log the reason, without waiting.

        Its running calls have ``timeouts.shutdown`` seconds, and then its lifespan ends.

        Raises:
            PluginError: The server is strict.
        """
        if plugin.name in self._entering:
            self._entering[plugin.name].cancel()
        if plugin.name in self._lifespans and self._nursery is not None:
            self._nursery.start_soon(self._retire, plugin)
        self._plugins.quarantine(plugin, failure, error)
        self._contributions.withdraw_failed(plugin)

    async def renew(self, tables: PluginTables, wanted: Callable[[Plugin], bool]) -> None:
        """Apply the operator's new settings; see :meth:`mcptrio.Server.renew_plugins`.

        Raises:
            PluginError: A plugin failed, and the server is strict.
        """
        self._plugins.find_new()
        changed = self._contributions.set_tables(tables)
        # A copy: enabling a plugin may add others to the list.
        for plugin in list(self._plugins.plugins.values()):
            if not wanted(plugin):
                await self.disable(plugin.name)
            elif plugin.name in changed:
                await self._change(plugin, partial(self._reconfigure, plugin))
            else:
                await self.enable(plugin.name)

    # Private

    def _plugin(self, name: str) -> Plugin:
        plugin = self._plugins.plugins.get(name)
        if plugin is None:
            raise ConfigError(
                f"there is no plugin {quote_name(name)}; expected one of {', '.join(self._plugins.plugins)}"
            )
        return plugin

    async def _change(self, plugin: Plugin, work: Callable[[], Awaitable[None]]) -> None:
        """Run one change to a plugin in a task of the server, which completes even if the caller is cancelled.

        The caller may be a tool that disables its own plugin.

        Raises:
            PluginError: The exception of the change.
        """
        outcome: Done[None] | Failure | None = None
        done = trio.Event()

        async def change() -> None:
            nonlocal outcome
            try:
                # One change to a plugin at a time: enabling and disabling would otherwise overlap.
                async with self._locks[plugin.name]:
                    outcome = await run_guarded(work)
            finally:
                done.set()

        if self._nursery is None:
            # The server is not open.
            await change()
        else:
            self._nursery.start_soon(change)
            await done.wait()
        if isinstance(outcome, Failure):
            raise outcome.error

    async def _reconfigure(self, plugin: Plugin) -> None:
        """Pass new settings to a plugin, and restart it unless it is running and accepts them.

        Raises:
            PluginError: The plugin failed, and the server is strict.
        """
        if plugin.state == "running":
            try:
                if self._contributions.reconfigure(plugin):
                    _log.info("%s has taken its new settings", plugin.label)
                    return
            except PluginError:
                self._contributions.withdraw_failed(plugin)
                return
        with self._contributions.suspended(plugin):
            plugin.disable()
            await self._drain(plugin, "the plugin restarts")
            await self._begin(plugin)

    async def _begin(self, plugin: Plugin) -> None:
        """Load a plugin, register its entries and, if the server is open, start it.

        Raises:
            PluginError: The plugin failed, and the server is strict.
        """
        is_open = self._nursery is not None
        if self._plugins.renew(plugin) and self._contributions.offer(plugin, is_hidden=is_open) and is_open:
            await self._enter(plugin)
        _log.info("%s is %s", plugin.label, plugin.state)

    async def _retire(self, plugin: Plugin) -> None:
        """End the calls and the lifespan of a quarantined plugin, unless it was enabled in the meantime."""
        async with self._locks[plugin.name]:
            if plugin.state == "quarantined":
                await self._drain(plugin, "the plugin is in quarantine")

    async def _drain(self, plugin: Plugin, reason: str) -> None:
        """Wait for the running calls of a withdrawn plugin, and end its lifespan."""
        deadline = trio.current_time() + self._supervisor.settings.timeouts.shutdown
        await self._supervisor.drain_owner(plugin.name, reason, deadline)
        await self._leave(plugin, deadline)

    async def _leave(self, plugin: Plugin, drain_deadline: float) -> None:
        """End a plugin's lifespan if it is open, as it may be even for a quarantined plugin."""
        await self._leave_lifespan(plugin.name, drain_deadline)
        plugin.yielded = None

    async def _leave_lifespan(self, name: str, drain_deadline: float) -> None:
        lifespan = self._lifespans.get(name)
        if lifespan is not None:
            # At least LEAVE_TIMEOUT, so that clean-up is not cancelled before it begins.
            await lifespan.leave(max(drain_deadline, trio.current_time() + LEAVE_TIMEOUT))
            # A lifespan that failed has already been removed.
            self._lifespans.pop(name, None)

    async def _enter(self, plugin: Plugin) -> None:
        """Open a plugin's lifespan, start its background tasks, and publish its entries.

        Raises:
            PluginError: The plugin failed, and the server is strict.
        """
        nursery = self._nursery
        if nursery is None:
            return  # the server is stopping

        def tasks(states: list[Any]) -> list[Callable[[], Awaitable[None]]]:
            for state in states:
                if state is not None:
                    plugin.yielded = state
            return plugin.background

        def opened(lifespan: Lifespan) -> None:
            self._lifespans[plugin.name] = lifespan
            if plugin.start():
                self._contributions.publish(plugin)

        def failed(error: BaseException) -> None:
            self.quarantine(plugin, f"lifespan failed: {str(error) or type(error).__name__}", error)

        def failed_while_open(lifespan: Lifespan, error: BaseException) -> None:
            # A lifespan that took too long to end may fail when the plugin has a new one, which must not be blamed.
            if self._lifespans.get(plugin.name) is lifespan:
                del self._lifespans[plugin.name]
                failed(error)
            else:
                _log.error("%s: a lifespan that was left earlier failed", plugin.label, exc_info=error)

        try:
            managers = [_manager(each) for each in self._plugins.call(plugin, "lifespan", server=plugin.registrar)]
        except PluginError:
            self._contributions.withdraw_failed(plugin)
            return
        lifespan = Lifespan(plugin.label, managers, tasks=tasks, opened=opened, failed=failed_while_open)
        outcome: Done[None] | Failure | None = None
        seconds = self._supervisor.settings.timeouts.start
        try:
            with trio.move_on_after(seconds) as self._entering[plugin.name]:
                outcome = await nursery.start(lifespan.run)
        finally:
            scope = self._entering.pop(plugin.name)
        # It is not a failure if `disable` has cancelled the scope.
        if outcome is None and trio.current_time() >= scope.deadline:
            failed(trio.TooSlowError(f"it did not yield within {seconds:g} s (timeouts.start)"))
        elif isinstance(outcome, Failure):
            if isinstance(outcome.error, PluginError) and plugin.state == "quarantined":
                # A hook has failed, and its error is already stored in the plugin.
                self._contributions.withdraw_failed(plugin)
            else:
                failed(outcome.error)
        elif outcome is not None and (self._nursery is None or plugin.state != "running"):
            # The server has already ended the open lifespans, or the plugin was quarantined or disabled meanwhile.
            await self._leave(plugin, trio.current_time())


def _manager(opened: Any) -> AbstractAsyncContextManager[Any]:
    """Return a lifespan's result as a context manager; an async generator is converted to one."""
    return asynccontextmanager(lambda: opened)() if isasyncgen(opened) else opened
