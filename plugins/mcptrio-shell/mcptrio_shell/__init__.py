"""Allow-listed commands as MCP tools, bounded and ended for certain: the plugin ``shell`` of mcptrio.

Loaded by mcptrio through the entry point ``shell``, which names :class:`Shell`.
"""

from __future__ import annotations

from .config import Config, Limits, Rule
from .shell import Shell

__all__ = ["Config", "Limits", "Rule", "Shell"]
