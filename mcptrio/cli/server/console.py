"""The console of ``mcptrio serve --console``: on the HTTP port, or on its own port on this machine.

The transports of :mod:`mcptrio.cli.serve` tell it when the server is open. Each link is written to standard error, as a
line of JSON if the log is JSON, and does not pass through the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import click
import trio

from mcptrio.abc import Guard
from mcptrio.cli.server.config_options import ON_HTTP_PORT
from mcptrio.cli.server.plugin_server import tables_of
from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.http.engine.server import serve_asgi
from mcptrio.http.server.origins import HostPolicy
from mcptrio.plugins.shown_settings import ShownSetting, shown_settings
from mcptrio.plugins.tokens import tokens_by_tool
from mcptrio.runtime.current import CURRENT
from mcptrio.serve.config import ServeConfig
from mcptrio.serve.console import CONSOLE_PATH, ConsoleApp, ConsoleOptions, find_console
from mcptrio.server import Server

__all__ = ["ServedConsole"]

_HOST: Final = "127.0.0.1"


class ServedConsole:
    """The console of a served process, opened with the server.

    Args:
        port: The value of ``--console``.
        has_http: True if the server has an HTTP port.
    """

    def __init__(self, config: ServeConfig, port: int | str, *, has_http: bool) -> None:
        # Fails before the server starts, if no console is installed.
        self._make = find_console()
        self._config = config
        self._on_http = port == ON_HTTP_PORT and has_http
        self._port = 0 if port == ON_HTTP_PORT else port
        self._as_json = config.log.format == "json"
        self._base = ""
        self._console: ConsoleApp | None = None
        self._opened = trio.Event()

    def attach(self, server: Server, urls: list[str], guard: Guard | None = None) -> None:
        """Make the console of a server that has opened.

        Args:
            urls: The URLs of the endpoint.
            guard: Verifies the access tokens of ``[auth]``.
        """
        table, http = self._config.console, self._config.http
        hosts = HostPolicy.for_bind(http.host, http.allow_hosts) if self._on_http else HostPolicy.for_bind(_HOST)
        options = ConsoleOptions(
            read_only=table.read_only,
            scope=table.scope,
            announce=self._announce,
            guard=guard,
            is_host_served=hosts.allows,
            settings_of=partial(self._settings_of, server),
            tokens_of=partial(tokens_by_tool, server.catalog),
            request_of=_current_request,
        )
        self._console = self._make(server, options)
        if self._on_http:
            self._base = next((f"{urlsplit(url).scheme}://{urlsplit(url).netloc}" for url in urls if "://" in url), "")
            server.catalog.routes.add(CONSOLE_PATH, self._console, server.catalog.own)
        self._opened.set()

    async def run(self) -> None:
        """Serve the console once the server is open, until cancelled."""
        await self._opened.wait()
        assert self._console is not None, "attach() has made it"
        async with open_hidden_nursery() as nursery:
            if not self._on_http:
                bind = f"{_HOST}:{self._port}"
                [self._base] = await nursery.start(partial(serve_asgi, self._console, bind=bind))
            async with self._console.open():
                await trio.sleep_forever()

    def _announce(self, path: str) -> None:
        url = f"{self._base}{path}"
        click.echo(json.dumps({"console": url}) if self._as_json else f"console {url}", err=True)

    def _settings_of(self, server: Server, name: str) -> Iterable[ShownSetting]:
        plugin = server.plugins.plugins[name]
        cls = None if plugin.object is None or plugin.state == "disabled" else plugin.config_class
        return shown_settings(plugin, cls, tables_of(self._config).tables.get(name, {}), self._config.where)


def _current_request() -> tuple[int | None, str | None]:
    request = CURRENT.get()
    return (None, None) if request is None else (request.scope.session.number, request.scope.owner)
