"""PageFetcher pages as MCP tools, a prompt and resources: the plugin ``fetch`` of mcptrio.

mcptrio loads it through the entry point ``fetch``, which names :class:`Fetch`.
"""

from __future__ import annotations

from .config import Config
from .resolver import Resolver, SystemResolver
from .tools import Fetch

__all__ = ["Config", "Fetch", "Resolver", "SystemResolver"]
