"""The plugins of a running server, as the configuration has them now.

Called at SIGHUP where one process serves over HTTP, sockets or the transport of a plugin.
"""

from __future__ import annotations

import logging

from mcptrio.commands.asked import Asked
from mcptrio.commands.plugin_server import isolation, tables_of
from mcptrio.errors import ConfigError, PluginError
from mcptrio.server import Server

__all__ = ["renew"]

_log = logging.getLogger("mcptrio.serve")


async def renew(server: Server, asked: Asked) -> None:
    """Take the configuration of plugins anew; what is wrong with it changes nothing."""
    try:
        read, wanted = asked.read_again()
        server.plugins.instead = isolation(read, asked.options, strict=server.plugins.strict)
        await server.renew_plugins(tables_of(read), wanted.includes)
    except (ConfigError, PluginError) as error:
        _log.error("the plugins stay as they are: %s", error)
    else:
        _log.info("the plugins are as the configuration has them now")
