"""Web pages as MCP tools, a prompt and resources: the plugin ``fetch`` of mcptrio.

Loaded by mcptrio through the entry point ``fetch``, which names :class:`Fetch`.
"""

from __future__ import annotations

from .config import Config
from .resolving import Resolver, SystemResolver
from .tools import Fetch

__all__ = ["Config", "Fetch", "Resolver", "SystemResolver"]
