"""Folders of agent skills as the MCP skills extension: the plugin ``skills`` of mcptrio.

Loaded by mcptrio through the entry point ``skills``. The one rule: the hooks are here and nothing else. The object that
carries the methods, the resources and the lifespan is registered, and nothing is kept in this module.
"""

from __future__ import annotations

from collections.abc import Callable

from mcptrio import hookimpl

from .config import Config
from .serving import Skills

__all__ = ["Config", "Skills", "configuration", "register_objects"]


@hookimpl
def configuration() -> type[Config]:
    """What ``[plugins.skills]`` may say."""
    return Config


@hookimpl
def register_objects(register: Callable[[object], object], config: Config) -> None:
    """Register the object whose methods are those of the extension."""
    register(Skills(config))
