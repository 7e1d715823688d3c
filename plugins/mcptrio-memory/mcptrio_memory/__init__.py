"""The plugin ``memory`` of mcptrio: a knowledge graph in SQLite that a model keeps between conversations.

mcptrio loads it through the entry point ``memory``. This module contains only the hook ``setup``, which registers the
objects with the tools and resources.
"""

from __future__ import annotations

from mcptrio import PluginSetup, hookimpl

from .config import Config
from .memory import Memory
from .read_tools import MemoryReadTools
from .resources import MemoryResources
from .write_tools import MemoryWriteTools

__all__ = ["Config", "Memory", "MemoryReadTools", "MemoryResources", "MemoryWriteTools", "setup"]


@hookimpl
def setup(server: PluginSetup, config: Config) -> None:
    """Add the objects whose methods are tools and resources."""
    memory = Memory(config)
    server.add(memory)
    server.add(MemoryReadTools(memory))
    if not config.read_only:
        server.add(MemoryWriteTools(memory))
    server.add(MemoryResources(memory))
