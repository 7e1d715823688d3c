"""The files of allowed folders as MCP tools and resources: the plugin ``fs`` of mcptrio.

Loaded by mcptrio through the entry point ``fs``. The one rule: the hooks are here and nothing else. Settings become a
``Config``, the objects that carry the tools and resources are registered, and nothing is kept in this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mcptrio import hookimpl

from .access import Access
from .changes import Changes
from .config import Config
from .files import Files
from .resources import FileResources

__all__ = ["Access", "Changes", "Config", "FileResources", "Files", "register_objects"]


@hookimpl
def register_objects(register: Callable[[object], object], config: Mapping[str, Any]) -> None:
    """Register the objects whose methods are tools and resources.

    Raises:
        ConfigError: a setting does not fit.
    """
    access = Access(Config.load(config))
    register(Files(access))
    if not access.config.read_only:
        register(Changes(access))
    register(FileResources(access))
