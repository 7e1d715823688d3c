"""A knowledge graph that a model keeps between conversations, in SQLite: the plugin ``memory`` of mcptrio.

Loaded by mcptrio through the entry point ``memory``. The one rule: the hooks are here and nothing else. The objects
that carry the tools and resources are registered, and nothing is kept in this module.
"""

from __future__ import annotations

from mcptrio import PluginSetup, hookimpl

from .config import Config
from .memory import Memory
from .reading import Reading
from .resources import Resources
from .writing import Writing

__all__ = ["Config", "Memory", "Reading", "Resources", "Writing", "setup"]


@hookimpl
def setup(server: PluginSetup, config: Config) -> None:
    """Add the objects whose methods are tools and resources."""
    memory = Memory(config)
    server.add(memory)
    server.add(Reading(memory))
    if not config.read_only:
        server.add(Writing(memory))
    server.add(Resources(memory))
