"""Adds the entries of plugins when they are loaded, and withdraws them when plugins are disabled or fail.

A server has one :class:`Contributions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mcptrio.capabilities.call_limits import CallLimits
from mcptrio.capabilities.catalog import Catalog
from mcptrio.errors import ConfigError, PluginError
from mcptrio.ground.expected import expect
from mcptrio.ground.guarded import Failure, run_guarded_sync
from mcptrio.ground.quoting import quote_name
from mcptrio.ground.suggestions import suggest
from mcptrio.plugins.manager import PluginManager
from mcptrio.plugins.plugin import Plugin
from mcptrio.plugins.policy import ToolPolicy
from mcptrio.plugins.redactions import PluginRedactions
from mcptrio.plugins.settings import PluginTables
from mcptrio.plugins.setup import PluginSetup

__all__ = ["Contributions"]


class Contributions:
    """Adds and withdraws the entries of all plugins.

    Args:
        catalog: The entries of the server.
        plugins: The plugins, with their states.
        tables: The operator's settings for the plugins.
        policy: Decides which tools of the plugins are offered.
    """

    def __init__(self, catalog: Catalog, plugins: PluginManager, tables: PluginTables, policy: ToolPolicy) -> None:
        self._catalog = catalog
        self._plugins = plugins
        self._tables = tables
        self._policy = policy
        self._applied_tables: dict[str, Mapping[str, Any]] = {}
        """By plugin, the settings with which it was loaded."""
        self._redactions = PluginRedactions(catalog.logging.redactions)

    def check_tables(self) -> None:
        """Check that each table belongs to a plugin, for a server whose settings do not change later.

        Raises:
            TypeError: The tables are not a mapping.
            ConfigError: There is no plugin with the name of a table.
        """
        known = sorted(self._plugins.plugins)
        for name in expect(self._tables.tables, Mapping, "config"):
            if name not in known:
                raise ConfigError(f"config: there is no plugin {quote_name(name)}{suggest(name, known)}")

    def set_tables(self, tables: PluginTables) -> set[str]:
        """Set the operator's new settings, for plugins that are loaded from now on.

        Returns:
            The plugins that were loaded with other settings, including those whose referenced files have changed.
        """
        self._tables = tables
        changed = set()
        for name, before in self._applied_tables.items():
            # An unreadable table is reported when the plugin is loaded.
            now = run_guarded_sync(tables.resolved_table, name)
            if isinstance(now, Failure) or now.value != before:
                changed.add(name)
        return changed

    def offer_all(self) -> None:
        """Add the entries of every plugin.

        Raises:
            PluginError: A plugin failed, and the server is strict.
        """
        for plugin in self._plugins.active():
            self.offer(plugin)
        if any(plugin.state in ("quarantined", "disabled") for plugin in self._plugins.plugins.values()):
            # Such a plugin may be enabled later, with entries of any kind. Clients request only the lists that the
            # server declared when they connected.
            self._catalog.announce_lists()

    def offer(self, plugin: Plugin, *, is_hidden: bool = False) -> bool:
        """Read a plugin's settings, and let it register its entries.

        Args:
            is_hidden: Whether to hide its entries from clients until :meth:`publish`.

        Returns:
            ``True`` if the plugin was set up; ``False`` if it failed.

        Raises:
            PluginError: The plugin failed, and the server is strict.
        """
        plugin.is_hidden = is_hidden
        try:
            self._plugins._configure(plugin, self._tables)
            self._applied_tables[plugin.name] = self._tables.resolved_table(plugin.name)
            setup = plugin.registrar = PluginSetup(
                self._catalog, plugin, policy=self._policy, redactions=self._redactions, adopt=self._plugins.adopt
            )
            # A plugin that is enabled again may add entries.
            plugin.is_withdrawn = False
            policy = plugin.policy
            if (policy.timeout, policy.concurrency, policy.rate) != (None, None, None):
                plugin.limits = CallLimits(
                    plugin.name, timeout=policy.timeout, concurrency=policy.concurrency, rate=policy.rate
                )
            self._plugins.set_up(plugin, setup)
            # A hidden plugin is trusted when it is published, because its lifespan may still fail.
            if not is_hidden:
                self._catalog.authorizers.trust(plugin)
            return True
        except PluginError:
            self.withdraw(plugin)
            if self._plugins.strict:
                raise
            return False

    def reconfigure(self, plugin: Plugin) -> bool:
        """Pass the current settings to a running plugin.

        Returns:
            Whether the plugin accepted them.

        Raises:
            PluginError: The plugin failed, and is quarantined.
        """
        if not self._plugins._reconfigure(plugin, self._tables):
            return False
        self._applied_tables[plugin.name] = self._tables.resolved_table(plugin.name)
        return True

    def publish(self, plugin: Plugin) -> None:
        """Show all hidden entries of the plugin at once, and notify clients."""
        if plugin.is_hidden:
            self._catalog.publish(plugin)

    def withdraw(self, plugin: Plugin, *, reserve: bool = False) -> None:
        """Withdraw the plugin's entries and notify clients. Its redactions stay, because the texts are still secret.

        Args:
            reserve: Whether to reserve the names of the plugin's entries.
        """
        self._catalog.withdraw(plugin, reserve=reserve)
        while plugin.undo:
            # In reverse order, because a later step may depend on an earlier one.
            plugin.undo.pop()()
        if plugin.state == "quarantined":
            # Fail closed: nothing may become public because the plugin that protects it has failed.
            self._catalog.authorizers.distrust(plugin)
        plugin.limits = None
        plugin.offers.clear()
        plugin.withheld.clear()
        plugin.renamed.clear()
        plugin.is_hidden = False

    @contextmanager
    def suspended(self, plugin: Plugin) -> Iterator[None]:
        """Withdraw the plugin's entries while the block restarts it.

        Until the end of the block, the server reserves the plugin's names, and refuses all requests that the plugin's
        authorizers decide about.
        """
        self.withdraw(plugin, reserve=True)
        self._catalog.authorizers.distrust(plugin)
        try:
            yield
        finally:
            self._catalog.release(plugin)

    def withdraw_failed(self, plugin: Plugin) -> None:
        """Withdraw the entries of a quarantined plugin.

        Raises:
            PluginError: The server is strict.
        """
        self.withdraw(plugin)
        if self._plugins.strict:
            raise plugin.problem

    def forget(self, plugin: Plugin) -> None:
        """Withdraw a plugin's entries and its authorizers, because the operator has removed it."""
        self.withdraw(plugin)
        self._applied_tables.pop(plugin.name, None)
        self._catalog.authorizers.withdraw(plugin)
