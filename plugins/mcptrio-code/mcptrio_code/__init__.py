"""Source code through language servers as MCP tools: the plugin ``code`` of mcptrio.

mcptrio loads it through the entry point ``code``. The module has no state.
"""

from __future__ import annotations

import logging

from mcptrio import PluginSetup, hookimpl

from .config import Config, ServerConfig
from .diagnostics_tool import DiagnosticsTool
from .folders import NO_FOLDER
from .read_tools import CodeReadTools
from .rename_tool import RenameTool
from .servers import LanguageServers
from .source_parser import SourceParser

__all__ = ["Config", "ServerConfig", "setup"]

logger = logging.getLogger(__name__)


@hookimpl
def setup(server: PluginSetup, config: Config) -> None:
    """Register the objects whose methods are tools."""
    if not config.folders:
        logger.warning(NO_FOLDER)
    servers = LanguageServers(config)
    server.add(servers)
    server.add(CodeReadTools(servers, SourceParser(config.request_timeout)))
    server.add(DiagnosticsTool(servers))
    if not config.read_only:
        server.add(RenameTool(servers))
