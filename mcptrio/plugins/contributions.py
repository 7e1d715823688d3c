"""What plugins bring to a server: collected when one is taken in, taken back when it leaves.

Owned by the server.
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
from mcptrio.plugins.manager import PluginManager
from mcptrio.plugins.plugin import Plugin
from mcptrio.plugins.policy import ToolPolicy
from mcptrio.plugins.redactions import PluginRedactions
from mcptrio.plugins.settings import PluginTables
from mcptrio.plugins.setup import PluginSetup
from mcptrio.schema.validation_messages import suggest

__all__ = ["Contributions"]


class Contributions:
    """The entries of all plugins.

    Args:
        tables: the operator's settings.
        policy: the tools of all plugins to offer.
    """

    def __init__(self, catalog: Catalog, plugins: PluginManager, tables: PluginTables, policy: ToolPolicy) -> None:
        self._catalog = catalog
        self._plugins = plugins
        self._tables = tables
        self._policy = policy
        self._taken: dict[str, Mapping[str, Any]] = {}
        """By plugin, the settings it was taken in with."""
        self._redactions = PluginRedactions(catalog.logging.redactions)

    def check_tables(self) -> None:
        """Refuse settings that nothing reads: for a server that is not given others later.

        Raises:
            TypeError: there are no tables.
            ConfigError: a table has the name of no plugin, whatever the state of those that are known.
        """
        known = sorted(self._plugins.plugins)
        for name in expect(self._tables.tables, Mapping, "config"):
            if name not in known:
                raise ConfigError(f"config: there is no plugin {name!r}{suggest(name, known)}")

    def set_tables(self, tables: PluginTables) -> set[str]:
        """The operator has set something else, for plugins that are offered from now on.

        Returns:
            Those that were taken in with other settings than these: also where a file that they name has changed.
        """
        self._tables = tables
        changed = set()
        for name, before in self._taken.items():
            # An unreadable table is reported when the plugin is loaded.
            now = run_guarded_sync(tables.resolved_table, name)
            if isinstance(now, Failure) or now.value != before:
                changed.add(name)
        return changed

    def offer_all(self) -> None:
        """Take in every plugin there is.

        Raises:
            PluginError: one failed, and the server is strict.
        """
        for plugin in self._plugins.active():
            self.offer(plugin)
        if any(plugin.state in ("quarantined", "disabled") for plugin in self._plugins.plugins.values()):
            # It may be enabled or tried again, and its lists are unknown. Clients only ask for a list that the server
            # has declared when they connected.
            self._catalog.announce_lists()

    def offer(self, plugin: Plugin, *, kept_back: bool = False) -> bool:
        """Read a plugin's settings, and let it register what it has.

        Args:
            kept_back: until :meth:`publish`, clients see nothing of it.

        Returns:
            Whether it could.

        Raises:
            PluginError: it failed, and the server is strict.
        """
        plugin.is_kept_back = kept_back
        try:
            self._plugins._configure(plugin, self._tables)
            self._taken[plugin.name] = self._tables.resolved_table(plugin.name)
            setup = plugin.registrar = PluginSetup(
                self._catalog, plugin, policy=self._policy, redactions=self._redactions, adopt=self._plugins.adopt
            )
            plugin.has_left = False
            said = plugin.policy
            if (said.timeout, said.concurrency, said.rate) != (None, None, None):
                plugin.limits = CallLimits(
                    plugin.name, timeout=said.timeout, concurrency=said.concurrency, rate=said.rate
                )
            self._plugins.set_up(plugin, setup)
            if not kept_back:
                self._catalog.authorizers.trust(plugin)
            return True
        except PluginError:
            self.withdraw(plugin)
            if self._plugins.strict:
                raise
            return False

    def reconfigure(self, plugin: Plugin) -> bool:
        """Hand the settings there are now to a plugin that runs. Returns whether it took them.

        Raises:
            PluginError: it failed; the plugin is quarantined.
        """
        if not self._plugins._reconfigure(plugin, self._tables):
            return False
        self._taken[plugin.name] = self._tables.resolved_table(plugin.name)
        return True

    def publish(self, plugin: Plugin) -> None:
        """Show the plugin's hidden entries, all at once, and notify clients."""
        if plugin.is_kept_back:
            self._catalog.publish(plugin)

    def withdraw(self, plugin: Plugin, *, reserve: bool = False) -> None:
        """Withdraw the plugin's entries and notify clients. Its redactions stay, since the texts are still secret.

        Args:
            reserve: keep its names for it.
        """
        self._catalog.withdraw(plugin, reserve=reserve)
        while plugin.undo:
            plugin.undo.pop()()
        if plugin.state == "quarantined":
            self._catalog.authorizers.distrust(plugin)
        plugin.limits = None
        plugin.offers.clear()
        plugin.withheld.clear()
        plugin.renamed.clear()
        plugin.is_kept_back = False

    @contextmanager
    def suspended(self, plugin: Plugin) -> Iterator[None]:
        """Withdraw the plugin's offers while it is started again inside. Until the end of that, the server refuses
        everything that its authorizers judge, and keeps its names for it.
        """
        self.withdraw(plugin, reserve=True)
        self._catalog.authorizers.distrust(plugin)
        try:
            yield
        finally:
            self._catalog.release(plugin)

    def withdraw_failed(self, plugin: Plugin, problem: PluginError | None = None) -> None:
        """Withdraw what a plugin in quarantine offers.

        Raises:
            PluginError: the server is strict.
        """
        self.withdraw(plugin)
        if self._plugins.strict:
            if problem is None:
                problem = PluginError(plugin.fault or "", plugin=plugin.name, distribution=plugin.distribution)
                problem.__cause__ = plugin.error
            raise problem

    def forget(self, plugin: Plugin) -> None:
        """Take back what a plugin offered, its judgement too: the operator wants it gone."""
        self.withdraw(plugin)
        self._taken.pop(plugin.name, None)
        self._catalog.authorizers.withdraw(plugin)
