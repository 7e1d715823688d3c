"""The files of allowed folders as MCP tools and resources: the plugin ``fs`` of mcptrio.

Loaded by mcptrio through the entry point ``fs``. The one rule: the hooks are here and nothing else. mcptrio makes a
``Config`` of the settings, the objects that carry the tools and resources are registered, and nothing is kept in this
module.
"""

from __future__ import annotations

from mcptrio import PluginSetup, hookimpl

from .access import FileAccess
from .changes import FileChanges
from .config import Config
from .files import Files
from .resources import FileResources

__all__ = ["Config", "FileAccess", "FileChanges", "FileResources", "Files", "setup"]


@hookimpl
def setup(server: PluginSetup, config: Config) -> None:
    """Add the objects whose methods are tools and resources."""
    access = FileAccess(config)
    server.add(Files(access))
    if not config.read_only:
        server.add(FileChanges(access))
    server.add(FileResources(access))
