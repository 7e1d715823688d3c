"""Source code through language servers as MCP tools: the plugin ``code`` of mcptrio.

mcptrio loads it through the entry point ``code``. The module has no state.
"""

from __future__ import annotations

import logging

from mcptrio import PluginSetup, hookimpl

from .config import Config, ServerConfig
from .diagnosing import Diagnosing
from .locating import Locating
from .renaming import Renaming
from .servers import LanguageServers
from .source_parser import SourceParser

__all__ = ["Config", "ServerConfig", "setup"]

logger = logging.getLogger(__name__)


@hookimpl
def setup(server: PluginSetup, config: Config) -> None:
    """Register the objects whose methods are tools."""
    if not config.folders:
        logger.warning("no folder is allowed yet; set folders in [plugins.code] or MCPTRIO_CODE_FOLDERS")
    servers = LanguageServers(config)
    server.add(servers)
    server.add(Locating(servers, SourceParser(config.request_timeout)))
    server.add(Diagnosing(servers))
    if not config.read_only:
        server.add(Renaming(servers))
