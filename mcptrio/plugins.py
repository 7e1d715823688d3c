"""Plugins: found, imported, registered, each at its own risk.

Used by the server. Entry points of the group ``mcptrio``, files, modules and objects all become the same
:class:`Plugin`.
The one rule: whatever one plugin does wrong (an import, a signature, a name that is taken) is its own fault and is
written on it; the others never notice.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from enum import Enum
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

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
from mcptrio.errors import PluginError
from mcptrio.hookspecs import HOOKS, hookimpl
from mcptrio.runtime.dispatch import Failure, contain_sync

__all__ = ["GROUP", "Plugin", "PluginManager", "State"]

GROUP = "mcptrio"
"""The entry point group."""


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
    """Kind (``tools``, ``resources``, …) to names."""

    @property
    def label(self) -> str:
        return f"{self.name} ({self.distribution} {self.version})" if self.distribution else self.name

    def quarantine(self, fault: str, error: BaseException | None = None) -> None:
        self.state = State.QUARANTINED
        self.fault = fault
        self.error = error

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

        Args:
            only: names; others are not even imported. ``None``: all.
            without: names that are not imported.

        Raises:
            PluginError: a name in ``only`` is not installed; or any fault, if strict.
        """
        found: dict[str, EntryPoint] = {}
        for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
            if point.name in found:
                if found[point.name].value != point.value:
                    self._twice(point, found[point.name])
                continue
            found[point.name] = point
        for name in only or ():
            if name not in found:
                near = get_close_matches(name, found, 1)
                hint = f"; did you mean {near[0]}?" if near else f"; installed: {', '.join(found) or 'none'}"
                raise PluginError(f"no such plugin is installed{hint}", plugin=name)
        excluded = frozenset(without)
        for name, point in found.items():
            plugin = Plugin(name, *_distribution(point))
            if name in excluded or (only is not None and name not in only):
                plugin.state = State.DISABLED
                self.plugins.setdefault(name, plugin)
                continue
            if self._is_new(plugin):
                self._import(plugin, point.load)

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
        for implementation in reversed(getattr(self._pluggy.hook, hook).get_hookimpls()):
            if implementation.plugin_name.partition("\0")[0] != plugin.name:
                continue
            wanted = [arguments[name] for name in implementation.argnames]
            outcome = contain_sync(partial(implementation.function, *wanted))
            if isinstance(outcome, Failure):
                raise self.fault(plugin, f"{hook} failed: {outcome.error}", outcome.error)
            if outcome.value is not None:
                results.append(outcome.value)
        return results

    def adopt_object(self, plugin: Plugin, object: object) -> None:
        """Take the marks and hooks of another object as this plugin's own."""
        self._check_hooks(plugin, object)
        for part in (object, _Marked(object)):
            self._pluggy.register(part, f"{plugin.name}\0{id(part)}")

    def fault(self, plugin: Plugin, fault: str, error: BaseException | None = None) -> PluginError:
        """Quarantine a plugin. Returns the error, to be raised where being strict."""
        plugin.quarantine(fault, error)
        problem = PluginError(fault, plugin=plugin.name, distribution=plugin.distribution)
        problem.__cause__ = error
        return problem

    @property
    def strict(self) -> bool:
        return self._strict

    # Private

    def _is_new(self, plugin: Plugin) -> bool:
        taken = self.plugins.get(plugin.name)
        if taken is None or taken.state is State.DISABLED:
            self.plugins[plugin.name] = plugin
            return True
        key = f"{plugin.name} ({plugin.distribution or 'again'})"
        self.plugins[key] = plugin
        self._tolerate(self.fault(plugin, f"the name {plugin.name!r} is already taken by {taken.label}"))
        return False

    def _twice(self, point: EntryPoint, first: EntryPoint) -> None:
        distribution, version = _distribution(point)
        plugin = Plugin(f"{point.name} ({distribution})", distribution, version)
        self.plugins[plugin.name] = plugin
        other = _distribution(first)[0]
        self._tolerate(self.fault(plugin, f"the name {point.name!r} is offered by {other} and by {distribution}"))

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

    def _check_hooks(self, plugin: Plugin, object: object) -> None:
        """A misspelt hook would silently do nothing."""
        for name in dir(type(object)) + list(getattr(object, "__dict__", ())):
            value = getattr(type(object), name, None) or getattr(object, "__dict__", {}).get(name)
            if getattr(value, "mcptrio_impl", None) is not None and name not in HOOKS:
                near = get_close_matches(name, HOOKS, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise PluginError(
                    f"there is no hook {name!r}{hint}", plugin=plugin.name, distribution=plugin.distribution
                )


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
    spec.loader.exec_module(module)
    return module
