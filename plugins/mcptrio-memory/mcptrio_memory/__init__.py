"""A knowledge graph that a model keeps between conversations, in SQLite: the plugin ``memory`` of mcptrio.

Loaded by mcptrio through the entry point ``memory``. The one rule: the hooks are here and nothing else. The objects
that carry the tools and resources are registered, and nothing is kept in this module.
"""

from __future__ import annotations

from collections.abc import Callable

from mcptrio import hookimpl

from .config import Config
from .memory import Memory
from .reading import Reading
from .resources import Resources
from .writing import Writing

__all__ = ["Config", "Memory", "Reading", "Resources", "Writing", "configuration", "register_objects"]


@hookimpl
def configuration() -> type[Config]:
    """The settings that ``[plugins.memory]`` may have."""
    return Config


@hookimpl
def register_objects(register: Callable[[object], object], config: Config) -> None:
    """Register the objects whose methods are tools and resources."""
    memory = Memory(config)
    register(memory)
    register(Reading(memory))
    if not config.read_only:
        register(Writing(memory))
    register(Resources(memory))
