"""The operations of OpenAPI documents as MCP tools: the plugin ``openapi`` of mcptrio.

Loaded by mcptrio through the entry point ``openapi``. The one rule: the hooks are here and nothing else; what needs the
configuration is in the object that is registered, and imported only when there is an API.
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
    """Add the object that reads the documents; without an API there is nothing to add."""
    if config.apis:
        from .plugin import OpenAPI

        server.add(OpenAPI(config))


def __getattr__(name: str) -> Any:
    if name == "OpenAPI":
        return import_module(f"{__name__}.plugin").OpenAPI
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=None)
