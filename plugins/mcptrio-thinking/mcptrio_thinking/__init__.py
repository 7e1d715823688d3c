"""Thinking step by step, as an MCP tool with a history: the plugin ``thinking`` of mcptrio.

Loaded by mcptrio through the entry point ``thinking``. The one rule: the hooks are here and nothing else; nothing is
kept in this module.
"""

from __future__ import annotations

from collections.abc import Callable

from mcptrio import hookimpl

from .config import Config
from .thinking import Thinking

__all__ = ["Config", "Thinking", "configuration", "register_objects"]


@hookimpl
def configuration() -> type[Config]:
    """The settings, as ``[plugins.thinking]`` has them."""
    return Config


@hookimpl
def register_objects(register: Callable[[object], object], config: Config) -> None:
    """Register the object whose methods are the tools and the resource."""
    register(Thinking(config))
