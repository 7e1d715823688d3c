"""The server as a plugin sees it: each entry that the plugin adds belongs to it, and is removed with it.

Given to the plugin's hooks and, as ``ctx.server``, to its handlers.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, cast

import trio
from attrs import evolve

from mcptrio.abc import ASGIApp, OwnIssuer
from mcptrio.capabilities.authorization import Authorizer
from mcptrio.capabilities.catalog import Catalog, CatalogRegistrar
from mcptrio.capabilities.decorators import (
    CompletionMark,
    Mark,
    MethodMark,
    PromptMark,
    ResourceMark,
    ToolMark,
    marks_of,
)
from mcptrio.capabilities.logging import LogSink, Redaction
from mcptrio.capabilities.middleware import Middleware
from mcptrio.plugins.naming import LONG, exposed, is_portable
from mcptrio.plugins.plugin import Plugin
from mcptrio.plugins.policy import ToolPolicy
from mcptrio.plugins.redactions import PluginRedactions
from mcptrio.plugins.tool_names import name_tools_in

__all__ = ["PluginSetup"]

_log = logging.getLogger("mcptrio.plugins")

_KINDS: Final[Mapping[type[Mark], str]] = {
    ToolMark: "tools",
    ResourceMark: "resources",
    PromptMark: "prompts",
    CompletionMark: "completions",
    MethodMark: "methods",
}


class PluginSetup(CatalogRegistrar):
    """Everything that a plugin can add: the parameter ``server`` of the hook ``setup``. Made by the server."""

    def __init__(
        self,
        catalog: Catalog,
        plugin: Plugin,
        *,
        policy: ToolPolicy,
        redactions: PluginRedactions,
        adopt: Callable[[Plugin, object, PluginSetup], None],
    ) -> None:
        super().__init__(catalog)
        self._plugin = plugin
        self._policy = policy
        self._redactions = redactions
        self._adopt = adopt
        redactions.begin(plugin.name)

    def add(self, part: object) -> None:
        """Add an object: its marked methods are offered, and its hooks are called.

        Raises:
            TypeError, ValueError: a marked method or a hook is wrong.
            ValueError: the object belongs to a plugin already.
            ValueError: a name is taken.
        """
        self._adopt(self._plugin, part, self)
        marks = list(marks_of(part))
        for kind in _KINDS:
            for function, mark in marks:
                if isinstance(mark, kind):
                    self._offer(function, mark)

    def set_tool_prefix(self, prefix: str) -> None:
        """Choose what the names of the plugin's tools begin with, before an underscore; by default the plugin's name.

        The operator's ``prefix`` in the plugin's table wins.

        Args:
            prefix: an empty text for no prefix. It holds for names that are free: a tool whose name is taken gets the
                plugin's name before it.

        Raises:
            ValueError: a tool was added before.
        """
        plugin = self._plugin
        if plugin.offers.get("tools") or plugin.withheld:
            raise ValueError("set_tool_prefix: expected to be called before the first tool is added")
        if plugin.policy.prefix is None:
            plugin.prefix = prefix
            plugin.prefers_no_prefix = not prefix

    def add_background(self, task: Callable[[], Awaitable[None]]) -> None:
        """Run an async function, without arguments, while the plugin's lifespan is open.

        A task that fails is started again after 1, 2, 4, … up to 60 seconds; a task that returns is done.
        """
        if not callable(task):
            raise TypeError(f"add_background: expected an async function, got {type(task).__name__}")
        self._plugin.background.append(task)

    def on_new_settings(self, take: Callable[[Any], bool]) -> None:
        """Take new settings while the plugin runs, instead of being started again.

        ``take`` is called when the server reloads its configuration and the plugin's table has changed. It gets the new
        settings, and returns whether the plugin took them. With ``True`` the plugin keeps its lifespan, its calls in
        flight and what it offers; with ``False`` it is started again, as a plugin that takes none. If it raises, the
        plugin is quarantined. It must not block; it can start tasks in a nursery that the lifespan holds open.

        It is not called if one of the server's own settings of the plugin (``timeout``, ``include``, …) has changed, or
        if the settings do not fit their class: then the plugin is started again.
        """
        self._plugin.takers.append(take)

    def add_middleware(self, function: Middleware, order: int = 0) -> None:
        """Put a function around every request: ``async def function(request, proceed)``.

        It gives the result: what ``await proceed()`` gave, or another, or it raises an :class:`MCPError`.

        Args:
            function: takes a :class:`RequestView` and ``proceed``.
            order: the lowest is the outermost; if equal, the function that was added first.
        """
        self._catalog.middleware.add(function, self._plugin, order)
        self._note("middleware", _name_of(function))

    def add_authorizer(self, function: Authorizer) -> None:
        """Have a function judge who may use what.

        Args:
            function: a plain function of a :class:`Component` and a principal. A component for which it does not
                return ``True`` is neither listed nor found by that principal. All authorizers have to agree; if one
                fails, the component is refused.
        """
        self._catalog.authorizers.add(function, self._plugin)
        self._note("authorizers", _name_of(function))

    def add_route(self, path: str, app: ASGIApp) -> None:
        """Serve an ASGI application on the port of the endpoint, at a path and everything below it; over HTTP only.

        Its scope has the whole path. It gets no lifespan and no WebSockets. ``Host`` has been checked; origins, users,
        sizes and times are for the application to judge.

        Raises:
            ValueError: it is no path, or the root.
            ValueError: the path is taken.
        """
        self._catalog.routes.add(path, app, self._plugin)
        self._note("routes", path)

    def add_extension(self, identifier: str, settings: Mapping[str, Any] | None = None) -> None:
        """Advertise an extension, with its settings.

        Raises:
            ValueError: the identifier has no prefix, as ``com.example/name`` has.
        """
        self._catalog.lifecycle.add_extension(identifier, settings)
        self._plugin.undo.append(partial(self._catalog.lifecycle.remove_extension, identifier))
        self._note("extensions", identifier)

    def add_redaction(self, function: Redaction) -> None:
        """Take more secrets out of what clients are sent as log messages.

        It stays when the plugin leaves; those of its last eight registrations are kept.

        Args:
            function: from text to text. Where it fails, the text is not sent.
        """
        self._redactions.add(self._plugin.name, function)

    def add_log_sink(self, function: LogSink) -> None:
        """Hear every log message of every request, whatever level its client has asked for.

        Args:
            function: takes level, data (redacted) and logger. It runs in the Trio thread and must not block; its
                exceptions are dropped.
        """
        self._catalog.logging.sinks.append(function)
        self._plugin.undo.append(partial(self._catalog.logging.sinks.remove, function))

    def set_issuer(self, issuer: OwnIssuer) -> None:
        """Say that the plugin is an authorization server, so that ``[auth]`` is compared with it.

        ``mcptrio serve`` does so at the start, and ``mcptrio plugins doctor``.
        """
        self._plugin.issuer = issuer

    def add_instructions(self, text: Callable[[], str | None]) -> Callable[[], None]:
        forget = super().add_instructions(text)
        self._plugin.undo.append(forget)

        def undo() -> None:
            if forget in self._plugin.undo:
                self._plugin.undo.remove(forget)
                forget()

        return undo

    def tool_name(self, name: str) -> str:
        plugin = self._plugin
        return plugin.renamed.get(name) or exposed(plugin.prefix, name)

    @property
    def threads(self) -> trio.CapacityLimiter:
        return cast(trio.CapacityLimiter, self._catalog.state.threads.of_helpers(self._plugin.name))

    # For the base class

    def _offer(self, function: Any, mark: Mark) -> str:
        plugin, catalog = self._plugin, self._catalog
        if plugin.state in ("quarantined", "disabled"):
            # Its entries were withdrawn, so none may be added after that.
            raise ValueError(f"{plugin.label} is {plugin.state}")
        if isinstance(mark, ToolMark):
            return self._offer_tool(function, mark)
        name = catalog.register(function, mark, plugin)
        for registry in catalog.registries_of(type(mark)):
            name_tools_in(registry.find(name), self.tool_name)
        self._note(_KINDS[type(mark)], name)
        return name

    def _remove(self, kind: type[Mark], key: str) -> bool:
        if self._plugin.state in ("quarantined", "disabled"):
            # Everything of the plugin was withdrawn: an entry with this name belongs to the embedder.
            return False
        names: tuple[str, ...] = (key,)
        if kind is ToolMark:
            # The name that clients see, or the plugin's own; the last is what it became where its own was taken.
            names = (key, exposed(self._plugin.prefix, key), exposed(self._plugin.name, key))
        offered = self._plugin.offers.get(_KINDS[kind], [])
        name = next((each for each in names if each in offered), None)
        if name is None and kind is ToolMark:
            for each in names:
                if self._plugin.withheld.pop(each, None) is not None:
                    return False
        if name is not None:
            offered.remove(name)
        for registry in self._catalog.registries_of(kind):
            entry = registry.find(name or key)
            # Its own, and what no plugin has brought, but not another plugin's.
            if entry is not None and entry.owner in (self._catalog.own, self._plugin):
                return registry.remove(entry.key)
        return False

    def _offer_tool(self, function: Any, mark: ToolMark) -> str:
        """Add a tool under the name that clients see, unless the operator withholds it."""
        plugin, registry = self._plugin, self._catalog.tools.registry
        own = mark.name or str(getattr(function, "__name__", ""))
        name = exposed(plugin.prefix, own)
        if registry.is_taken(name, plugin) and not plugin.prefix and plugin.prefers_no_prefix:
            name = exposed(plugin.name, own)
            plugin.warnings.append(f"tool {own} is offered as {name}: {own} is taken")
            plugin.renamed[own] = name
        if plugin.distribution is not None:
            _check_name(plugin, name)
        # An isolated plugin's names have their prefix already.
        bare = name.removeprefix(f"{plugin.prefix or plugin.name}_") if plugin.isolated else own
        for policy in (self._policy, plugin.policy.tools):
            reason = policy.withholds(name, own, bare, read_only=mark.read_only)
            if reason is not None:
                plugin.withheld[name] = reason
                return name
        self._catalog.register(function, evolve(mark, name=name), plugin)
        # Only now is it known what it looks like; no client has seen it yet.
        entry = registry.find(name)
        name_tools_in(entry, self.tool_name)
        if entry is not None and (reason := self._policy.unlocked(plugin.name, entry.tool)) is not None:
            registry.remove(name)
            plugin.withheld[name] = reason
            _log.warning("%s: tool %s is withheld: %s", plugin.label, name, reason)
            return name
        self._note("tools", name)
        return name

    def _note(self, kind: str, name: str) -> None:
        self._plugin.offers.setdefault(kind, []).append(name)


def _name_of(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _check_name(plugin: Plugin, name: str) -> None:
    """
    Raises:
        ValueError: some hosts would not take the name.
    """
    if not is_portable(name):
        raise ValueError(f"expected a tool name of 1 to 64 characters A-Za-z0-9_-, got {name!r}")
    if len(name) > LONG:
        plugin.warnings.append(f"tool {name} has {len(name)} characters: some hosts cut what is over {LONG}")
