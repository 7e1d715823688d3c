"""Plugins: found, imported, registered, each at its own risk.

Used by the server. Entry points of the group ``mcptrio``, files, modules and objects all become the same
:class:`Plugin`.
The one rule: whatever one plugin does wrong (an import, a signature, a name that is taken) is its own fault and is
written on it; the others never notice.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import pluggy

from mcptrio import hookspecs
from mcptrio.capabilities.registry import Duplicate
from mcptrio.errors import PluginError
from mcptrio.hookspecs import HOOKS
from mcptrio.plugins.finding import check_offered, distribution_of, import_file, offered
from mcptrio.plugins.marked import Marked, check_kind, check_marked
from mcptrio.plugins.plugin import Plugin, State
from mcptrio.plugins.policy import PluginPolicy
from mcptrio.plugins.settings import PluginTables
from mcptrio.runtime.dispatch import Done, Failure, contain_sync
from mcptrio.tracebacks import has_own_frames, headline, single

__all__ = ["BUILT_IN", "Instead", "PluginManager"]

_log = logging.getLogger("mcptrio.plugins")

BUILT_IN = ("stdio", "http", "stream")
"""The transports there are without any plugin."""

Instead: TypeAlias = Callable[[str, Path | None], Callable[[], Any] | None]

SLOW_IMPORT = 1.0
"""Seconds after which the import of a plugin is worth a warning: everybody waits for it at every start."""

_TRANSPORTS = "register_transports"


class PluginManager:
    """
    Args:
        strict: a plugin that fails is an error for all.
        instead: what is taken in the place of a plugin, by its name and, of a file, its path, so that it is not
            imported into this process; ``None`` for one that is.
    """

    def __init__(self, *, strict: bool = False, instead: Instead | None = None) -> None:
        self._pluggy = pluggy.PluginManager("mcptrio")
        self._pluggy.add_hookspecs(hookspecs)
        self._strict = strict
        self.instead = instead
        """Asked whenever a plugin is taken in, so that another answer holds for what begins anew."""
        self.plugins: dict[str, Plugin] = {}

    @classmethod
    def of(cls, plugins: Iterable[object], *, strict: bool) -> PluginManager:
        """Return a manager with these modules and objects.

        Raises:
            TypeError: no list, or something in it that cannot be a plugin.
            PluginError: any fault, if strict.
        """
        if isinstance(plugins, str) or not isinstance(plugins, Iterable):
            raise TypeError(f"plugins: expected a list of modules and objects, got {type(plugins).__name__}")
        manager = cls(strict=strict)
        for plugin in plugins:
            manager.register(plugin)
        return manager

    # Finding

    def load_installed(self, only: Sequence[str] | None = None, without: Iterable[str] = ()) -> None:
        """Import the plugins that are installed, in the order of their names.

        Where distributions offer the same name, it is that of the first by name of distribution.

        Args:
            only: names; others are not even imported. ``None``: all.
            without: names that are not imported.

        Raises:
            ConfigError: a name in ``only`` or ``without`` is not installed.
            PluginError: any fault, if strict.
        """
        excluded = frozenset(without)
        found = offered()
        check_offered((*(only or ()), *excluded), found)
        for name, points in found.items():
            unwanted = name in excluded or (only is not None and name not in only)
            for point in points:
                plugin = Plugin(name, *distribution_of(point), load=point.load)
                if unwanted:
                    plugin.state = State.DISABLED
                    self._enlist(plugin)
                elif self._is_new(plugin):
                    self._import(plugin)

    def load_file(self, path: Path) -> Plugin:
        """Import one Python file as a plugin, named after the file."""
        plugin = Plugin(path.stem, load=partial(import_file, path), file=path)
        if self._is_new(plugin):
            self._import(plugin)
        return plugin

    def register(self, object: object, name: str | None = None) -> Plugin:
        """Take a module or an object as a plugin.

        Raises:
            TypeError: a class, a function or a string, which cannot be a plugin.
            PluginError: any fault, if strict.
        """
        check_kind(object)
        plugin = Plugin(name or getattr(object, "__name__", None) or type(object).__name__, object=object)
        if self._is_new(plugin):
            self._adopt(plugin)
        return plugin

    def look_again(self) -> None:
        """Enlist, as disabled, what has been installed meanwhile."""
        importlib.invalidate_caches()
        for name, points in offered().items():
            if name not in self.plugins:
                point = points[0]
                self._enlist(Plugin(name, *distribution_of(point), load=point.load, state=State.DISABLED))

    def renew(self, plugin: Plugin) -> bool:
        """Begin with a plugin anew: as it is, if it could be imported and is to run where it did, else from its import.

        Returns:
            Whether it is there.

        Raises:
            PluginError: any fault, if strict.
        """
        for name, _ in self._pluggy.list_name_plugin():
            if name.partition("\0")[0] == plugin.name:
                self._pluggy.unregister(name=name)
        plugin.renew()
        if plugin.refused is not None:
            self._tolerate(self.fault(plugin, plugin.refused))
        elif plugin.object is None or self._isolate(plugin):
            self._import(plugin)
        else:
            self._adopt(plugin)
        return plugin.state is State.LOADED

    # Using

    def active(self) -> list[Plugin]:
        return [plugin for plugin in self.plugins.values() if plugin.state in (State.LOADED, State.RUNNING)]

    def owner_of_file(self, path: str) -> str | None:
        """The plugin that a source file belongs to, in words."""
        # Asked by another thread, while this one may be taking in a plugin.
        for plugin in list(self.plugins.values()):
            source = plugin.source if not plugin.isolated else None
            if source is not None and (path == source or path.startswith(f"{source}{os.sep}")):
                return f"plugin {plugin.label}"
        return None

    def call(self, plugin: Plugin, hook: str, **arguments: Any) -> list[Any]:
        """Call one hook of one plugin: its own implementations, and those its marks became.

        Raises:
            PluginError: it failed; the plugin is quarantined.
        """
        results: list[Any] = []
        for outcome in self._outcomes(plugin, hook, arguments):
            if isinstance(outcome, Failure):
                raise self.fault(plugin, f"{hook} failed: {self._told(outcome.error, plugin)}", outcome.error)
            if outcome.value is not None:
                results.append(outcome.value)
        return results

    def configure(self, plugin: Plugin, tables: PluginTables) -> None:
        """Read what the operator has set for a plugin: for the server, and as the class it names wants it.

        Raises:
            PluginError: it cannot be read, or does not fit; the plugin is quarantined.
        """
        read = contain_sync(partial(tables.policy, plugin.name))
        if isinstance(read, Failure):
            raise self.fault(plugin, _text(read.error), read.error)
        plugin.policy = self._held_here(plugin, read.value)
        classes = self.call(plugin, "configuration")
        outcome = contain_sync(partial(tables.of, plugin.name, classes[0] if classes else None))
        if isinstance(outcome, Failure):
            raise self.fault(plugin, _text(outcome.error), outcome.error)
        plugin.config = outcome.value
        own = self.call(plugin, "prefix")
        plugin.prefers_no_prefix = (own == [""] or plugin.isolated) and read.value.prefix is None
        # Whoever names a file, or registers an object, knows what else there is.
        by_itself = plugin.name if plugin.distribution is not None else ""
        plugin.prefix = plugin.policy.prefix if plugin.policy.prefix is not None else own[0] if own else by_itself

    def reconfigure(self, plugin: Plugin, tables: PluginTables) -> bool:
        """Hand new settings to a plugin that runs. Returns whether it took them.

        ``False`` if the plugin has no hook for that or declines, if the settings do not fit its class, or if one of the
        server's own settings of the plugin has changed. The plugin then has to start again.

        Raises:
            PluginError: its hook failed; the plugin is quarantined.
        """
        if "reconfigure" not in self.hooks_of(plugin):
            return False
        policy = contain_sync(partial(tables.policy, plugin.name))
        if isinstance(policy, Failure) or self._held_here(plugin, policy.value) != plugin.policy:
            return False
        classes = self.call(plugin, "configuration")
        config = contain_sync(partial(tables.of, plugin.name, classes[0] if classes else None))
        if isinstance(config, Failure) or not all(self.call(plugin, "reconfigure", config=config.value)):
            return False
        plugin.config = config.value
        return True

    def transports(
        self, failed: Callable[[Plugin, str, BaseException], None]
    ) -> dict[str, Callable[..., Awaitable[None]]]:
        """The transports that active plugins offer, by name.

        Args:
            failed: told of each plugin whose hook failed, and why; what it registered before does not count.
        """
        offered: dict[str, tuple[str, Callable[..., Awaitable[None]]]] = {}
        for plugin in self.active():
            own: dict[str, Callable[..., Awaitable[None]]] = {}
            arguments = {"register": partial(self._transport, plugin, offered, own)}
            failures = [each for each in self._outcomes(plugin, _TRANSPORTS, arguments) if isinstance(each, Failure)]
            if failures:
                error = failures[0].error
                failed(plugin, f"{_TRANSPORTS} failed: {_text(error)}", error)
                continue
            offered.update({name: (plugin.label, serve) for name, serve in own.items()})
            if own:
                plugin.offers["transports"] = list(own)
        return {name: serve for name, (_, serve) in offered.items()}

    def gather(self, plugin: Plugin, hook: str, **arguments: Any) -> list[Any]:
        """Call a hook that gives several things: all that its implementations give.

        Raises:
            PluginError: it failed, or gave something else; the plugin is quarantined.
        """
        results = self.call(plugin, hook, **arguments)
        outcome = contain_sync(lambda: [item for result in results for item in result])
        if isinstance(outcome, Failure):
            raise self.fault(plugin, f"{hook} failed: {_text(outcome.error)}", outcome.error)
        return outcome.value

    def adopt_object(self, plugin: Plugin, object: object) -> None:
        """Take the marks and hooks of another object as this plugin's own."""
        holder = self._pluggy.get_name(object)
        if holder is not None:
            raise ValueError(f"{object!r} is already registered by {holder.partition(chr(0))[0]}")
        _check_hooks(object)
        for part in (object, Marked(object)):
            self._pluggy.register(part, f"{plugin.name}\0{id(part)}")

    def fault(self, plugin: Plugin, fault: str, error: BaseException | None = None) -> PluginError:
        """Quarantine a plugin, and log why. Returns the error, to be raised instead where being strict."""
        plugin.quarantine(fault, error)
        if not self._strict:
            told = single(error) if error is not None and has_own_frames(error) else None
            _log.error("quarantined %s: %s", plugin.label, fault, exc_info=told)
        problem = PluginError(fault, plugin=plugin.name, distribution=plugin.distribution)
        problem.__cause__ = error
        return problem

    def hooks_of(self, plugin: Plugin) -> list[str]:
        """The hooks that a plugin implements itself; what its marks became is not among them."""
        return [
            hook
            for hook in HOOKS
            if any(
                each.plugin_name.partition("\0")[0] == plugin.name and not isinstance(each.plugin, Marked)
                for each in getattr(self._pluggy.hook, hook).get_hookimpls()
            )
        ]

    @property
    def strict(self) -> bool:
        return self._strict

    # Private

    def _outcomes(self, plugin: Plugin, hook: str, arguments: Mapping[str, Any]) -> Iterator[Done[Any] | Failure]:
        """What the implementations of one hook of one plugin give, each called when it is asked for."""
        given = {"config": plugin.config, **arguments}
        for implementation in reversed(getattr(self._pluggy.hook, hook).get_hookimpls()):
            if implementation.plugin_name.partition("\0")[0] == plugin.name:
                wanted = [given[name] for name in implementation.argnames]
                yield contain_sync(partial(implementation.function, *wanted))

    @staticmethod
    def _transport(
        plugin: Plugin,
        offered: Mapping[str, tuple[str, object]],
        own: dict[str, Callable[..., Awaitable[None]]],
        name: str,
        serve: Callable[..., Awaitable[None]],
    ) -> None:
        if not isinstance(name, str) or not name or name in BUILT_IN:
            raise ValueError(f"expected a name for a transport, other than {', '.join(BUILT_IN)}, got {name!r}")
        if name in own or name in offered:
            other = offered[name][0] if name in offered else plugin.label
            raise ValueError(f"transport {name!r} of {plugin.label} is already offered by {other}")
        if not callable(serve):
            raise TypeError(f"transport {name!r}: expected an async function, got {type(serve).__name__}")
        own[name] = serve

    @staticmethod
    def _held_here(plugin: Plugin, policy: PluginPolicy) -> PluginPolicy:
        """What of a policy is kept in this process: of one that is isolated, its own process keeps most.

        There the tools' own names are known, they get their prefix, and calls are counted; but that the other process
        takes too long can only be told here.
        """
        return PluginPolicy(timeout=policy.timeout, prefix=policy.prefix or "") if plugin.isolated else policy

    def _isolate(self, plugin: Plugin) -> bool:
        """Find out whether a plugin runs in a process of its own. Returns whether that is not as it was."""
        before = plugin.isolated
        can_be = self.instead if plugin.load is not None else None
        plugin.instead = can_be(plugin.name, plugin.file) if can_be is not None else None
        return plugin.isolated is not before

    def _enlist(self, plugin: Plugin) -> None:
        """Put it on the list; where its name is taken, under one of its own, for being shown: ``notes #2``."""
        taken = self.plugins.get(plugin.name)
        if taken is not None:
            plugin.refused = f"the name of {plugin.label} is already taken by {taken.label}"
        name, number = plugin.name, 2
        while plugin.name in self.plugins:
            plugin.name = f"{name} #{number}"
            number += 1
        self.plugins[plugin.name] = plugin

    def _is_new(self, plugin: Plugin) -> bool:
        taken = self.plugins.get(plugin.name)
        if taken is None or taken.state is State.DISABLED:
            self.plugins[plugin.name] = plugin
            return True
        self._enlist(plugin)
        self._tolerate(self.fault(plugin, plugin.refused or ""))
        return False

    def _import(self, plugin: Plugin) -> None:
        self._isolate(plugin)
        load = plugin.instead or plugin.load
        assert load is not None
        started = perf_counter()
        outcome = contain_sync(load)
        plugin.import_seconds = perf_counter() - started if not plugin.isolated else None
        if isinstance(outcome, Failure):
            self._tolerate(self.fault(plugin, f"import failed: {headline(outcome.error)}", outcome.error))
            return
        if plugin.import_seconds is not None and plugin.import_seconds > SLOW_IMPORT:
            plugin.warnings.append(f"importing it took {plugin.import_seconds:.1f} s")
            _log.warning("%s: importing it took %.1f s", plugin.label, plugin.import_seconds)
        plugin.object = outcome.value
        self._adopt(plugin)

    def _adopt(self, plugin: Plugin) -> None:
        def adopt() -> None:
            check_kind(plugin.object)
            self.adopt_object(plugin, plugin.object)
            if (unserved := check_marked(plugin.object, self.hooks_of(plugin))) is not None:
                plugin.warnings.append(unserved)
                _log.warning("%s: %s", plugin.label, unserved)

        outcome = contain_sync(adopt)
        if isinstance(outcome, Failure):
            self._tolerate(self.fault(plugin, str(outcome.error), outcome.error))

    def _tolerate(self, error: PluginError) -> None:
        if self._strict:
            raise error

    def _told(self, error: BaseException, plugin: Plugin) -> str:
        """What went wrong; of a name that is taken, who offers it, and by whom that was installed."""
        if isinstance(error, Duplicate) and error.owner in self.plugins:
            other = self.plugins[error.owner]
            return f"{error.kind} {error.name!r} of {plugin.label} is already offered by {other.label}"
        return _text(error)


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _check_hooks(object: object) -> None:
    """What pluggy would take in silence, and never or wrongly call.

    Raises:
        ValueError: a hook is misspelt.
        TypeError: it is no plain function.
    """
    for name in {*dir(type(object)), *getattr(object, "__dict__", ())}:
        value = getattr(type(object), name, None) or getattr(object, "__dict__", {}).get(name)
        options = getattr(value, "mcptrio_impl", None)
        if options is None:
            continue
        if name not in HOOKS:
            near = get_close_matches(name, HOOKS, 1)
            raise ValueError(f"there is no hook {name!r}" + (f"; did you mean {near[0]}?" if near else ""))
        if inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value):
            raise TypeError(f"hook {name!r}: expected a plain function, got an async one")
        if options["wrapper"] or options["hookwrapper"]:
            raise TypeError(f"hook {name!r}: expected a plain function, got a wrapper")
