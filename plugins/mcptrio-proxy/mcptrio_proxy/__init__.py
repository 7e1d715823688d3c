"""Other MCP servers behind this one: the plugin ``proxy`` of mcptrio.

Loaded by mcptrio through the entry point ``proxy``. The one rule: the hooks are here and nothing else. What mounts the
servers is registered, and nothing is kept in this module.
"""

from __future__ import annotations

from collections.abc import Callable

from mcptrio import hookimpl

from .config import Config, Settings
from .proxy import Proxy
from .upstreams import Upstream, upstreams_of

__all__ = ["Config", "Proxy", "Settings", "Upstream", "configuration", "prefix", "register_objects", "upstreams_of"]


@hookimpl
def configuration() -> type[Config]:
    """The settings that ``[plugins.proxy]`` may have."""
    return Config


@hookimpl
def prefix() -> str:
    """None: each server has its own."""
    return ""


@hookimpl
def register_objects(register: Callable[[object], object], config: Config) -> None:
    """Register what mounts the servers and looks after them.

    Raises:
        ConfigError: a file cannot be read, or a setting is for a server that there is not.
    """
    register(Proxy(upstreams_of(config), wait=config.wait))
