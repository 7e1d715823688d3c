"""The server: plugins, registries and the supervisor, assembled.

Made by the command line, by an embedder or by a test; served on any number of channels and HTTP endpoints at once.
The one rule: a server is a value until it is opened; everything that runs, runs inside ``async with server.open()``,
and only the object that this gives serves channels.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import Any, final

import trio

from mcptrio.abc import MessageChannel, Principal
from mcptrio.abc.status import PluginState, Readiness, ServerStatus
from mcptrio.capabilities.catalog import Catalog, CatalogRegistrar
from mcptrio.capabilities.logging import ClientLogHandler
from mcptrio.ground.expected import expect
from mcptrio.ground.nurseries import raised_alone, require_trio
from mcptrio.plugins.contributions import Contributions
from mcptrio.plugins.manager import PluginManager
from mcptrio.plugins.plugin import Plugin
from mcptrio.plugins.policy import ToolPolicy
from mcptrio.plugins.running import RunningPlugins
from mcptrio.plugins.settings import PluginTables
from mcptrio.protocol.model.icons import Icon
from mcptrio.protocol.model.lifecycle import Implementation
from mcptrio.protocol.revisions.registry import LATEST
from mcptrio.runtime.request_state import KeyRing
from mcptrio.runtime.settings import ServerSettings
from mcptrio.runtime.state import RuntimeState
from mcptrio.runtime.supervisor import Supervisor
from mcptrio.runtime.watchdog import watch_loop

__all__ = ["RunningServer", "Server"]


class Server(CatalogRegistrar):
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
        self.settings = settings = ServerSettings() if settings is None else settings
        tools = ToolPolicy() if tools is None else tools
        expect(settings, ServerSettings, "Server: settings")
        expect(tools, ToolPolicy, "Server: tools")
        self.info = Implementation(
            name=name,
            version=version,
            title=title,
            description=description,
            website_url=website_url,
            icons=tuple(icons) if icons else None,
        )
        state = RuntimeState(settings, KeyRing(settings.keys))
        catalog = Catalog(self.info, settings, state, instructions)
        super().__init__(catalog)
        self.catalog = catalog
        catalog.own.registrar = self
        self.is_open = False
        """Whether it welcomes sessions: every lifespan is entered, and none is being left."""
        self.supervisor = self._make_supervisor(state)
        if not isinstance(plugins, PluginManager):
            plugins = PluginManager.of(plugins, strict=settings.strict)
        self.plugins = plugins
        tables = _tables({} if config is None else config)
        self.contributions = Contributions(catalog, self.plugins, tables, tools)
        if not isinstance(config, PluginTables):
            self.contributions.check_tables()
        self.running_plugins = RunningPlugins(self.supervisor, self.plugins, self.contributions)
        self.contributions.offer_all()

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
        require_trio("Server.open", side="server")
        if self.supervisor.draining:
            raise RuntimeError("a server is opened once: make another one")
        handler = ClientLogHandler(self.catalog.logging, self.supervisor)
        with raised_alone(), ExitStack() as stack:
            logging.getLogger().addHandler(handler)
            stack.callback(logging.getLogger().removeHandler, handler)
            async with (
                watch_loop(self.settings.timeouts.blocked, self.plugins.owner_of_file),
                trio.open_nursery() as plugins,
            ):
                try:
                    await self.running_plugins.enter_all(plugins)
                    async with trio.open_nursery() as nursery:
                        try:
                            await nursery.start(self.catalog.state.run)
                            nursery.start_soon(self.catalog.subscriptions.run)
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
                        await self.running_plugins.leave_all(self.supervisor.gate.drain_deadline)

    # What it offers

    def add_extension(self, identifier: str, settings: Mapping[str, Any] | None = None) -> None:
        """Advertise an extension.

        Raises:
            ValueError: the identifier has no prefix. Source: MCP 2026-07-28, basic/versioning, "Extensions".
        """
        self.catalog.lifecycle.add_extension(identifier, settings)

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
        return await self.running_plugins.enable(name)

    async def disable_plugin(self, name: str) -> Plugin:
        """Withdraw what a plugin offers; clients are told. Its calls in flight get ``timeouts.shutdown`` seconds, then
        its lifespan is left.

        Raises:
            ConfigError: there is no such plugin.
        """
        return await self.running_plugins.disable(name)

    async def renew_plugins(self, config: Mapping[str, Mapping[str, Any]], wanted: Callable[[Plugin], bool]) -> None:
        """Take the operator's settings anew, while the server is open.

        Plugins that are no longer enabled are disabled. Enabled ones that do not run are tried (again), also those that
        were installed meanwhile. A plugin with new settings takes them (hook ``reconfigure``) or is started again. The
        others are not interrupted.

        Raises:
            PluginError: one failed, and the server is strict.
        """
        await self.running_plugins.renew(_tables(config), wanted)

    # Private

    def _make_supervisor(self, state: RuntimeState) -> Supervisor:
        catalog = self.catalog
        return Supervisor(
            self.settings,
            state,
            handlers=catalog.handlers,
            custom=catalog.methods.rows,
            listeners=catalog.methods.listeners,
            serves=catalog.lifecycle.serves,
            server_info=LATEST.unstructure(self.info),
            mirrored=catalog.tools.mirrored,
            missing_scopes=catalog.access.missing_scopes,
            route=catalog.routes.at,
            readiness=self._readiness,
            middleware=catalog.middleware,
        )

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
            parked=self.catalog.state.parking.status,
        )


@final
class RunningServer:
    """A server whose plugins run and whose deadlines are kept: ``async with server.open() as running:``.

    Args:
        server: the server that was opened. Its tools can be changed and its status read while it runs.
    """

    def __init__(self, server: Server) -> None:
        self.server = server

    async def serve(self, channel: MessageChannel, *, principal: Principal | None = None) -> None:
        """Serve one peer on one channel until either side ends it. Closes the channel.

        Args:
            principal: the user at the other end, for authorization; ``None`` for an anonymous peer.

        Raises:
            Overloaded: the server has as many sessions as it may have; the channel is still open, to say so.
            RuntimeError: the block of ``open()`` has ended.
        """
        await self.server.supervisor.serve(channel, principal=principal)


def _tables(config: Mapping[str, Mapping[str, Any]]) -> PluginTables:
    """The settings with what knows where they are written; a program has written them itself."""
    return config if isinstance(config, PluginTables) else PluginTables(tables=config)
