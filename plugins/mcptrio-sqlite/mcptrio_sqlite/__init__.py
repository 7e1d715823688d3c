"""SQLite databases as MCP tools and resources: the plugin ``sqlite`` of mcptrio.

Loaded by mcptrio through the entry point ``sqlite``. The one rule: the hooks are here and nothing else; nothing is kept
in this module.
"""

from __future__ import annotations

from collections.abc import Callable

from mcptrio import hookimpl

from .config import Config
from .objects import objects

__all__ = ["Config", "configuration", "objects", "register_objects"]


@hookimpl
def configuration() -> type[Config]:
    """The settings, as ``[plugins.sqlite]`` has them."""
    return Config


@hookimpl
def register_objects(register: Callable[[object], object], config: Config) -> None:
    """Register the objects whose methods are tools, resources and prompts."""
    for each in objects(config):
        register(each)
