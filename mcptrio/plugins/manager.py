"""The plugin manager of a server: finds, imports and registers plugins.

Entry points of the group ``mcptrio``, files, modules and objects become a :class:`Plugin`. An error of a plugin, such
as an import error, an invalid signature or a name that is taken, is stored in that plugin and does not affect others.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from inspect import isclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import pluggy

from mcptrio.abc.status import PluginState
from mcptrio.capabilities.registry import Duplicate
from mcptrio.errors import PluginError
from mcptrio.ground.expected import kind_of
from mcptrio.ground.guarded import Done, Failure, run_guarded_sync
from mcptrio.ground.quoting import quote_name
from mcptrio.ground.tracebacks import has_own_frames, headline, single
from mcptrio.plugins.checking import check_kind, check_plugin, find_plugin, warnings_about
from mcptrio.plugins.discovery import check_offered, distribution_of, import_file, installed_entry_points, load_object
from mcptrio.plugins.hooks import HOOKS, Hooks
from mcptrio.plugins.plugin import Plugin
from mcptrio.plugins.policy import PluginPolicy
from mcptrio.plugins.settings import PluginTables
from mcptrio.plugins.settings_class import settings_class, takes_settings
from mcptrio.plugins.setup import PluginSetup

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["BUILT_IN", "PluginManager", "ReplacePlugin"]

_log = logging.getLogger("mcptrio.plugins")

BUILT_IN = ("stdio", "http", "stream")
"""The transports of mcptrio itself."""

ReplacePlugin: TypeAlias = Callable[[str, Path | None], Callable[[], Any] | None]
"""A function of a plugin's name and file that returns a function to make its replacement, or ``None`` to import the
plugin itself."""

SLOW_IMPORT = 1.0
"""Seconds after which the import of a plugin causes a warning, because every start waits for it."""


class PluginManager:
    """Finds, imports and registers plugins, and keeps their state.

    Args:
        strict: Whether a failing plugin is an error for the server.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.find_replacement: ReplacePlugin | None = None
        """Decides which plugins are isolated. Called each time a plugin is loaded, so that a restarted plugin gets a
        new answer."""
        self.plugins: dict[str, Plugin] = {}

    @classmethod
    def of(cls, plugins: Iterable[object], *, strict: bool) -> PluginManager:
        """Return a manager with these modules and objects.

        Raises:
            TypeError: ``plugins`` is not a list, or an item cannot be a plugin.
            PluginError: A plugin failed, and ``strict`` is set.
        """
        if isinstance(plugins, str) or not isinstance(plugins, Iterable):
            raise TypeError(f"plugins: expected a list of modules and objects, got {kind_of(plugins)}")
        manager = cls(strict=strict)
        for plugin in plugins:
            manager.register(plugin)
        return manager

    # Finding

    def load_installed(self, only: Sequence[str] | None = None, without: Iterable[str] = ()) -> None:
        """Import the installed plugins, in the order of their names.

        If several distributions offer the same name, the first one by name of distribution gets it.

        Args:
            only: Names to import; ``None`` imports all.
            without: Names not to import.

        Raises:
            ConfigError: A name in ``only`` or ``without`` is not installed.
            PluginError: Any failure, if strict.
        """
        excluded = frozenset(without)
        points_by_name = installed_entry_points()
        check_offered((*(only or ()), *excluded), points_by_name)
        for name, points in points_by_name.items():
            # Unwanted plugins are not imported. They are listed as disabled, so that they can be enabled later.
            unwanted = name in excluded or (only is not None and name not in only)
            for point in points:
                plugin = _installed_plugin(name, point)
                if unwanted:
                    plugin.disable()
                    self._add_to_list(plugin)
                elif self._add_plugin(plugin):
                    self._import(plugin)

    def load_file(self, path: Path) -> Plugin:
        """Import one Python file as a plugin, with the name of the file."""
        plugin = Plugin(name=path.stem, load=partial(import_file, path), file=path)
        if self._add_plugin(plugin):
            self._import(plugin)
        return plugin

    def register(self, object: object, name: str | None = None) -> Plugin:
        """Register a module or an object as a plugin.

        Raises:
            TypeError: The object is a function or a string, which cannot be a plugin.
            PluginError: Any failure, if strict.
        """
        check_kind(object)
        plugin = Plugin(name=name or getattr(object, "__name__", None) or type(object).__name__, object=object)
        if self._add_plugin(plugin):
            self._adopt(plugin)
        return plugin

    def find_new(self) -> None:
        """Add plugins that were installed in the meantime, as disabled."""
        # Python caches which distributions are installed.
        importlib.invalidate_caches()
        for name, points in installed_entry_points().items():
            if name not in self.plugins:
                point = points[0]
                self._add_to_list(_installed_plugin(name, point, "disabled"))

    def renew(self, plugin: Plugin) -> bool:
        """Load a plugin again: without a new import if it was imported and runs in the same process as before.

        Returns:
            Whether the plugin is loaded.

        Raises:
            PluginError: The plugin failed, and the manager is strict.
        """
        plugin.renew()
        # The name stays taken until the process ends.
        if plugin.refused is not None:
            self._raise_if_strict(self.quarantine(plugin, plugin.refused))
        elif plugin.object is None or self._isolate(plugin):
            self._import(plugin)
        else:
            self._adopt(plugin)
        return plugin.state == "loaded"

    # Using

    def active(self) -> list[Plugin]:
        """Return the plugins that are loaded or running."""
        return [plugin for plugin in self.plugins.values() if plugin.state in ("loaded", "running")]

    def owner_of_file(self, path: str) -> str | None:
        """Return the plugin of a source file, for messages; ``None`` if there is none."""
        # A copy of the list, because the watchdog calls this in another thread, and a plugin may be added meanwhile.
        for plugin in list(self.plugins.values()):
            source = plugin.source if not plugin.isolated else None
            if source is not None and (path == source or path.startswith(f"{source}{os.sep}")):
                return f"plugin {plugin.label}"
        return None

    def call(self, plugin: Plugin, hook: str, **arguments: Any) -> list[Any]:
        """Call a hook of one plugin and of the objects that the plugin has added.

        Returns:
            The results that are not ``None``.

        Raises:
            PluginError: The hook failed; the plugin is quarantined.
        """
        results: list[Any] = []
        for outcome in self._outcomes(plugin, hook, arguments):
            if isinstance(outcome, Failure):
                raise self.quarantine(plugin, f"{hook} failed: {_describe_error(outcome.error, plugin)}", outcome.error)
            if outcome.value is not None:
                results.append(outcome.value)
        return results

    def _configure(self, plugin: Plugin, tables: PluginTables) -> None:
        """Read the operator's settings for a plugin: those for the server, and those for the plugin's class.

        Raises:
            PluginError: The settings cannot be read or are invalid; the plugin is quarantined.
        """

        def read() -> PluginPolicy:
            policy = tables.policy(plugin.name)
            plugin.policy = self._local_policy(plugin, policy)
            plugin.config_class = settings_class(plugin.object)
            plugin.config = tables.of(plugin.name, plugin.config_class)
            return policy

        outcome = run_guarded_sync(read)
        if isinstance(outcome, Failure):
            raise self.quarantine(plugin, _text(outcome.error), outcome.error)
        # The settings of an isolated plugin are read in its own process.
        if not plugin.isolated:
            for text in tables.unknown_variables(
                plugin.name, plugin.config_class, lambda: {*self.plugins, *installed_entry_points()}
            ):
                plugin.warnings.append(text)
                _log.warning("%s: %s", plugin.label, text)
        # The process of an isolated plugin adds the prefix itself.
        plugin.prefers_no_prefix = plugin.isolated and outcome.value.prefix is None
        # Only installed plugins get a prefix: a user who names a file or registers an object knows the other tools.
        default = plugin.name if plugin.distribution is not None else ""
        plugin.prefix = plugin.policy.prefix if plugin.policy.prefix is not None else default

    def set_up(self, plugin: Plugin, setup: PluginSetup) -> None:
        """Let a plugin add its entries: those of its hook ``setup``, then the marked ones.

        Raises:
            PluginError: The plugin failed, and is quarantined.
        """
        hooks = pluggy.PluginManager("mcptrio")
        hooks.add_hookspecs(Hooks)
        # One manager of pluggy for each plugin, so that a hook can be called for one plugin alone.
        plugin.begin(hooks)

        def add_entries() -> None:
            part: Any = plugin.object
            if isclass(part):
                arguments: tuple[Any, ...] = (plugin.config,) if takes_settings(part) else ()
                part = part(*arguments)
            setup.add(part)

        outcome = run_guarded_sync(add_entries)
        if isinstance(outcome, Failure):
            raise self.quarantine(plugin, f"setup failed: {_describe_error(outcome.error, plugin)}", outcome.error)

    def adopt(self, plugin: Plugin, part: object, setup: PluginSetup) -> None:
        """Add the hooks of an object to a plugin, and call the object's ``setup``.

        Raises:
            ValueError: The object is already registered.
        """
        for holder in self.plugins.values():
            if holder.hooks is not None and holder.hooks.is_registered(part):
                raise ValueError(f"{part!r} is already registered by {holder.name}")
        check_plugin(part)
        assert plugin.hooks is not None
        plugin.hooks.register(part)
        arguments = {"server": setup, "config": plugin.config}
        for implementation in plugin.hooks.hook.setup.get_hookimpls():
            if implementation.plugin is part:
                # Called directly, because pluggy would call the other objects of the plugin again.
                implementation.function(*(arguments[name] for name in implementation.argnames))

    def _reconfigure(self, plugin: Plugin, tables: PluginTables) -> bool:
        """Pass new settings to a running plugin.

        Returns:
            Whether the plugin accepted them. ``False`` if it has no callback for new settings, or one declined; if the
            settings are invalid for its class; or if one of the server's own settings for the plugin has changed. The
            plugin must then be restarted.

        Raises:
            PluginError: A callback failed; the plugin is quarantined.
        """
        if not plugin.settings_callbacks:
            return False
        policy = run_guarded_sync(tables.policy, plugin.name)
        if isinstance(policy, Failure) or self._local_policy(plugin, policy.value) != plugin.policy:
            return False
        config = run_guarded_sync(tables.of, plugin.name, plugin.config_class)
        if isinstance(config, Failure):
            return False
        accepted = run_guarded_sync(lambda: all(callback(config.value) for callback in plugin.settings_callbacks))
        if isinstance(accepted, Failure):
            raise self.quarantine(plugin, f"it failed to take new settings: {_text(accepted.error)}", accepted.error)
        if not accepted.value:
            return False
        plugin.config = config.value
        return True

    def transports(
        self, failed: Callable[[Plugin, str, BaseException], None]
    ) -> dict[str, Callable[..., Awaitable[None]]]:
        """Return the transports of active plugins, by name.

        Args:
            failed: A function called with each plugin whose hook failed, and the reason; its transports are ignored.
        """
        offered: dict[str, tuple[str, Callable[..., Awaitable[None]]]] = {}
        for plugin in self.active():
            transports: dict[str, Callable[..., Awaitable[None]]] = {}
            for outcome in self._outcomes(plugin, "transports", {}):
                if not isinstance(outcome, Failure):
                    outcome = run_guarded_sync(_take_transports, plugin, offered, transports, outcome.value)
                if isinstance(outcome, Failure):
                    failed(plugin, f"transports failed: {_text(outcome.error)}", outcome.error)
                    break
            else:
                offered.update({name: (plugin.label, serve) for name, serve in transports.items()})
                if transports:
                    plugin.offers["transports"] = list(transports)
        return {name: serve for name, (_, serve) in offered.items()}

    def quarantine(self, plugin: Plugin, failure: str, error: BaseException | None = None) -> PluginError:
        """Quarantine a plugin, log the reason, and return the error for a strict caller to raise."""
        plugin.quarantine(failure, error)
        if not self.strict:
            # Only a traceback with frames of the plugin's author adds something to the message.
            logged = single(error) if error is not None and has_own_frames(error) else None
            _log.error("%s failed, and is left out: %s", plugin.label, failure, exc_info=logged)
        return plugin.problem

    def hooks_of(self, plugin: Plugin) -> list[str]:
        """Return the hooks that a plugin implements."""
        return [hook for hook in HOOKS if _implementations(plugin, hook)]

    # Private

    def _outcomes(self, plugin: Plugin, hook: str, arguments: Mapping[str, Any]) -> Iterator[Done[Any] | Failure]:
        """Call the implementations of one hook of one plugin, each when the caller requests its result."""
        available = {"config": plugin.config, **arguments}
        for implementation in _implementations(plugin, hook):
            passed = [available[name] for name in implementation.argnames]
            yield run_guarded_sync(implementation.function, *passed)

    @staticmethod
    def _local_policy(plugin: Plugin, policy: PluginPolicy) -> PluginPolicy:
        """Return the part of a policy that this process applies; the process of an isolated plugin applies the rest."""
        # The plugin's process knows the tools' own names and counts calls. Only this process can detect slow calls.
        return PluginPolicy(timeout=policy.timeout, prefix=policy.prefix or "") if plugin.isolated else policy

    def _isolate(self, plugin: Plugin) -> bool:
        """Determine whether a plugin is isolated, and return whether that has changed."""
        before = plugin.isolated
        find = self.find_replacement if plugin.load is not None else None
        plugin.replacement = find(plugin.name, plugin.file) if find is not None else None
        return plugin.isolated is not before

    def _add_to_list(self, plugin: Plugin) -> None:
        """Add a plugin to the list. If its name is taken, its displayed name is ``notes #2``."""
        holder = self.plugins.get(plugin.name)
        if holder is not None:
            plugin.refused = f"the name of {plugin.label} is already taken by {holder.label}"
        name, number = plugin.name, 2
        while plugin.name in self.plugins:
            # Its name as an owner changes as well; otherwise its entries would belong to the other plugin.
            plugin.name = plugin.plugin = f"{name} #{number}"
            number += 1
        self.plugins[plugin.name] = plugin

    def _add_plugin(self, plugin: Plugin) -> bool:
        """Add a plugin to the list, in quarantine if its name is taken, and return whether the name was free."""
        holder = self.plugins.get(plugin.name)
        if holder is None or holder.state == "disabled":
            self.plugins[plugin.name] = plugin
            return True
        self._add_to_list(plugin)
        self._raise_if_strict(self.quarantine(plugin, plugin.refused or ""))
        return False

    def _import(self, plugin: Plugin) -> None:
        self._isolate(plugin)
        load = plugin.replacement or plugin.load
        assert load is not None
        started = perf_counter()
        outcome = run_guarded_sync(load)
        # An isolated plugin is imported in its own process.
        plugin.import_seconds = perf_counter() - started if not plugin.isolated else None
        if isinstance(outcome, Failure):
            self._raise_if_strict(self.quarantine(plugin, f"import failed: {headline(outcome.error)}", outcome.error))
            return
        if plugin.import_seconds is not None and plugin.import_seconds > SLOW_IMPORT:
            plugin.warnings.append(f"importing it took {plugin.import_seconds:.1f} s")
            _log.warning("%s: importing it took %.1f s", plugin.label, plugin.import_seconds)
        plugin.object = outcome.value
        self._adopt(plugin)

    def _adopt(self, plugin: Plugin) -> None:
        """Check a loaded plugin, and quarantine it if it is invalid."""

        def check() -> None:
            check_plugin(plugin.object)
            for other in self.plugins.values():
                if other is not plugin and other.object is plugin.object and not isclass(plugin.object):
                    raise ValueError(f"{plugin.object!r} is already registered by {other.name}")
            plugin.object = find_plugin(plugin.object)
            for warning in warnings_about(plugin.object):
                plugin.warnings.append(warning)
                _log.warning("%s: %s", plugin.label, warning)

        outcome = run_guarded_sync(check)
        if isinstance(outcome, Failure):
            self._raise_if_strict(self.quarantine(plugin, str(outcome.error), outcome.error))

    def _raise_if_strict(self, error: PluginError) -> None:
        if self.strict:
            raise error


def _installed_plugin(name: str, point: EntryPoint, state: PluginState = "loaded") -> Plugin:
    distribution, version = distribution_of(point)
    return Plugin(name=name, distribution=distribution, version=version, load=partial(load_object, point), state=state)


def _implementations(plugin: Plugin, hook: str) -> list[pluggy.HookImpl]:
    """Return the implementations of a hook, in the order in which their objects were added."""
    return getattr(plugin.hooks.hook, hook).get_hookimpls() if plugin.hooks is not None else []


def _text(error: BaseException) -> str:
    """Return the message of an error, or the name of its class if it has none."""
    return str(error) or type(error).__name__


def _describe_error(error: BaseException, plugin: Plugin) -> str:
    if isinstance(error, Duplicate) and isinstance(error.owner, Plugin) and error.owner is not plugin:
        # The error itself does not know the distributions of the plugins.
        return f"{error.kind} {quote_name(error.name)} of {plugin.label} is already offered by {error.owner.label}"
    return _text(error)


def _take_transports(
    plugin: Plugin,
    offered: Mapping[str, tuple[str, object]],
    plugin_transports: dict[str, Callable[..., Awaitable[None]]],
    result: object,
) -> None:
    """Check the transports in the result of a hook, and add them to ``plugin_transports``."""
    if not isinstance(result, Mapping):
        raise TypeError(f"expected a dict of names and async functions, got {type(result).__name__}")
    transports: Mapping[Any, Any] = result
    for name, serve in transports.items():
        if not isinstance(name, str) or not name or name in BUILT_IN:
            raise ValueError(f"expected a name for a transport, other than {', '.join(BUILT_IN)}, got {name!r}")
        if name in plugin_transports or name in offered:
            other = offered[name][0] if name in offered else plugin.label
            raise ValueError(f"transport {quote_name(name)} of {plugin.label} is already offered by {other}")
        offer: Callable[..., Awaitable[None]] = serve
        if not callable(serve):
            raise TypeError(f"transport {quote_name(name)}: expected an async function, got {type(serve).__name__}")
        plugin_transports[name] = offer
