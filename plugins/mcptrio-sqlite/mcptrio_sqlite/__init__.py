"""SQLite databases as MCP tools and resources: the plugin ``sqlite`` of mcptrio.

Loaded by mcptrio through the entry point ``sqlite``. The one rule: the hooks are here and nothing else; nothing is kept
in this module.
"""

from __future__ import annotations

from mcptrio import PluginSetup, hookimpl

from .config import Config
from .objects import objects

__all__ = ["Config", "objects", "setup"]


@hookimpl
def setup(server: PluginSetup, config: Config) -> None:
    """Add the objects whose methods are tools, resources and prompts."""
    for each in objects(config):
        server.add(each)
