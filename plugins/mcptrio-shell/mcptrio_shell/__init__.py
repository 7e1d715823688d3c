"""Allow-listed commands as MCP tools, bounded and ended for certain: the plugin ``shell`` of mcptrio.

Loaded by mcptrio through the entry point ``shell``. The one rule: the hooks are here and nothing else. The object that
carries the tools, the resource and the lifespan is registered, and nothing is kept in this module.
"""

from __future__ import annotations

from collections.abc import Callable

from mcptrio import hookimpl

from .config import Config, Limits, Rule
from .shell import Shell

__all__ = ["Config", "Limits", "Rule", "Shell", "configuration", "register_objects"]


@hookimpl
def configuration() -> type[Config]:
    """What ``[plugins.shell]`` may say."""
    return Config


@hookimpl
def register_objects(register: Callable[[object], object], config: Config) -> None:
    """Register the object whose methods are the tools and the resource."""
    register(Shell(config))
