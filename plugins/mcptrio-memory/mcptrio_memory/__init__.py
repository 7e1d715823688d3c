"""A knowledge graph that a model keeps between conversations, in SQLite: the plugin ``memory`` of mcptrio.

Loaded by mcptrio through the entry point ``memory``. The one rule: the hooks are here and nothing else. The objects
that carry the tools and resources are registered, and nothing is kept in this module.
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
