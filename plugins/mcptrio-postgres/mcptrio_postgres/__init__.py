"""PostgreSQL databases as MCP tools and resources: the plugin ``postgres`` of mcptrio.

mcptrio loads it through the entry point ``postgres``. The module has no state.
"""

from __future__ import annotations

from mcptrio import PluginSetup, hookimpl

from .config import Config
from .objects import objects

__all__ = ["Config", "objects", "setup"]


@hookimpl
def setup(server: PluginSetup, config: Config) -> None:
    """Register the objects whose methods are tools and resources."""
    for each in objects(config):
        server.add(each)
