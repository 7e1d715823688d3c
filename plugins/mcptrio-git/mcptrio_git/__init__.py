"""Git repositories as MCP tools, resources and prompts: the plugin ``git`` of mcptrio.

Loaded by mcptrio through the entry point ``git``. The one rule: the hooks are here and nothing else. mcptrio makes a
``Config`` of the settings, the objects that carry the tools are registered, and nothing is kept in this module.
"""

from __future__ import annotations

from collections.abc import Callable

from mcptrio import hookimpl

from .config import Config
from .plugin import objects_of

__all__ = ["Config", "configuration", "objects_of", "register_objects"]


@hookimpl
def configuration() -> type[Config]:
    """The class that ``[plugins.git]`` is read into."""
    return Config


@hookimpl
def register_objects(register: Callable[[object], object], config: Config) -> None:
    """Register the objects whose methods are tools, resources and prompts."""
    for each in objects_of(config):
        register(each)
