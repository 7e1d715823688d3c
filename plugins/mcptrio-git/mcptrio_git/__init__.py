"""The plugin ``git`` of mcptrio: Git repositories as MCP tools, resources and prompts.

mcptrio loads it through the entry point ``git``. This module contains only the hook ``setup``, which registers the
objects with the tools, resources and prompts.
"""

from __future__ import annotations

from mcptrio import PluginSetup, hookimpl

from .config import Config
from .plugin import objects_of

__all__ = ["Config", "objects_of", "setup"]


@hookimpl
def setup(server: PluginSetup, config: Config) -> None:
    """Add the objects whose methods are tools, resources and prompts."""
    for each in objects_of(config):
        server.add(each)
