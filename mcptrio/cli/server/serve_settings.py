"""The settings of a server to serve, from the command line and the configuration.

``mcptrio serve`` makes a :class:`ServeSettings`, and the transports read it. An option takes precedence over the
environment, the environment over the file, and the file over the default.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve, frozen

from mcptrio.cli.server.plugin_server import MOUNT, add_mounts, isolation, report_opened, tables_of
from mcptrio.cli.server.shared_stores import check_replicas
from mcptrio.errors import ConfigError, PluginError
from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.serve.config import ServeConfig
from mcptrio.serve.process import ReadyStatus
from mcptrio.serve.stores_table import StoreName, StoresTable

if TYPE_CHECKING:
    from mcptrio.abc import Guard
    from mcptrio.cli.server.console import ServedConsole
    from mcptrio.cli.server.plugin_server import ChosenPlugins
    from mcptrio.serve.control_socket import ControlSocket
    from mcptrio.serve.served_metrics import ServedMetrics
    from mcptrio.server import Server

__all__ = ["ServeSettings"]

_log = logging.getLogger("mcptrio.cli")
_reload_log = logging.getLogger("mcptrio.serve")


@frozen(kw_only=True, slots=False)
class ServeSettings:
    """The settings of one ``mcptrio serve``.

    Args:
        make: Makes the server.
        chosen: The selection of plugins, with which a reload reads the configuration again; ``None`` if a reload
            changes nothing.
        options: The options of the command line by name; ``None`` for one that was not given.
        addresses: Addresses for :func:`mcptrio.transports.sockets.listen`.
        console: The console; ``None`` without ``--console``.
        metrics: The metrics; ``None`` without ``--metrics`` and a collector.
        control: The control socket; ``None`` in the process of an isolated plugin.
    """

    make: Callable[[], Server]
    chosen: ChosenPlugins | None
    config: ServeConfig
    options: Mapping[str, Any]
    addresses: list[str]
    console: ServedConsole | None = None
    metrics: ServedMetrics | None = None
    control: ControlSocket | None = None

    @property
    def background(self) -> Callable[..., Awaitable[None]] | None:
        """The function that runs next to the server, as for :func:`mcptrio.serve.process.run`."""
        return self.metrics.run if self.metrics is not None else None

    @property
    def as_json(self) -> bool:
        """True if the log consists of JSON lines."""
        return (self.options.get("log_format") or self.config.log.format) == "json"

    @cached_property
    def stores(self) -> StoresTable:
        """The table ``[stores]``, with the option ``--store``.

        Raises:
            ConfigError: Replicas on several machines have no common sealing keys, or no distinct names; or only
                workers run tasks, and there is no store that they share.
        """
        table = self.config.stores
        if self.options.get("store") is not None:
            table = evolve(table, url=StoreName(self.options["store"]))
        check_replicas(self.config, table)
        if table.urls["tasks"] == "memory" and self.config.server.run_tasks == "workers":
            problem = "expected a store that workers share, got memory: set stores.url or pass --store"
            raise self.config.error(("server", "run_tasks"), problem)
        return table

    @property
    def has_store(self) -> bool:
        """True if the operator has named a store."""
        return self.options.get("store") is not None or self.config.is_set("stores", "url")

    def attach_companions(self, server: Server, urls: list[str], guard: Guard | None = None) -> None:
        """Make the console, if there is one, and give the server to the control socket.

        Args:
            urls: The URLs of the HTTP endpoint, or other addresses.
            guard: Verifies the access tokens of ``[auth]``.
        """
        if self.console is not None:
            self.console.attach(server, urls, guard)
        if self.control is not None:
            self.control.opened(server, urls)

    def with_companions(self, serve: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        """Return a function that also runs the console and the control socket, until ``serve`` returns."""

        async def serve_with_companions(*args: Any, **options: Any) -> None:
            async with open_hidden_nursery() as nursery:
                for companion in (self.console, self.control):
                    if companion is not None:
                        nursery.start_soon(companion.run)
                await serve(*args, **options)
                nursery.cancel_scope.cancel()

        return serve_with_companions

    def ready(
        self,
        server: Server | None,
        announce: Callable[[list[str]], None] | None = None,
        guard: Guard | None = None,
    ) -> ReadyStatus:
        """Return the status that announces the server's addresses once its plugins are open.

        If the lifespan of every plugin failed, it raises a ``ConfigError`` instead, which ends the process.

        Args:
            server: ``None`` in the parent of workers, because each worker checks its own.
            announce: A function called with the addresses; by default, they are written for the operator.
            guard: The guard for :meth:`attach_companions`.
        """
        announce_urls = announce or (_announce_in_json if self.as_json else _announce)

        def started(urls: list[str]) -> None:
            # With dev, the only plugin is the mount. The mounted process logs the author's plugins.
            if server is not None and self.chosen is not None:
                report_opened(server)
            announce_urls(urls)
            if server is not None:
                self.attach_companions(server, urls, guard)

        return ReadyStatus(started)

    def renewal(self, server: Server) -> Callable[[], Awaitable[None]] | None:
        """Return the function that reloads the plugins of this server at SIGHUP, and declare all lists."""
        if (chosen := self.chosen) is None:
            return None
        # A plugin that is enabled later may be the first one that has prompts. Clients request only declared lists.
        server.announce_lists()

        async def renew() -> None:
            try:
                config = chosen.read()
                selection = chosen.select(config)
                server.plugins.find_replacement = isolation(config, self.options, strict=server.plugins.strict)
                if selection.mounts and MOUNT not in server.plugins.plugins:
                    # This is the first mounted server. renew_plugins enables the plugin.
                    add_mounts(server.plugins).disable()
                await server.renew_plugins(tables_of(config), selection.includes)
            except (ConfigError, PluginError) as error:
                # An invalid configuration changes nothing.
                _reload_log.error("plugins not reloaded: %s", error)
            else:
                _reload_log.info("plugins reloaded")

        return renew


def _announce(urls: list[str]) -> None:
    for url in urls:
        click.echo(f"serving {url}", err=True)


def _announce_in_json(urls: list[str]) -> None:
    # At any log level, because a process that started this one may wait for the line.
    _log.setLevel(logging.INFO)
    for url in urls:
        _log.info("serving %s", url)
