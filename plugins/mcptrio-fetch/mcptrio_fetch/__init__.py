"""Web pages as MCP tools, a prompt and resources: the plugin ``fetch`` of mcptrio.

Loaded by mcptrio through the entry point ``fetch``, which names :class:`FetchTools`.
"""

from __future__ import annotations

from .config import Config
from .resolving import Resolver, SystemResolver
from .tools import FetchTools

__all__ = ["Config", "FetchTools", "Resolver", "SystemResolver"]
