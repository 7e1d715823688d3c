"""The operations of OpenAPI documents as MCP tools: the plugin ``openapi`` of mcptrio.

Loaded by mcptrio through the entry point ``openapi``. The one rule: the hooks are here and nothing else; what needs the
configuration is in the object that is registered, and imported only when there is an API.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mcptrio import hookimpl

from .config import Api, Config, Credential

if TYPE_CHECKING:
    from .plugin import OpenAPI

__all__ = ["Api", "Config", "Credential", "OpenAPI", "configuration", "register_objects"]


@hookimpl
def configuration() -> type[Config]:
    """The class of the settings."""
    return Config


@hookimpl
def register_objects(register: Callable[[object], object], config: Config) -> None:
    """Register the object that reads the documents; without an API there is nothing to register."""
    if config.apis:
        from .plugin import OpenAPI

        register(OpenAPI(config))


def __getattr__(name: str) -> Any:
    if name == "OpenAPI":
        return import_module(f"{__name__}.plugin").OpenAPI
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=None)
