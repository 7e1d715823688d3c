"""The plugin ``memory`` of mcptrio: a knowledge graph in SQLite that a model keeps between conversations.

mcptrio loads it through the entry point ``memory``. This module contains only the hooks, which register the objects
with the tools and resources.
"""

from __future__ import annotations

from mcptrio import PluginSetup, hookimpl

from .config import Config
from .memory import Memory
from .reading import MemoryReading
from .resources import MemoryResources
from .writing import Writing

__all__ = ["Config", "Memory", "MemoryReading", "MemoryResources", "Writing", "setup"]


@hookimpl
def setup(server: PluginSetup, config: Config) -> None:
    """Add the objects whose methods are tools and resources."""
    memory = Memory(config)
    server.add(memory)
    server.add(MemoryReading(memory))
    if not config.read_only:
        server.add(Writing(memory))
    server.add(MemoryResources(memory))
