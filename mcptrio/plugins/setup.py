"""The server's interface for one plugin, which removes each entry that the plugin has added when the plugin is removed.

The plugin's hooks get it as a parameter, and its handlers as ``ctx.server``.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, cast, get_args

import trio

from mcptrio.abc import ASGIApp, OwnIssuer, QuotaStore
from mcptrio.abc.observers import Observer
from mcptrio.capabilities.authorization import Authorizer
from mcptrio.capabilities.catalog import Catalog, CatalogRegistrar
from mcptrio.capabilities.decorators import Mark, PromptMark, ToolMark, marks_of
from mcptrio.capabilities.functions import unannotated_context
from mcptrio.capabilities.logging import LogSink, Redaction
from mcptrio.capabilities.middleware import Middleware
from mcptrio.capabilities.prompts import PromptEntry
from mcptrio.capabilities.resource_index import ResourceEntry
from mcptrio.capabilities.tool_entries import ToolEntry
from mcptrio.capabilities.tool_names import NameOf, resolve_names_in_schema, resolve_tool_names
from mcptrio.plugins.naming import MAX_UNTRUNCATED_CHARS, is_portable, prefixed_name
from mcptrio.plugins.plugin import Plugin
from mcptrio.plugins.policy import ToolPolicy
from mcptrio.plugins.redactions import PluginRedactions
from mcptrio.protocol.model.fields import evolve

__all__ = ["PluginSetup"]

_log = logging.getLogger("mcptrio.plugins")


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
            TypeError, ValueError: A marked method or a hook is invalid.
            ValueError: The object already belongs to a plugin, or a name is taken.
        """
        self._adopt(self._plugin, part, self)
        marks = list(marks_of(part))
        # Tools first, and methods last.
        for kind in get_args(Mark):
            for function, mark in marks:
                if isinstance(mark, kind):
                    self._offer(function, mark)

    def set_tool_prefix(self, prefix: str) -> None:
        """Set the prefix of the plugin's tool names, before an underscore; by default the plugin's name.

        The operator's ``prefix`` in the plugin's table overrides it.

        Args:
            prefix: Empty for no prefix. A tool whose name is then taken gets the plugin's name as its prefix.

        Raises:
            ValueError: A tool was added before, or a host application would not accept the prefix.
        """
        if prefix and not is_portable(prefix):
            raise ValueError(f'set_tool_prefix: expected "" or 1 to 64 characters A-Za-z0-9_-, got {prefix!r}')
        plugin = self._plugin
        if plugin.offers.get("tools") or plugin.withheld:
            raise ValueError("set_tool_prefix: expected a call before the first tool is added, got one after it")
        if plugin.policy.prefix is None:
            plugin.prefix = prefix
            plugin.prefers_no_prefix = not prefix

    def add_background(self, task: Callable[[], Awaitable[None]]) -> None:
        """Run an async function without arguments while the plugin's lifespan is open.

        A failed task is restarted after 1, 2, 4, … up to 60 seconds; a task that returns is finished.
        """
        if not callable(task):
            raise TypeError(f"add_background: expected an async function, got {type(task).__name__}")
        self._plugin.background.append(task)

    def on_new_settings(self, take: Callable[[Any], bool]) -> None:
        """Accept new settings while the plugin runs, instead of a restart.

        The server calls ``take`` with the new settings when it reloads its configuration and the plugin's table has
        changed. If it returns ``True``, the plugin keeps its lifespan, its running calls and its entries; if it returns
        ``False``, the plugin restarts; if it raises, the plugin is quarantined. It must not block; it can start tasks
        in a nursery of the lifespan.

        It is not called if one of the server's own settings for the plugin (``timeout``, ``include``, …) has changed,
        or if the settings are invalid: then the plugin restarts.
        """
        self._plugin.settings_callbacks.append(take)

    def add_middleware(self, function: Middleware, order: int = 0) -> None:
        """Surround every request with a function: ``async def function(request, proceed)``.

        The function returns the result of ``await proceed()`` or another one, or raises an :class:`MCPError`.

        Args:
            function: Takes a :class:`RequestView` and ``proceed``.
            order: The function with the lowest order is the outermost; among equal ones, the first that was added.
        """
        self._catalog.middleware.add(function, self._plugin, order)
        self._record_offer("middleware", _name_of(function))

    def add_authorizer(self, function: Authorizer) -> None:
        """Add a function that decides which principals may use which components.

        Args:
            function: A sync function of a :class:`Component` and a principal. A component for which it does not return
                ``True`` does not exist for that principal. All authorizers must agree; if one fails, the component is
                refused.
        """
        self._catalog.authorizers.add(function, self._plugin)
        self._record_offer("authorizers", _name_of(function))

    def add_route(self, path: str, app: ASGIApp) -> None:
        """Serve an ASGI application on the endpoint's port, at a path and all paths below it; only over HTTP.

        The application gets the whole path in its scope, and no lifespan and no WebSockets. ``Host`` has been checked;
        the application must check origins, users, sizes and times itself.

        Raises:
            ValueError: The path is invalid, is the root, or is taken.
        """
        self._catalog.routes.add(path, app, self._plugin)
        self._record_offer("routes", path)

    def add_extension(self, identifier: str, settings: Mapping[str, Any] | None = None) -> None:
        """Advertise an extension, with its settings.

        Raises:
            ValueError: The identifier has no prefix such as in ``com.example/name``.
        """
        self._catalog.lifecycle.add_extension(identifier, settings)
        self._plugin.undo.append(partial(self._catalog.lifecycle.remove_extension, identifier))
        self._record_offer("extensions", identifier)

    def add_redaction(self, function: Redaction) -> None:
        """Add a function that removes secrets from log messages to clients.

        The function stays when the plugin is removed. mcptrio keeps those of the plugin's last eight registrations.

        Args:
            function: Takes and returns a text. If it fails, the text is not sent.
        """
        self._redactions.add(self._plugin.name, function)

    def add_log_sink(self, function: LogSink) -> None:
        """Add a function that receives the log messages of all requests, at every level.

        Args:
            function: Takes level, data (redacted) and logger. It runs in the Trio thread and must not block; its
                exceptions are dropped.
        """
        self._catalog.logging.sinks.append(function)
        self._plugin.undo.append(partial(self._catalog.logging.sinks.remove, function))

    def add_observer(self, observer: Observer) -> None:
        """Notify an observer of each request and session of the server that ends, and of each request that is
        refused."""
        self._plugin.undo.append(self._catalog.state.observers.add(observer))

    def set_issuer(self, issuer: OwnIssuer) -> None:
        """Declare that the plugin is an authorization server.

        ``mcptrio serve`` and ``mcptrio plugins doctor`` then compare ``[auth]`` with it.
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
        return plugin.renamed.get(name) or prefixed_name(plugin.prefix, name)

    @property
    def threads(self) -> trio.CapacityLimiter:
        return cast(trio.CapacityLimiter, self._catalog.state.threads.of_helpers(self._plugin.name))

    @property
    def quotas(self) -> QuotaStore | None:
        """The quotas that all replicas of the server share; ``None`` without shared stores, or before it is open."""
        stores = self._catalog.state.stores
        return stores.quotas if stores is not None else None

    @property
    def replicas(self) -> int:
        """The number of processes that use the server's stores, this one included; 1 without stores."""
        stores = self._catalog.state.stores
        return stores.status().replicas if stores is not None else 1

    # For the base class

    def _offer(self, function: Any, mark: Mark) -> str:
        plugin, catalog = self._plugin, self._catalog
        if plugin.state in ("quarantined", "disabled"):
            # Its entries have been withdrawn, so it may not add any.
            raise ValueError(f"{plugin.label} is {plugin.state}")
        if isinstance(mark, ToolMark):
            return self._offer_tool(function, mark)
        name = catalog.register(function, mark, plugin)
        if isinstance(mark, PromptMark):
            self._check_context(function, mark, name)
        for registry in catalog.registries_of(type(mark)):
            _resolve_names_in_entry(registry.find(name), self._resolve_tool_name)
        self._record_offer(mark.kind, name)
        return name

    def _remove(self, kind: type[Mark], key: str) -> bool:
        if self._plugin.state in ("quarantined", "disabled"):
            # All its entries have been withdrawn, so an entry with this name belongs to the embedding program.
            return False
        names: tuple[str, ...] = (key,)
        if kind is ToolMark:
            # The name that clients see, the name without the prefix, or the name after a collision.
            names = (key, prefixed_name(self._plugin.prefix, key), prefixed_name(self._plugin.name, key))
        offered = self._plugin.offers.get(kind.kind, [])
        name = next((each for each in names if each in offered), None)
        if name is None and kind is ToolMark:
            for each in names:
                if self._plugin.withheld.pop(each, None) is not None:
                    return False
        if name is not None:
            offered.remove(name)
        for registry in self._catalog.registries_of(kind):
            entry = registry.find(name or key)
            # Only an entry of this plugin or of no plugin.
            if entry is not None and entry.owner in (self._catalog.own, self._plugin):
                return registry.remove(entry.key)
        return False

    def _offer_tool(self, function: Any, mark: ToolMark) -> str:
        """Add a tool under the name that clients see, unless the operator withholds it."""
        plugin, registry = self._plugin, self._catalog.tools.registry
        own_name = mark.name or str(getattr(function, "__name__", ""))
        name = prefixed_name(plugin.prefix, own_name)
        if registry.is_taken(name, plugin) and not plugin.prefix and plugin.prefers_no_prefix:
            name = prefixed_name(plugin.name, own_name)
            plugin.warnings.append(f"tool {own_name} is offered as {name}: {own_name} is taken")
            plugin.renamed[own_name] = name
        if plugin.distribution is not None:
            _check_name(plugin, name)
        # The names of an isolated plugin already have their prefix.
        unprefixed = name.removeprefix(f"{plugin.prefix or plugin.name}_") if plugin.isolated else own_name
        for policy in (self._policy, plugin.policy.tools):
            reason = policy.withholds(name, own_name, unprefixed, read_only=mark.read_only)
            if reason is not None:
                plugin.withheld[name] = reason
                return name
        task = plugin.policy.task or mark.task
        if mark.task == "required":
            if task == "never":
                plugin.withheld[name] = 'its calls are always tasks, and the operator has set task = "never"'
                return name
            task = "required"
        self._catalog.register(function, evolve(mark, name=name, task=task), plugin)
        self._check_context(function, mark, name)
        # Compared with the lock only now, because the registration makes the definition. No client has seen it yet.
        entry = registry.find(name)
        _resolve_names_in_entry(entry, self._resolve_tool_name)
        if entry is not None and (reason := self._policy.lock_refusal(plugin.name, entry.tool)) is not None:
            registry.remove(name)
            plugin.withheld[name] = reason
            _log.warning("%s: tool %s is withheld: %s", plugin.label, name, reason)
            return name
        self._record_offer("tools", name)
        return name

    def _check_context(self, function: Any, mark: PromptMark | ToolMark, name: str) -> None:
        if (parameter := unannotated_context(function)) is not None:
            kind = mark.kind.removesuffix("s")
            text = f"{kind} {name}: {parameter} has no annotation, so clients pass it; expected `{parameter}: Context`"
            self._plugin.warnings.append(text)
            _log.warning("%s: %s", self._plugin.label, text)

    def _resolve_tool_name(self, name: str) -> str:
        """Return the name that clients see, for a reference in a description."""
        tool_name = self._plugin.named_tools[name] = self.tool_name(name)
        return tool_name

    def _record_offer(self, kind: str, name: str) -> None:
        """Add an entry to the status of the plugin."""
        self._plugin.offers.setdefault(kind, []).append(name)


def _name_of(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _check_name(plugin: Plugin, name: str) -> None:
    """Check the name of a tool against the limits of hosts, and add a warning if it is long.

    Raises:
        ValueError: Some host would refuse the name.
    """
    if not is_portable(name):
        raise ValueError(f"expected a tool name of 1 to 64 characters A-Za-z0-9_-, got {name!r}")
    if len(name) > MAX_UNTRUNCATED_CHARS:
        plugin.warnings.append(
            f"tool {name} has {len(name)} characters: some hosts truncate names over {MAX_UNTRUNCATED_CHARS}"
        )


def _resolve_names_in_entry(entry: object, name_of: NameOf) -> None:
    """Replace the names of tools in the descriptions of an entry that was just registered."""
    if isinstance(entry, ToolEntry):
        tool = entry.tool
        # Texts of tools of other servers stay unchanged, because they are not the plugin's own.
        if entry.mark.listed is None:
            entry.tool = evolve(
                tool,
                description=_with_resolved_names(tool.description, name_of),
                input_schema=resolve_names_in_schema(tool.input_schema, name_of),
                output_schema=resolve_names_in_schema(tool.output_schema, name_of),
            )
    elif isinstance(entry, PromptEntry):
        prompt = entry.prompt
        entry.prompt = evolve(
            prompt,
            description=_with_resolved_names(prompt.description, name_of),
            arguments=tuple(
                evolve(each, description=_with_resolved_names(each.description, name_of)) for each in prompt.arguments
            ),
        )
    elif isinstance(entry, ResourceEntry):
        entry.listed = evolve(entry.listed, description=_with_resolved_names(entry.listed.description, name_of))


def _with_resolved_names(text: str | None, name_of: NameOf) -> str | None:
    return text and resolve_tool_names(text, name_of)
