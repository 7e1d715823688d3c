"""Web pages as MCP tools, a prompt and resources: the plugin ``fetch`` of mcptrio.

Loaded by mcptrio through the entry point ``fetch``. The one rule: the hooks are here and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

from mcptrio import hookimpl

from .config import Config
from .resolving import Resolver, SystemResolver
from .tools import Fetch

__all__ = ["Config", "Fetch", "Resolver", "SystemResolver", "configuration", "register_objects"]


@hookimpl
def configuration() -> type[Config]:
    """The settings, ``[plugins.fetch]``."""
    return Config


@hookimpl
def register_objects(register: Callable[[object], object], config: Config) -> None:
    """Register the object whose methods are the tools, the prompt and the resources."""
    register(Fetch(config))
