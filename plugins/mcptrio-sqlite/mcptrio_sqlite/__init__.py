"""SQLite databases as MCP tools and resources: the plugin ``sqlite`` of mcptrio.

mcptrio loads it through the entry point ``sqlite``. The module has no state.
"""

from __future__ import annotations

from collections.abc import Iterator

from mcptrio import PluginSetup, hookimpl

from .config import Config
from .databases import Databases
from .objects import objects

__all__ = ["Config", "doctor", "objects", "setup"]


@hookimpl
def setup(server: PluginSetup, config: Config) -> None:
    """Register the objects whose methods are tools, resources and prompts."""
    for each in objects(config):
        server.add(each)
    server.add_background(Databases(config).report_problems)


@hookimpl
def doctor(config: Config) -> Iterator[str]:
    """Return the configured paths that do not exist."""
    return Databases(config).problems()
