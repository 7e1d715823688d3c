"""The server: plugins, registries and the supervisor, assembled.

Made by the command line, by an embedder or by a test; served on any number of channels and HTTP endpoints at once.
The one rule: a server is a value until it is opened; everything that runs, runs inside ``async with server.open()``,
and only the object that this gives serves channels.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import Any

import trio

from mcptrio.abc.status import PluginState, Readiness, ServerStatus
from mcptrio.capabilities.access import Access
from mcptrio.capabilities.authorization import Authorizers
from mcptrio.capabilities.completion import Completions
from mcptrio.capabilities.host import Host
from mcptrio.capabilities.lifecycle import Lifecycle
from mcptrio.capabilities.logging import ClientLogHandler, Logging
from mcptrio.capabilities.marks import Mark
from mcptrio.capabilities.methods import Methods
from mcptrio.capabilities.middleware import MiddlewareChain
from mcptrio.capabilities.owner import Owner
from mcptrio.capabilities.prompts import Prompts
from mcptrio.capabilities.registrar import Registrar, register, registries
from mcptrio.capabilities.registry import Registry
from mcptrio.capabilities.resources import Resources
from mcptrio.capabilities.routes import Routes
from mcptrio.capabilities.subscriptions import Subscriptions
from mcptrio.capabilities.tools import Tools
from mcptrio.ground.expected import expect
from mcptrio.ground.nurseries import raised_alone, require_trio
from mcptrio.plugins.contributions import Contributions
from mcptrio.plugins.manager import PluginManager
from mcptrio.plugins.plugin import Plugin
from mcptrio.plugins.policy import ToolPolicy
from mcptrio.plugins.running import RunningPlugins
from mcptrio.plugins.settings import PluginTables
from mcptrio.protocol.model.icons import Icon
from mcptrio.protocol.model.lifecycle import (
    Implementation,
    PromptsCapability,
    ResourcesCapability,
    ServerCapabilities,
    ToolsCapability,
)
from mcptrio.protocol.revisions.registry import LATEST
from mcptrio.running_server import RunningServer
from mcptrio.runtime.dispatch import Handler
from mcptrio.runtime.request_state import KeyRing
from mcptrio.runtime.settings import ServerSettings
from mcptrio.runtime.supervisor import Supervisor
from mcptrio.runtime.watchdog import watch_loop
from mcptrio.runtime.work import Works

__all__ = ["Server"]


class Server(Registrar):
    """An MCP server.

    Args:
        name, version, title, description, website_url, icons: what clients are told of it.
        instructions: how its tools are meant to be used, for the model.
        plugins: a list of modules or objects; or a manager that has loaded some.
        config: the settings of plugins, by their names.
        tools: which tools of plugins are offered; by default all.
        settings: bounds, times, keys and switches.
    """

    def __init__(
        self,
        name: str = "mcptrio",
        *,
        version: str = "0",
        title: str | None = None,
        description: str | None = None,
        website_url: str | None = None,
        icons: Sequence[Icon] | None = None,
        instructions: str | None = None,
        plugins: Iterable[object] | PluginManager = (),
        config: Mapping[str, Mapping[str, Any]] | None = None,
        tools: ToolPolicy | None = None,
        settings: ServerSettings | None = None,
    ) -> None:
        self.info = Implementation(
            name=name,
            version=version,
            title=title,
            description=description,
            website_url=website_url,
            icons=tuple(icons) if icons else None,
        )
        self._instructions: list[Callable[[], str | None]] = [lambda: instructions]
        self.settings = settings = ServerSettings() if settings is None else settings
        tools = ToolPolicy() if tools is None else tools
        expect(settings, ServerSettings, "Server: settings")
        expect(tools, ToolPolicy, "Server: tools")
        self.extensions: dict[str, dict[str, Any]] = {}
        self.logging = Logging()
        self.own = Owner()
        self.own.registrar = self
        self.authorizers = Authorizers(list_all=settings.list_all)
        self.subscriptions = Subscriptions(self, settings.bus)
        self.tools = Tools(self)
        self.resources = Resources(self)
        self.prompts = Prompts(self)
        self.access = Access(self.authorizers, self.tools, self.resources, self.prompts)
        self.completions = Completions(self, self.prompts, self.resources)
        self.registries: Mapping[str, Registry[Any]] = {
            "tools": self.tools.registry,
            "resources": self.resources.registry,
            "templates": self.resources.templates,
            "prompts": self.prompts.registry,
            "completions": self.completions.registry,
        }
        self.methods = Methods(self)
        surrounding = Works()
        self.routes = Routes(surrounding)
        self.middleware = MiddlewareChain(self.tools.owner_of, surrounding)
        self.is_open = False
        """Whether it welcomes sessions: every lifespan is entered, and none is being left."""
        self._capabilities: tuple[tuple[int, ...], ServerCapabilities] | None = None
        self.supervisor = self._make_supervisor(surrounding)
        if not isinstance(plugins, PluginManager):
            plugins = PluginManager.of(plugins, strict=settings.strict)
        self.plugins = plugins
        tables = _tables({} if config is None else config)
        self.contributions = Contributions(self, self.plugins, tables, tools)
        if not isinstance(config, PluginTables):
            self.contributions.check_tables()
        self._running = RunningPlugins(self, self.plugins, self.contributions)
        for plugin in self.plugins.active():
            self.contributions.offer(plugin)
        if any(plugin.state in ("quarantined", "disabled") for plugin in self.plugins.plugins.values()):
            # It may be enabled or tried again, and its lists are unknown. Clients only ask for a list that the server
            # has declared when they connected.
            self.announce_lists()

    # Serving

    @asynccontextmanager
    async def open(self) -> AsyncIterator[RunningServer]:
        """The server running: plugins' lifespans entered, background tasks started, sessions welcome.

        At the end what is in flight has ``timeouts.shutdown`` seconds, then everything is cancelled and the lifespans
        are left, the last one entered first. They have what is left of these seconds, and one second each at least.
        A server is opened once.

        Returns:
            The open server, which serves channels.
        """
        require_trio("Server.open")
        if self.supervisor.draining:
            raise RuntimeError("a server is opened once: make another one")
        handler = ClientLogHandler(self.logging, self.supervisor)
        with raised_alone(), ExitStack() as stack:
            logging.getLogger().addHandler(handler)
            stack.callback(logging.getLogger().removeHandler, handler)
            async with (
                watch_loop(self.settings.timeouts.blocked, self.plugins.owner_of_file),
                trio.open_nursery() as plugins,
            ):
                try:
                    await self._running.enter_all(plugins)
                    async with trio.open_nursery() as nursery:
                        try:
                            await nursery.start(self.supervisor.run)
                            nursery.start_soon(self.subscriptions.run)
                            await trio.lowlevel.checkpoint()
                            self.is_open = True
                            yield RunningServer(self)
                        finally:
                            self.is_open = False
                            with trio.CancelScope(shield=True):
                                # Bounded by timeouts.shutdown.
                                await self.supervisor.drain()
                            nursery.cancel_scope.cancel()
                finally:
                    with trio.CancelScope(shield=True):
                        # Bounded by the deadline of each. Where opening failed, nothing has been drained yet.
                        await self.supervisor.drain()
                        await self._running.leave_all(self.supervisor.stop_by)

    # What it offers

    @property
    def capabilities(self) -> ServerCapabilities:
        """What is advertised: everything that is or ever was registered."""
        versions = (
            self.tools.registry.version,
            self.resources.registry.version + self.resources.templates.version,
            self.prompts.registry.version,
            self.completions.registry.version,
        )
        if self._capabilities is None or self._capabilities[0] != versions:
            tools, resources, prompts, completions = versions
            capabilities = ServerCapabilities(
                tools=ToolsCapability(list_changed=True) if tools else None,
                resources=ResourcesCapability(subscribe=True, list_changed=True) if resources else None,
                prompts=PromptsCapability(list_changed=True) if prompts else None,
                completions={} if completions or prompts or self.resources.templates.version else None,
                logging={},
                experimental={name: dict(each) for name, each in self.settings.experimental.items()} or None,
                extensions=dict(self.extensions) or None,
            )
            self._capabilities = (versions, capabilities)
        return self._capabilities[1]

    def serves(self, capability: str) -> bool:
        """Whether a capability is advertised: ``tools``, ``resources.subscribe``, or an extension's identifier."""
        if capability in self.extensions:
            return True
        value: Any = self.capabilities
        for part in capability.split("."):
            value = getattr(value, part, None)
            if value is None or value is False:
                return False
        return True

    def add_extension(self, identifier: str, settings: Mapping[str, Any] | None = None) -> None:
        """Advertise an extension.

        Raises:
            ValueError: the identifier has no prefix. Source: MCP 2026-07-28, basic/versioning, "Extensions".
        """
        prefix, slash, name = identifier.partition("/")
        if not slash or not prefix or not name:
            raise ValueError(f"expected an extension identifier like com.example/name, got {identifier!r}")
        self.extensions[identifier] = dict(settings or {})
        self._capabilities = None

    def remove_extension(self, identifier: str) -> None:
        """Advertise it no longer."""
        self.extensions.pop(identifier, None)
        self._capabilities = None

    # What plugins bring

    @property
    def instructions(self) -> str | None:
        """How the server is meant to be used, for the model: the operator's words, then those of plugins."""
        return "\n\n".join(filter(None, (said() for said in self._instructions))) or None

    def add_instructions(self, text: Callable[[], str | None]) -> Callable[[], None]:
        self._instructions.append(text)
        return partial(self._instructions.remove, text)

    @property
    def status(self) -> ServerStatus:
        """The server, its plugins, its sessions and their requests. Works in any thread."""
        return self.supervisor.loop.call(self._status)

    async def enable_plugin(self, name: str) -> Plugin:
        """Take in a plugin that is disabled, or try one in quarantine once more; clients are told of what is new.

        Returns:
            The plugin; in quarantine if it failed (again).

        Raises:
            ConfigError: there is no such plugin.
            PluginError: it failed, and the server is strict.
        """
        return await self._running.enable(name)

    async def disable_plugin(self, name: str) -> Plugin:
        """Withdraw what a plugin offers; clients are told. Its calls in flight get ``timeouts.shutdown`` seconds, then
        its lifespan is left.

        Raises:
            ConfigError: there is no such plugin.
        """
        return await self._running.disable(name)

    async def renew_plugins(self, config: Mapping[str, Mapping[str, Any]], wanted: Callable[[Plugin], bool]) -> None:
        """Take the operator's settings anew, while the server is open.

        Plugins that are no longer enabled are disabled. Enabled ones that do not run are tried (again), also those that
        were installed meanwhile. A plugin with new settings takes them (hook ``reconfigure``) or is started again. The
        others are not interrupted.

        Raises:
            PluginError: one failed, and the server is strict.
        """
        await self._running.renew(_tables(config), wanted)

    def quarantine(self, plugin: Plugin, fault: str, error: BaseException | None = None) -> None:
        """Withdraw what a plugin offers, and say why.

        Raises:
            PluginError: where the server is strict.
        """
        problem = self.plugins.fault(plugin, fault, error)
        self.contributions.withdraw(plugin)
        if self.plugins.strict:
            raise problem

    # Private

    @property
    def _server(self) -> Host:
        return self

    def _offer(self, function: Any, mark: Mark) -> str:
        return register(self, function, mark, self.own)

    def _remove(self, kind: type[Mark], key: str) -> bool:
        return any(registry.remove(key) for registry in registries(self, kind))

    def _readiness(self) -> Readiness:
        plugins: dict[str, PluginState] = {plugin.name: plugin.state for plugin in self.plugins.plugins.values()}
        return Readiness(ready=self.is_open and "quarantined" not in plugins.values(), plugins=plugins)

    def _status(self) -> ServerStatus:
        supervisor = self.supervisor
        return ServerStatus(
            name=self.info.name,
            version=self.info.version,
            ready=self._readiness().ready and not supervisor.draining,
            draining=supervisor.draining,
            in_flight=supervisor.in_flight,
            working=len(supervisor.works),
            threads=supervisor.threads.status,
            plugins=tuple(plugin.status for plugin in self.plugins.plugins.values()),
            sessions=tuple(session.status for session in supervisor.sessions),
            parked=supervisor.parking.status,
        )

    def _make_supervisor(self, surrounding: Works) -> Supervisor:
        handlers: dict[str, Handler] = {}
        for capability in (
            Lifecycle(self),
            self.tools,
            self.resources,
            self.prompts,
            self.completions,
            self.logging,
            self.subscriptions,
        ):
            handlers.update(capability.handlers)
        return Supervisor(
            self.settings,
            handlers=handlers,
            custom=self.methods.rows,
            listeners=self.methods.listeners,
            serves=self.serves,
            server_info=LATEST.unstructure(self.info),
            sealer=KeyRing(self.settings.keys),
            mirrored=self.tools.mirrored,
            lacking_scopes=self.access.lacking_scopes,
            route=self.routes.at,
            readiness=self._readiness,
            middleware=self.middleware,
            surrounding=surrounding,
        )


def _tables(config: Mapping[str, Mapping[str, Any]]) -> PluginTables:
    """The settings with what knows where they are written; a program has written them itself."""
    return config if isinstance(config, PluginTables) else PluginTables(tables=config)
