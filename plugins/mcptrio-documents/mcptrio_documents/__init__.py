"""The plugin ``documents`` of mcptrio: PDF, Office and other documents as Markdown.

mcptrio loads it through the entry point ``documents``. Other plugins convert documents that they have with a
``DocumentConverter``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from mcptrio_fs.access import missing_directories, no_folder

from mcptrio import PluginSetup, hookimpl

from .config import Config
from .converter import DocumentConverter
from .document import PagedDocument
from .library import DocumentLibrary
from .texts import document_text, omissions
from .tools import Documents

__all__ = [
    "Config",
    "DocumentConverter",
    "DocumentLibrary",
    "Documents",
    "PagedDocument",
    "doctor",
    "document_text",
    "omissions",
    "setup",
]

logger = logging.getLogger(__name__)


@hookimpl
def setup(server: PluginSetup, config: Config) -> None:
    """Add the object whose methods are tools."""
    if not config.folders and not config.roots:
        logger.warning("%s", no_folder("documents"))
    library = DocumentLibrary(config)
    server.add(Documents(library))
    server.add_background(library.access.report_missing)


@hookimpl
def doctor(config: Config) -> Iterator[str]:
    """Yield the configured folders that cannot be used."""
    return missing_directories(config.folders, "documents")
