"""The plugins of a running server, as the configuration has them now.

Called at SIGHUP where one process serves over HTTP, sockets or the transport of a plugin.
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
    """Return the function that renews the plugins of this server.

    Declares all lists: a plugin that is enabled later may have what the first ones lack, and clients that are connected
    by then ask for declared lists only.
    """
    server.announce_lists()
    return partial(_renew, server, settings)


async def _renew(server: Server, settings: ServeSettings) -> None:
    """Reload the configuration of plugins; an invalid one changes nothing."""
    try:
        read, wanted = settings.read_again()
        server.plugins.instead = isolation(read, settings.options, strict=server.plugins.strict)
        if wanted.mounts and MOUNT not in server.plugins.plugins:
            # The first server that is mounted. The renewal enables the plugin.
            add_mounts(server.plugins).disable()
        await server.renew_plugins(tables_of(read), wanted.includes)
    except (ConfigError, PluginError) as error:
        _log.error("the plugins stay as they are: %s", error)
    else:
        _log.info("the plugins are as the configuration has them now")
