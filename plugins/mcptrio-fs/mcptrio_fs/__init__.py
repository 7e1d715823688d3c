"""The plugin ``fs`` of mcptrio: the files of allowed folders as MCP tools and resources.

mcptrio loads it through the entry point ``fs``. This module contains only the hook ``setup``, which registers the
objects with the tools and resources.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from mcptrio import PluginSetup, hookimpl

from .access import FileAccess, missing_directories, no_folder
from .changes import FileChanges
from .config import Config
from .files import Files
from .resources import FileResources

__all__ = ["Config", "FileAccess", "FileChanges", "FileResources", "Files", "doctor", "setup"]

logger = logging.getLogger(__name__)


@hookimpl
def setup(server: PluginSetup, config: Config) -> None:
    """Add the objects whose methods are tools and resources."""
    if not config.folders and not config.roots:
        logger.warning("%s", no_folder("fs"))
    access = FileAccess(config)
    server.add(Files(access))
    if not config.read_only:
        server.add(FileChanges(access))
    server.add(FileResources(access))
    server.add_background(access.report_missing)


@hookimpl
def doctor(config: Config) -> Iterator[str]:
    """Yield the configured folders that cannot be used."""
    return missing_directories(config.folders, "fs")
