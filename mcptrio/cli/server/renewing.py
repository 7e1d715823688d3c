"""Reloads the plugins of a running server when SIGHUP arrives.

Used if a single process serves over HTTP, sockets or the transport of a plugin.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from mcptrio.cli.server.plugin_server import MOUNT, add_mounts, isolation, tables_of
from mcptrio.cli.server.serve_settings import ServeSettings
from mcptrio.errors import ConfigError, PluginError
from mcptrio.server import Server

__all__ = ["renewal"]

_log = logging.getLogger("mcptrio.serve")


def renewal(server: Server, settings: ServeSettings) -> Callable[[], Awaitable[None]]:
    """Return the function that reloads the plugins of this server, and declare all lists."""
    # A plugin that is enabled later may have what the first ones lack, and clients request only declared lists.
    server.announce_lists()
    return partial(_renew, server, settings)


async def _renew(server: Server, settings: ServeSettings) -> None:
    """Read the configuration of the plugins again and apply it; an invalid one changes nothing."""
    try:
        read, wanted = settings.read_again()
        server.plugins.instead = isolation(read, settings.options, strict=server.plugins.strict)
        if wanted.mounts and MOUNT not in server.plugins.plugins:
            # This is the first mounted server. renew_plugins enables the plugin.
            add_mounts(server.plugins).disable()
        await server.renew_plugins(tables_of(read), wanted.includes)
    except (ConfigError, PluginError) as error:
        _log.error("plugins not reloaded: %s", error)
    else:
        _log.info("plugins reloaded")
