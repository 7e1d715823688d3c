"""Git repositories as MCP tools, resources and prompts: the plugin ``git`` of mcptrio.

Loaded by mcptrio through the entry point ``git``. The one rule: the hooks are here and nothing else. mcptrio makes a
``Config`` of the settings, the objects that carry the tools are registered, and nothing is kept in this module.
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
