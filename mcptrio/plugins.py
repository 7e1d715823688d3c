"""Plugins: found, imported, registered, each at its own risk.

Used by the server. Entry points of the group ``mcptrio``, files, modules and objects all become the same
:class:`Plugin`.
The one rule: whatever one plugin does wrong (an import, a signature, a name that is taken) is its own fault and is
written on it; the others never notice.
"""

from __future__ import annotations

import importlib.util
import inspect
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy
from attrs import define, field

from mcptrio import hookspecs
from mcptrio.capabilities.marks import (
    CompletionMark,
    Mark,
    MethodMark,
    PromptMark,
    ResourceMark,
    ToolMark,
    marks_of,
)
from mcptrio.capabilities.registry import Duplicate
from mcptrio.errors import ConfigError, PluginError
from mcptrio.hookspecs import HOOKS, hookimpl
from mcptrio.runtime.dispatch import Done, Failure, contain_sync

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["BUILT_IN", "GROUP", "Plugin", "PluginManager", "State"]

_log = logging.getLogger("mcptrio.plugins")

GROUP = "mcptrio"
"""The entry point group."""

BUILT_IN = ("stdio", "http", "stream")
"""The transports there are without any plugin."""

_TRANSPORTS = "register_transports"


class State(Enum):
    LOADED = "loaded"
    """Imported; its capabilities are offered."""
    RUNNING = "running"
    """Its lifespan is open."""
    QUARANTINED = "quarantined"
    """Something failed: see ``fault``. Its capabilities are withdrawn."""
    DISABLED = "disabled"
    """Found, and not wanted: never imported."""


@define(eq=False, slots=True)
class Plugin:
    """One plugin as the server knows it."""

    name: str
    distribution: str | None = None
    version: str | None = None
    object: Any = None
    state: State = State.LOADED
    fault: str | None = None
    error: BaseException | None = None
    offers: dict[str, list[str]] = field(factory=dict)
    """Kind (``tools``, ``resources``, …) to names; empty in quarantine."""

    @property
    def label(self) -> str:
        return f"{self.name} ({self.distribution} {self.version})" if self.distribution else self.name

    def quarantine(self, fault: str, error: BaseException | None = None) -> None:
        self.state = State.QUARANTINED
        self.fault = fault
        self.error = error
        self.offers.clear()

    def snapshot(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "version": self.version,
            "distribution": self.distribution,
            "state": self.state.value,
            "fault": self.fault,
            "offers": {kind: list(names) for kind, names in self.offers.items()},
        }


class _Marked:
    """The marks of an object as hook implementations, so that there is one mechanism."""

    def __init__(self, plugin: object) -> None:
        self._marks = list(marks_of(plugin))

    def _of(self, kind: type[Mark]) -> Iterator[tuple[Callable[..., Any], Any]]:
        return ((function, mark) for function, mark in self._marks if isinstance(mark, kind))

    @hookimpl
    def register_tools(self, register: Callable[..., str]) -> None:
        for function, mark in self._of(ToolMark):
            register(function, mark=mark)

    @hookimpl
    def register_resources(self, register: Callable[..., str]) -> None:
        for function, mark in self._of(ResourceMark):
            register(function, mark=mark)

    @hookimpl
    def register_prompts(self, register: Callable[..., str]) -> None:
        for function, mark in self._of(PromptMark):
            register(function, mark=mark)

    @hookimpl
    def register_completions(self, register: Callable[..., str]) -> None:
        for function, mark in self._of(CompletionMark):
            register(function, mark=mark)

    @hookimpl
    def register_methods(self, register: Callable[..., None]) -> None:
        for function, mark in self._of(MethodMark):
            register(function, mark=mark)


class PluginManager:
    """
    Args:
        strict: a plugin that fails is an error for all.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._pluggy = pluggy.PluginManager("mcptrio")
        self._pluggy.add_hookspecs(hookspecs)
        self._strict = strict
        self.plugins: dict[str, Plugin] = {}

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
        offered = _offered()
        _check_offered((*(only or ()), *excluded), offered)
        for name, points in offered.items():
            unwanted = name in excluded or (only is not None and name not in only)
            for point in points:
                plugin = Plugin(name, *_distribution(point))
                if unwanted:
                    plugin.state = State.DISABLED
                    self._enlist(plugin)
                elif self._is_new(plugin):
                    self._import(plugin, point.load)

    @staticmethod
    def check_installed(names: Iterable[str]) -> None:
        """
        Raises:
            ConfigError: one is not; says which one it may have been.
        """
        _check_offered(names, _offered())

    def load_file(self, path: Path) -> Plugin:
        """Import one Python file as a plugin, named after the file."""
        plugin = Plugin(path.stem, distribution=None, version=None)
        if self._is_new(plugin):
            self._import(plugin, partial(_import_file, path))
        return plugin

    def register(self, object: object, name: str | None = None) -> Plugin:
        """Take a module or an object as a plugin.

        Raises:
            PluginError: any fault, if strict.
        """
        plugin = Plugin(name or getattr(object, "__name__", None) or type(object).__name__, object=object)
        if self._is_new(plugin):
            self._adopt(plugin)
        return plugin

    # Using

    def active(self) -> list[Plugin]:
        return [plugin for plugin in self.plugins.values() if plugin.state in (State.LOADED, State.RUNNING)]

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

    def transports(
        self,
        configs: Mapping[str, Mapping[str, Any]],
        failed: Callable[[Plugin, str, BaseException], None],
    ) -> dict[str, Callable[..., Awaitable[None]]]:
        """The transports that active plugins offer, by name.

        Args:
            configs: tables by plugin name.
            failed: told of each plugin whose hook failed, and why; what it registered before does not count.
        """
        offered: dict[str, tuple[str, Callable[..., Awaitable[None]]]] = {}
        for plugin in self.active():
            own: dict[str, Callable[..., Awaitable[None]]] = {}
            arguments = {
                "register": partial(self._transport, plugin, offered, own),
                "config": configs.get(plugin.name, {}),
            }
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
        for part in (object, _Marked(object)):
            self._pluggy.register(part, f"{plugin.name}\0{id(part)}")

    def fault(self, plugin: Plugin, fault: str, error: BaseException | None = None) -> PluginError:
        """Quarantine a plugin, and log why in full. Returns the error, to be raised where being strict."""
        plugin.quarantine(fault, error)
        _log.error("quarantined %s: %s", plugin.label, fault, exc_info=error)
        problem = PluginError(fault, plugin=plugin.name, distribution=plugin.distribution)
        problem.__cause__ = error
        return problem

    @property
    def strict(self) -> bool:
        return self._strict

    # Private

    def _outcomes(self, plugin: Plugin, hook: str, arguments: Mapping[str, Any]) -> Iterator[Done[Any] | Failure]:
        """What the implementations of one hook of one plugin give, each called when it is asked for."""
        for implementation in reversed(getattr(self._pluggy.hook, hook).get_hookimpls()):
            if implementation.plugin_name.partition("\0")[0] == plugin.name:
                wanted = [arguments[name] for name in implementation.argnames]
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

    def _enlist(self, plugin: Plugin) -> None:
        """Put it on the list; where its name is taken, under one of its own: ``notes #2``."""
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
        fault = f"the name of {plugin.label} is already taken by {taken.label}"
        self._enlist(plugin)
        self._tolerate(self.fault(plugin, fault))
        return False

    def _import(self, plugin: Plugin, load: Callable[[], Any]) -> None:
        outcome = contain_sync(load)
        if isinstance(outcome, Failure):
            self._tolerate(
                self.fault(plugin, f"import failed: {type(outcome.error).__name__}: {outcome.error}", outcome.error)
            )
            return
        plugin.object = outcome.value
        self._adopt(plugin)

    def _adopt(self, plugin: Plugin) -> None:
        outcome = contain_sync(partial(self.adopt_object, plugin, plugin.object))
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


def _offered() -> dict[str, list[EntryPoint]]:
    """The entry points by name, in the order of the names; several of one name in the order of their distributions."""
    from importlib.metadata import entry_points

    offered: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, _distribution(point)[0] or "")):
        offered.setdefault(point.name, []).append(point)
    return offered


def _check_offered(names: Iterable[str], offered: Mapping[str, object]) -> None:
    for name in names:
        if name not in offered:
            near = get_close_matches(name, offered, 1)
            hint = f"did you mean {near[0]}?" if near else f"installed: {', '.join(offered) or 'none'}"
            raise ConfigError(f"no plugin {name!r} is installed; {hint}")


def _distribution(point: EntryPoint) -> tuple[str | None, str | None]:
    dist = point.dist
    return (None, None) if dist is None else (dist.name, dist.version)


def _import_file(path: Path) -> Any:
    name = f"mcptrio_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"expected a Python file, got {path}")
    module = importlib.util.module_from_spec(spec)
    # Before execution, as import does: annotations of classes in the file are looked up there.
    sys.modules[name] = module
    loaded = False
    try:
        spec.loader.exec_module(module)
        loaded = True
    finally:
        if not loaded:
            del sys.modules[name]
    return module
