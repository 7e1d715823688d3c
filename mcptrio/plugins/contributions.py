"""What plugins bring to a server: collected when one is taken in, taken back when it leaves.

Owned by the server.
The one rule: everything a plugin adds, at registration or later, has its name on it, and goes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from attrs import evolve

from mcptrio.capabilities.call_limits import CallLimits
from mcptrio.capabilities.logging import LogSink
from mcptrio.capabilities.marks import ToolMark, mark_of
from mcptrio.errors import PluginError
from mcptrio.plugins.manager import PluginManager
from mcptrio.plugins.naming import LONG, exposed, is_portable
from mcptrio.plugins.plugin import Plugin
from mcptrio.plugins.policy import ToolPolicy
from mcptrio.plugins.settings import PluginTables

if TYPE_CHECKING:
    from mcptrio.capabilities.host import Host
    from mcptrio.server import Server

__all__ = ["Contributions"]


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
        self._limits: dict[str, CallLimits] = {}
        self._sinks: dict[str, list[LogSink]] = {}
        self._extensions: dict[str, list[str]] = {}
        self._seen: dict[str, _SeenBy] = {}

    def limits_of(self, owner: str | None) -> CallLimits | None:
        return self._limits.get(owner) if owner is not None else None

    def seen_by(self, owner: str | None) -> Host:
        """The server as a plugin has it: what that adds is its own."""
        return cast("Host", self._seen.get(owner, self._server) if owner is not None else self._server)

    def offer(self, plugin: Plugin) -> bool:
        """Read a plugin's settings, and let it register what it has.

        Returns:
            Whether it could.

        Raises:
            PluginError: it failed, and the server is strict.
        """
        try:
            self._plugins.configure(plugin, self._tables)
            self._seen[plugin.name] = _SeenBy(self._server, self, plugin)
            said = plugin.policy
            if (said.timeout, said.concurrency, said.rate) != (None, None, None):
                self._limits[plugin.name] = CallLimits(
                    plugin.name, timeout=said.timeout, concurrency=said.concurrency, rate=said.rate
                )
            self._collect(plugin)
            return True
        except PluginError:
            self.withdraw(plugin)
            if self._plugins.strict:
                raise
            return False

    def withdraw(self, plugin: Plugin) -> None:
        """Take back what a plugin offered; clients are told. Its redactions stay: what they hide is still secret."""
        server = self._server
        for registry in (
            server.tools.registry,
            server.resources.registry,
            server.resources.templates,
            server.prompts.registry,
            server.completions.registry,
        ):
            registry.withdraw(plugin.name)
        server.methods.withdraw(plugin.name)
        for identifier in self._extensions.pop(plugin.name, ()):
            server.remove_extension(identifier)
        for sink in self._sinks.pop(plugin.name, ()):
            server.logging.sinks.remove(sink)
        self._limits.pop(plugin.name, None)
        plugin.offers.clear()

    def add_tool(
        self, plugin: Plugin, function: Callable[..., Any], *, mark: ToolMark | None = None, **options: Any
    ) -> str:
        """Add a tool of a plugin, under the name that clients see, unless the operator withholds it.

        Returns:
            That name.

        Raises:
            TypeError, ValueError: something about it is wrong, or its name is taken.
        """
        mark = mark or mark_of(function, ToolMark, options)
        own = mark.name or str(getattr(function, "__name__", ""))
        name = exposed(plugin.prefix, own)
        if name in self._server.tools.registry and not plugin.prefix and plugin.prefers_no_prefix:
            name = exposed(plugin.name, own)
            plugin.warnings.append(f"tool {own} is offered as {name}: {own} is taken")
        if plugin.distribution is not None:
            _check_name(plugin, name)
        for policy in (self._policy, plugin.policy.tools):
            reason = policy.withholds(name, own, read_only=mark.read_only)
            if reason is not None:
                plugin.withheld[name] = reason
                return name
        self._server.add_tool(function, mark=evolve(mark, name=name), owner=plugin.name)
        _note(plugin, "tools", name)
        return name

    def add(self, plugin: Plugin, kind: str, add: Callable[..., str], *args: Any, **options: Any) -> str:
        name = add(*args, owner=plugin.name, **options)
        _note(plugin, kind, name)
        return name

    # Private

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
        call(plugin, "register_redactions", register=server.logging.redactions.append)
        call(plugin, "register_log_sinks", register=partial(self._sink, plugin))

    def _extend(self, plugin: Plugin, identifier: str, settings: Mapping[str, Any] | None = None) -> None:
        self._server.add_extension(identifier, settings)
        self._extensions.setdefault(plugin.name, []).append(identifier)
        _note(plugin, "extensions", identifier)

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

    def remove_tool(self, name: str) -> bool:
        """By the name clients see, or the one its plugin gave it."""
        offered = self._plugin.offers.get("tools", [])
        for each in (name, exposed(self._plugin.prefix, name)):
            if each in offered:
                offered.remove(each)
                return self._server.remove_tool(each)
        return self._server.remove_tool(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)


def _note(plugin: Plugin, kind: str, name: str) -> None:
    plugin.offers.setdefault(kind, []).append(name)


def _check_name(plugin: Plugin, name: str) -> None:
    """
    Raises:
        ValueError: some hosts would not take the name.
    """
    if not is_portable(name):
        raise ValueError(f"expected a tool name of 1 to 64 characters A-Za-z0-9_-, got {name!r}")
    if len(name) > LONG:
        plugin.warnings.append(f"tool {name} has {len(name)} characters: some hosts cut what is over {LONG}")
