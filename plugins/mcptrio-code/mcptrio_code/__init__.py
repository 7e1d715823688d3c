"""Source code through language servers as MCP tools: the plugin ``code`` of mcptrio.

mcptrio loads it through the entry point ``code``. The module has no state.
"""

from __future__ import annotations

import logging

from mcptrio import PluginSetup, hookimpl

from .config import Config, ServerConfig
from .diagnostics_tool import DiagnosticsTool
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
        logger.warning("no folder is allowed yet; set folders in [plugins.code] or MCPTRIO_CODE_FOLDERS")
    servers = LanguageServers(config)
    server.add(servers)
    server.add(CodeReadTools(servers, SourceParser(config.request_timeout)))
    server.add(DiagnosticsTool(servers))
    if not config.read_only:
        server.add(RenameTool(servers))
