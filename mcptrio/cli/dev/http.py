"""``mcptrio dev --http``: a server that mounts the reloaded one.

:mod:`mcptrio.cli.dev` runs it instead of the relay. Its only plugin is the mount, so it need not be reloaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from mcptrio.cli.serve import RELOADED
from mcptrio.cli.server.http import serve_over_http
from mcptrio.cli.server.serve_settings import ServeSettings
from mcptrio.connecting.targets import Command
from mcptrio.ground.version import __version__
from mcptrio.mounting.mount import Mount
from mcptrio.mounting.options import MountOptions
from mcptrio.serve.config import ServeConfig
from mcptrio.serve.control_socket import ControlSocket
from mcptrio.serve.request_log import RequestLog
from mcptrio.server import Server

__all__ = ["serve_reloaded"]

_NAME: Final = "dev"
_START_TIMEOUT: Final = 60.0
"""Seconds that the start waits for the first worker; then it serves without the worker's entries."""


def serve_reloaded(options: Mapping[str, Any], config: ServeConfig, command: Sequence[str]) -> None:
    """Serve until a signal ends it.

    Args:
        command: The command that starts the mounted server.
    """
    # Several workers would each mount their own server.
    if config.http.workers != 1:
        raise config.error(("http", "workers"), "expected 1 with `mcptrio dev`, which reloads a single process")
    make = partial(_make, config, command)
    # SIGHUP changes no plugins here. The mounted server has them, and watches the configuration itself.
    settings = ServeSettings(
        make=make,
        chosen=None,
        config=config,
        options=options,
        addresses=options["listen"],
        control=ControlSocket("http"),
    )
    serve_over_http(settings, None)


def _make(config: ServeConfig, command: Sequence[str]) -> Server:
    # The plugins run in the mounted process, and may read any variable of the author's environment.
    target = Command(args=command, env={RELOADED: "http"}, inherit_env=True, stderr="forward")
    server = Server(
        config.server.name,
        version=__version__,
        instructions=config.server.instructions,
        # Without a prefix, the tools have the same names as under "mcptrio serve".
        plugins=[Mount(target, name=_NAME, options=MountOptions(prefix="", start_timeout=_START_TIMEOUT))],
        settings=config.server,
    )
    # This process logs the requests, because the clients connect to it. The worker logs none, because the mount is its
    # only client.
    server.add_observer(RequestLog())
    # A reload adds and removes entries. Clients expect changes only of lists that were declared at the start.
    server.announce_lists()
    return server
