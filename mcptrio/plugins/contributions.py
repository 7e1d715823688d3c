"""What plugins bring to a server: collected when one is taken in, taken back when it leaves.

Owned by the server.
The one rule: everything a plugin adds, at registration or later, has its name on it, and goes with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import trio
from attrs import evolve

from mcptrio.capabilities.authorization import Authorizer
from mcptrio.capabilities.call_limits import CallLimits
from mcptrio.capabilities.logging import LogSink, Redaction
from mcptrio.capabilities.marks import ToolMark, mark_of
from mcptrio.capabilities.middleware import Middleware
from mcptrio.capabilities.registry import Registry
from mcptrio.errors import PluginError
from mcptrio.plugins.manager import PluginManager
from mcptrio.plugins.naming import LONG, exposed, is_portable
from mcptrio.plugins.plugin import Plugin, State
from mcptrio.plugins.policy import ToolPolicy
from mcptrio.plugins.settings import PluginTables
from mcptrio.plugins.tool_names import name_tools_in
from mcptrio.runtime.dispatch import Failure, contain_sync

if TYPE_CHECKING:
    from mcptrio.capabilities.host import Host
    from mcptrio.server import Server

__all__ = ["Contributions"]

_log = logging.getLogger("mcptrio.plugins")

REGISTRATIONS: Final = 8
"""Registrations of one plugin whose redactions stay. Each text of the log passes all of them."""


class Contributions:
    """
    Args:
        tables: what the operator has set.
        policy: which tools of any plugin are offered.
    """

    def __init__(self, server: Server, plugins: PluginManager, tables: PluginTables, policy: ToolPolicy) -> None:
        self._server = server
        self._plugins = plugins
        self._tables = tables
        self._policy = policy
        self._taken: dict[str, Mapping[str, Any]] = {}
        """By plugin, the settings it was taken in with."""
        self._limits: dict[str, CallLimits] = {}
        self._redactions: dict[str, list[list[Redaction]]] = {}
        """By plugin, those of its registrations, the oldest first."""
        self._sinks: dict[str, list[LogSink]] = {}
        self._extensions: dict[str, list[str]] = {}
        self._seen: dict[str, _SeenBy] = {}

    def set_tables(self, tables: PluginTables) -> set[str]:
        """The operator has set something else, for plugins that are offered from now on.

        Returns:
            Those that were taken in with other settings than these: also where a file that they name has changed.
        """
        self._tables = tables
        changed = set()
        for name, before in self._taken.items():
            # What cannot be read is told when the plugin is taken in.
            now = contain_sync(partial(tables.resolved, name))
            if isinstance(now, Failure) or now.value != before:
                changed.add(name)
        return changed

    def limits_of(self, owner: str | None) -> CallLimits | None:
        return self._limits.get(owner) if owner is not None else None

    def seen_by(self, owner: str | None) -> Host:
        """The server as a plugin has it: what that adds is its own."""
        return cast("Host", self._seen.get(owner, self._server) if owner is not None else self._server)

    def offer(self, plugin: Plugin, *, kept_back: bool = False) -> bool:
        """Read a plugin's settings, and let it register what it has.

        Args:
            kept_back: until :meth:`publish`, clients see nothing of it.

        Returns:
            Whether it could.

        Raises:
            PluginError: it failed, and the server is strict.
        """
        if kept_back:
            self._server.entering.add(plugin.name)
        try:
            self._plugins.configure(plugin, self._tables)
            self._taken[plugin.name] = self._tables.resolved(plugin.name)
            self._seen[plugin.name] = _SeenBy(self._server, self, plugin)
            for registry in self._server.registries.values():
                registry.admit(plugin.name)
            said = plugin.policy
            if (said.timeout, said.concurrency, said.rate) != (None, None, None):
                self._limits[plugin.name] = CallLimits(
                    plugin.name, timeout=said.timeout, concurrency=said.concurrency, rate=said.rate
                )
            self._collect(plugin)
            if not kept_back:
                self._server.authorizers.trust(plugin.name)
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
        if not self._plugins.reconfigure(plugin, self._tables):
            return False
        self._taken[plugin.name] = self._tables.resolved(plugin.name)
        return True

    def publish(self, plugin: Plugin) -> None:
        """Show what was kept back, all of it at once; clients are told."""
        server = self._server
        if plugin.name in server.entering:
            server.entering.remove(plugin.name)
            for registry in server.registries.values():
                registry.publish(plugin.name)
            server.authorizers.trust(plugin.name)

    def withdraw(self, plugin: Plugin, *, reserve: bool = False) -> None:
        """Take back what a plugin offered; clients are told. Its redactions stay: what they hide is still secret.

        Args:
            reserve: keep its names for it.
        """
        server = self._server
        for registry in server.registries.values():
            registry.withdraw(plugin.name, reserve=reserve)
        server.methods.withdraw(plugin.name)
        server.supervisor.parking.clear("its plugin has left", owner=plugin.name)
        for identifier in self._extensions.pop(plugin.name, ()):
            server.remove_extension(identifier)
        for sink in self._sinks.pop(plugin.name, ()):
            server.logging.sinks.remove(sink)
        server.middleware.withdraw(plugin.name)
        server.routes.withdraw(plugin.name)
        if plugin.state is State.QUARANTINED:
            server.authorizers.distrust(plugin.name)
        self._limits.pop(plugin.name, None)
        plugin.offers.clear()
        plugin.withheld.clear()
        plugin.renamed.clear()
        server.entering.discard(plugin.name)

    @contextmanager
    def suspended(self, plugin: Plugin) -> Iterator[None]:
        """Withdraw the plugin's offers while it is started again inside. Until the end of that, the server refuses
        everything that its authorizers judge, and keeps its names for it.
        """
        self.withdraw(plugin, reserve=True)
        self._server.authorizers.distrust(plugin.name)
        try:
            yield
        finally:
            for registry in self._server.registries.values():
                registry.release(plugin.name)

    def forget(self, plugin: Plugin) -> None:
        """Take back what a plugin offered, its judgement too: the operator wants it gone."""
        self.withdraw(plugin)
        self._taken.pop(plugin.name, None)
        self._server.authorizers.withdraw(plugin.name)

    def add_tool(
        self, plugin: Plugin, function: Callable[..., Any], *, mark: ToolMark | None = None, **options: Any
    ) -> str:
        """Add a tool of a plugin, under the name that clients see, unless the operator withholds it.

        Returns:
            That name.

        Raises:
            TypeError, ValueError: something about it is wrong, or its name is taken.
        """
        _check_welcome(plugin)
        mark = mark or mark_of(function, ToolMark, options)
        own = mark.name or str(getattr(function, "__name__", ""))
        name = exposed(plugin.prefix, own)
        is_taken = self._server.tools.registry.is_taken(name, plugin.name)
        if is_taken and not plugin.prefix and plugin.prefers_no_prefix:
            name = exposed(plugin.name, own)
            plugin.warnings.append(f"tool {own} is offered as {name}: {own} is taken")
            plugin.renamed[own] = name
        if plugin.distribution is not None:
            _check_name(plugin, name)
        # Those of a process of its own come with their prefix.
        bare = name.removeprefix(f"{plugin.prefix or plugin.name}_") if plugin.isolated else own
        for policy in (self._policy, plugin.policy.tools):
            reason = policy.withholds(name, own, bare, read_only=mark.read_only)
            if reason is not None:
                plugin.withheld[name] = reason
                return name
        self._server.add_tool(function, mark=evolve(mark, name=name), owner=plugin.name)
        # Only now is it known what it looks like; nobody has seen it yet.
        entry = self._server.tools.registry.find(name)
        name_tools_in(entry, self.seen_by(plugin.name).tool_name)
        if entry is not None and (reason := self._policy.unlocked(plugin.name, entry.tool)) is not None:
            self._server.remove_tool(name)
            plugin.withheld[name] = reason
            _log.warning("%s: tool %s is withheld: %s", plugin.label, name, reason)
            return name
        _note(plugin, "tools", name)
        return name

    def add(self, plugin: Plugin, kind: str, add: Callable[..., str], *args: Any, **options: Any) -> str:
        _check_welcome(plugin)
        name = add(*args, owner=plugin.name, **options)
        for registry in self._described.get(kind, ()):
            name_tools_in(registry.find(name), self.seen_by(plugin.name).tool_name)
        _note(plugin, kind, name)
        return name

    # Private

    @property
    def _described(self) -> Mapping[str, tuple[Registry[Any], ...]]:
        resources = self._server.resources
        return {"resources": (resources.registry, resources.templates), "prompts": (self._server.prompts.registry,)}

    def _collect(self, plugin: Plugin) -> None:
        call, server = self._plugins.call, self._server
        call(plugin, "register_objects", register=partial(self._plugins.adopt_object, plugin))
        call(plugin, "register_tools", register=partial(self.add_tool, plugin))
        adders: dict[str, tuple[str, Callable[..., str]]] = {
            "register_resources": ("resources", server.add_resource),
            "register_prompts": ("prompts", server.add_prompt),
            "register_completions": ("completions", server.add_completion),
            "register_methods": ("methods", server.add_method),
        }
        for hook, (kind, add) in adders.items():
            call(plugin, hook, register=partial(self.add, plugin, kind, add))
        call(plugin, "register_extensions", register=partial(self._extend, plugin))
        call(plugin, "register_middleware", register=partial(self._middleware, plugin))
        call(plugin, "register_authorizers", register=partial(self._authorizer, plugin))
        call(plugin, "register_routes", register=partial(self.add, plugin, "routes", server.routes.add))
        call(plugin, "register_redactions", register=partial(self._redact, self._next_redactions(plugin)))
        call(plugin, "register_log_sinks", register=partial(self._sink, plugin))

    def _extend(self, plugin: Plugin, identifier: str, settings: Mapping[str, Any] | None = None) -> None:
        self._server.add_extension(identifier, settings)
        self._extensions.setdefault(plugin.name, []).append(identifier)
        _note(plugin, "extensions", identifier)

    def _middleware(self, plugin: Plugin, function: Middleware, order: int = 0) -> None:
        self._server.middleware.add(function, plugin.name, order)
        _note(plugin, "middleware", getattr(function, "__name__", type(function).__name__))

    def _authorizer(self, plugin: Plugin, function: Authorizer) -> None:
        self._server.authorizers.add(function, plugin.name)
        _note(plugin, "authorizers", getattr(function, "__name__", type(function).__name__))

    def _next_redactions(self, plugin: Plugin) -> list[Redaction]:
        """The list for the redactions of one more registration. Those of the oldest registrations are dropped."""
        registrations = self._redactions.setdefault(plugin.name, [])
        registrations[:] = [each for each in registrations if each]
        registrations.append([])
        dropped = [each for oldest in registrations[:-REGISTRATIONS] for each in oldest]
        del registrations[:-REGISTRATIONS]
        for redaction in dropped:
            if not self._is_registered(redaction) and redaction in self._server.logging.redactions:
                self._server.logging.redactions.remove(redaction)
        return registrations[-1]

    def _is_registered(self, redaction: Redaction) -> bool:
        """Whether a plugin has brought it; otherwise it is the embedder's."""
        return any(redaction in each for registrations in self._redactions.values() for each in registrations)

    def _redact(self, registered: list[Redaction], redaction: Redaction) -> None:
        # It stays when its plugin leaves, and may be there when that comes again.
        if redaction not in self._server.logging.redactions:
            self._server.logging.redactions.append(redaction)
            registered.append(redaction)
        elif self._is_registered(redaction):
            registered.append(redaction)

    def _sink(self, plugin: Plugin, sink: LogSink) -> None:
        self._server.logging.sinks.append(sink)
        self._sinks.setdefault(plugin.name, []).append(sink)


class _SeenBy:
    """The server for one plugin, in its lifespan and handlers: what it adds is its own, all else is the server's."""

    def __init__(self, server: Server, contributions: Contributions, plugin: Plugin) -> None:
        self._server = server
        self.add_tool = partial(contributions.add_tool, plugin)
        self.add_resource = partial(contributions.add, plugin, "resources", server.add_resource)
        self.add_prompt = partial(contributions.add, plugin, "prompts", server.add_prompt)
        self.add_completion = partial(contributions.add, plugin, "completions", server.add_completion)
        self._plugin = plugin

    @property
    def threads(self) -> trio.CapacityLimiter:
        """For sync code in threads: the plugin's own share, with its functions."""
        return self._server.supervisor.threads.of(self._plugin.name)

    def tool_name(self, name: str) -> str:
        plugin = self._plugin
        return plugin.renamed.get(name) or exposed(plugin.prefix, name)

    def remove_tool(self, name: str) -> bool:
        """By the name clients see, or the one its plugin gave it."""
        plugin, tools = self._plugin, self._server.tools
        # The last is what it became where its own name was taken.
        names = (name, exposed(plugin.prefix, name), exposed(plugin.name, name))
        for each in names:
            if each in plugin.offers.get("tools", ()):
                return self._forget("tools", each, tools.registry) and self._server.remove_tool(each)
        for each in names:
            if plugin.withheld.pop(each, None) is not None:
                return False
        return self._forget("tools", name, tools.registry) and self._server.remove_tool(name)

    def remove_resource(self, uri: str) -> bool:
        resources = self._server.resources
        return self._forget("resources", uri, resources.registry, resources.templates) and (
            self._server.remove_resource(uri)
        )

    def remove_prompt(self, name: str) -> bool:
        return self._forget("prompts", name, self._server.prompts.registry) and self._server.remove_prompt(name)

    def remove_completion(self, ref: str, argument: str) -> bool:
        key, registry = f"{ref} {argument}", self._server.completions.registry
        return self._forget("completions", key, registry) and self._server.remove_completion(ref, argument)

    def _forget(self, kind: str, name: str, *registries: Registry[Any]) -> bool:
        """Whether this plugin may take it away: its own, and what no plugin has brought, but not another plugin's."""
        if self._plugin.state in (State.QUARANTINED, State.DISABLED):
            # Everything of the plugin was withdrawn. An entry with this name belongs to the embedder.
            return False
        entry = next((entry for registry in registries if (entry := registry.find(name)) is not None), None)
        if entry is None or entry.owner not in (None, self._plugin.name):
            return False
        offered = self._plugin.offers.get(kind, [])
        if name in offered:
            offered.remove(name)
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)


def _note(plugin: Plugin, kind: str, name: str) -> None:
    plugin.offers.setdefault(kind, []).append(name)


def _check_welcome(plugin: Plugin) -> None:
    """
    Raises:
        ValueError: what it offers was withdrawn, so nothing of it may come after that.
    """
    if plugin.state in (State.QUARANTINED, State.DISABLED):
        raise ValueError(f"{plugin.label} is {plugin.state.value}")


def _check_name(plugin: Plugin, name: str) -> None:
    """
    Raises:
        ValueError: some hosts would not take the name.
    """
    if not is_portable(name):
        raise ValueError(f"expected a tool name of 1 to 64 characters A-Za-z0-9_-, got {name!r}")
    if len(name) > LONG:
        plugin.warnings.append(f"tool {name} has {len(name)} characters: some hosts cut what is over {LONG}")
