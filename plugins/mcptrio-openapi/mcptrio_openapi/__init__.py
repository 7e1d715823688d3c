"""The plugin ``openapi`` of mcptrio: the operations of OpenAPI documents as MCP tools.

mcptrio loads it through the entry point ``openapi``. This module contains only the hook ``setup``. The class of the
object that it registers is imported only if an API is configured.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mcptrio import PluginSetup, hookimpl

from .config import Api, Config, Credential

if TYPE_CHECKING:
    from .plugin import OpenAPI

__all__ = ["Api", "Config", "Credential", "OpenAPI", "setup"]


@hookimpl
def setup(server: PluginSetup, config: Config) -> None:
    """Add the object that reads the documents, if an API is configured."""
    if config.apis:
        from .plugin import OpenAPI

        server.add(OpenAPI(config))


def __getattr__(name: str) -> Any:
    if name == "OpenAPI":
        return import_module(f"{__name__}.plugin").OpenAPI
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=None)
