"""The server: assembles plugins, catalog and supervisor.

The command line, embedding programs and tests create a Server. Inside ``async with server.open()`` it serves any
number of channels and HTTP endpoints.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, final

import trio

from mcptrio.abc import MessageChannel, Principal, Stores
from mcptrio.abc.observers import Observer
from mcptrio.abc.status import PluginState, Readiness, ServerStatus, StoreStatus
from mcptrio.capabilities.catalog import Catalog, CatalogRegistrar
from mcptrio.capabilities.logging import ClientLogHandler
from mcptrio.ground.expected import expect
from mcptrio.ground.nurseries import require_trio, unwrap_single_exceptions
from mcptrio.plugins.contributions import Contributions
from mcptrio.plugins.manager import PluginManager
from mcptrio.plugins.plugin import Plugin
from mcptrio.plugins.policy import ToolPolicy
from mcptrio.plugins.running import RunningPlugins
from mcptrio.plugins.settings import PluginTables
from mcptrio.protocol.model.icons import Icon
from mcptrio.protocol.model.lifecycle import Implementation
from mcptrio.protocol.revisions.registry import LATEST
from mcptrio.recording.recorder import Recorder
from mcptrio.recording.session_recording import SessionRecording, recorder_of_session, recording_session
from mcptrio.runtime.request_state import KeyRing
from mcptrio.runtime.settings import ServerSettings
from mcptrio.runtime.state import RuntimeState
from mcptrio.runtime.supervisor import Supervisor
from mcptrio.runtime.watchdog import watch_loop

__all__ = ["RunningServer", "Server"]

MAX_STORE_FAILURE_SECONDS = 5.0
"""Seconds for which the stores may fail before ``/readyz`` reports that the server is not ready.

A load balancer should not remove the server for a short failure.
"""


class Server(CatalogRegistrar):
    """An MCP server. It runs nothing until it is opened.

    Args:
        name: Name of the server, sent to clients.
        version: Version of the server, sent to clients.
        title: Display name for users.
        description: Description for users.
        website_url: Web page of the server.
        icons: Icons of the server.
        instructions: Advice for the model on how to use the server's tools.
        plugins: Modules or objects that are plugins; or a manager that has loaded plugins.
        config: Settings of plugins, by plugin name.
        tools: Selects the tools of plugins that are offered; by default all.
        settings: Limits, timeouts, sealing keys and further settings.
        record: A file in which to record all messages, without secrets.
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
        record: Path | str | None = None,
    ) -> None:
        self.settings = settings = ServerSettings() if settings is None else settings
        tools = ToolPolicy() if tools is None else tools
        expect(name, str, "Server: name")
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
        """True while the server accepts sessions: after all lifespans were entered, before the first one is left."""
        self.supervisor = self._make_supervisor(state)
        """The entry point for transports."""
        if record is not None:
            recorder = Recorder(record, name=name, side="server", redactions=catalog.logging.redactions)
            catalog.recorder = recorder
            self.supervisor.tap_factories.append(lambda session, _peer: recorder_of_session(recorder, session))
        if not isinstance(plugins, PluginManager):
            plugins = PluginManager.of(plugins, strict=settings.strict)
        self.plugins = plugins
        tables = _tables({} if config is None else config)
        self.contributions = Contributions(catalog, self.plugins, tables, tools)
        # PluginTables come from files, and a reload may add the plugins that they name. Settings from the program are
        # checked now.
        if not isinstance(config, PluginTables):
            self.contributions.check_tables()
        self.running_plugins = RunningPlugins(self.supervisor, self.plugins, self.contributions)
        self.contributions.offer_all()

    # Serving

    @asynccontextmanager
    async def open(self) -> AsyncIterator[RunningServer]:
        """Run the server: enter the lifespans of plugins, start background tasks, accept sessions.

        On exit, requests in flight have ``timeouts.shutdown`` seconds and are then cancelled. Lifespans are left in
        reverse order; they have the rest of these seconds, and at least one second each. A server can be opened only
        once.

        Returns:
            The open server, which serves channels.

        Raises:
            RuntimeError: The server was opened before, or the caller is not a Trio task.
            ConfigError: The file of the recording cannot be written.
        """
        require_trio("Server.open")
        if self.supervisor.draining:
            raise RuntimeError("a Server can be opened only once; create another one")
        handler = ClientLogHandler(self.catalog.logging, self.supervisor)
        recorder = self.catalog.recorder
        with unwrap_single_exceptions(), ExitStack() as stack:
            logging.getLogger().addHandler(handler)
            stack.callback(logging.getLogger().removeHandler, handler)
            # Tasks of plugins run in the outer nursery, because they must outlive the requests that may use them.
            async with (
                recorder.running() if recorder is not None else nullcontext(),
                watch_loop(self.settings.timeouts.blocked, self.plugins.owner_of_file),
                trio.open_nursery() as plugins,
            ):
                try:
                    await self.running_plugins.enter_all(plugins)
                    async with trio.open_nursery() as nursery:
                        try:
                            await nursery.start(self.catalog.state.run)
                            nursery.start_soon(self.catalog.subscriptions.run)
                            await nursery.start(self.catalog.tools.tasks.run)
                            # Lets the subscriptions task start before the first session.
                            await trio.lowlevel.checkpoint()
                            self.is_open = True
                            yield RunningServer(self)
                        finally:
                            self.is_open = False
                            with trio.CancelScope(shield=True):
                                # The shield cannot hang: drain() ends after timeouts.shutdown.
                                await self.supervisor.drain()
                            nursery.cancel_scope.cancel()
                finally:
                    with trio.CancelScope(shield=True):
                        # Each lifespan has its deadline. If opening failed, nothing was drained before.
                        await self.supervisor.drain()
                        await self.running_plugins.leave_all(self.supervisor.gate.drain_deadline)

    @property
    def stores(self) -> Stores | None:
        """The stores that the server shares with other replicas; ``None`` if there are none."""
        return self.catalog.state.stores

    def use_stores(self, stores: Stores) -> None:
        """Use these stores instead of those in the settings.

        Raises:
            RuntimeError: The server is open.
        """
        if self.is_open:
            raise RuntimeError("call use_stores() before open()")
        self.catalog.state.stores = stores

    # Catalog and plugins

    def add_extension(self, identifier: str, settings: Mapping[str, Any] | None = None) -> None:
        """Advertise an extension of the protocol.

        Raises:
            ValueError: The identifier has no prefix. Source: MCP 2026-07-28, basic/versioning, "Extensions".
        """
        self.catalog.lifecycle.add_extension(identifier, settings)

    @property
    def status(self) -> ServerStatus:
        """The status of the server, its plugins, sessions and requests. May be read from any thread."""
        return self.supervisor.loop.call(self._status)

    def add_observer(self, observer: Observer) -> Callable[[], None]:
        """Notify an observer of each request, task and session that ends, and of each request that is refused.

        Returns:
            A function that removes the observer.
        """
        return self.catalog.state.observers.add(observer)

    def cancel_request(self, session: int, id: str | int, reason: str) -> bool:
        """Cancel a request. Its client gets an error with the reason.

        Args:
            session: The number of the request's session, in :attr:`status`.
            id: The id of the request, in :attr:`status`.
            reason: Sent to the client.

        Returns:
            False if no such request is in flight.
        """
        return self.supervisor.cancel_request(session, id, reason)

    def cancel_task(self, id: str, reason: str) -> bool:
        """Cancel a task that this process runs. Its client gets the status ``cancelled`` with the reason.

        Args:
            id: The beginning of the task's id, in :attr:`status`.
            reason: Sent to the client.

        Returns:
            False if this process runs no such task.
        """
        return self.catalog.tools.tasks.cancel_here(id, reason)

    def end_session(self, number: int, reason: str) -> bool:
        """Cancel all requests of a session and end it. Its client must connect again.

        Returns:
            False if there is no such session.
        """
        return self.supervisor.end_session(number, reason)

    @asynccontextmanager
    async def record_session(
        self, number: int | None = None, *, client: str | None = None
    ) -> AsyncIterator[SessionRecording]:
        """Record the messages of one session during the block: in memory, and without secrets.

        Args:
            number: The number of the session, in :attr:`status`.
            client: A name in place of a number: record the requests over HTTP without a session (2026-07-28) whose
                client or principal has this name.

        Raises:
            LookupError: There is no such session.
        """
        recording = SessionRecording(self.info.name, self.catalog.logging.redactions)
        with recording_session(self.supervisor, recording, number, client):
            async with recording.running():
                yield recording

    async def enable_plugin(self, name: str) -> Plugin:
        """Enable a disabled plugin, or retry a quarantined one. Clients are notified of new features.

        Returns:
            The plugin; quarantined if it failed.

        Raises:
            ConfigError: No plugin has this name.
            PluginError: The plugin failed, and the server is strict.
        """
        return await self.running_plugins.enable(name)

    async def disable_plugin(self, name: str) -> Plugin:
        """Withdraw the features of a plugin and leave its lifespan. Clients are notified.

        Calls in flight have ``timeouts.shutdown`` seconds to end before the lifespan is left.

        Raises:
            ConfigError: No plugin has this name.
        """
        return await self.running_plugins.disable(name)

    async def renew_plugins(self, config: Mapping[str, Mapping[str, Any]], wanted: Callable[[Plugin], bool]) -> None:
        """Apply new plugin settings while the server is open.

        Plugins for which ``wanted`` returns False are disabled; the others, including newly installed ones, are started
        if they do not run. A plugin whose settings have changed receives them if it has registered ``on_new_settings``;
        otherwise it is restarted. Plugins without changes are not interrupted.

        Args:
            config: Settings of plugins, by plugin name.
            wanted: Returns True for each plugin that should run.

        Raises:
            PluginError: A plugin failed, and the server is strict.
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
            param_headers=catalog.tools.param_headers,
            missing_scopes=catalog.access.missing_scopes,
            route=catalog.routes.at,
            readiness=self._readiness,
            middleware=catalog.middleware,
        )

    def _readiness(self) -> Readiness:
        plugins: dict[str, PluginState] = {plugin.name: plugin.state for plugin in self.plugins.plugins.values()}
        stores = self._store_status()
        stores_work = stores is None or (stores.failing_since or 0) < MAX_STORE_FAILURE_SECONDS
        ready = self.is_open and "quarantined" not in plugins.values() and stores_work
        return Readiness(ready=ready, plugins=plugins, stores=stores)

    def _store_status(self) -> StoreStatus | None:
        stores = self.stores
        return stores.status() if stores is not None and stores.is_shared else None

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
            tasks=self.catalog.tools.tasks.status,
            stores=self._store_status(),
        )


@final
class RunningServer:
    """An open server: ``async with server.open() as running:``.

    Args:
        server: The server that was opened. Its tools can be changed and its status read while it runs.
    """

    def __init__(self, server: Server) -> None:
        self.server = server

    async def serve(self, channel: MessageChannel, *, principal: Principal | None = None) -> None:
        """Serve one peer on one channel until either side closes it. Closes the channel.

        Args:
            principal: The authenticated user of the peer; ``None`` for an anonymous one.

        Raises:
            Overloaded: The maximum number of sessions is reached. The channel is still open, so that the caller can
                report it.
            RuntimeError: The block of ``open()`` has ended.
        """
        await self.server.supervisor.serve(channel, principal=principal)


def _tables(config: Mapping[str, Mapping[str, Any]]) -> PluginTables:
    return config if isinstance(config, PluginTables) else PluginTables(tables=config)
