"""Other MCP servers behind this one: the plugin ``proxy`` of mcptrio.

Loaded by mcptrio through the entry point ``proxy``. The one rule: the hooks are here and nothing else. What mounts the
servers is registered, and nothing is kept in this module.
"""

from __future__ import annotations

from mcptrio import PluginSetup, hookimpl

from .config import Config, Settings
from .proxy import Proxy
from .upstreams import Upstream, upstreams_of

__all__ = ["Config", "Proxy", "Settings", "Upstream", "setup", "upstreams_of"]


@hookimpl
def setup(server: PluginSetup, config: Config) -> None:
    """Add what mounts the servers and looks after them.

    Raises:
        ConfigError: a file cannot be read, or a setting is for a server that there is not.
    """
    server.set_tool_prefix("")  # each server has its own
    server.add(Proxy(upstreams_of(config), wait=config.start_timeout))
