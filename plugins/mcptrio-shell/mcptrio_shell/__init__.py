"""Allow-listed commands as MCP tools, with resource limits and reliable termination: the plugin ``shell`` of mcptrio.

mcptrio loads it through the entry point ``shell``, which names :class:`Shell`.
"""

from __future__ import annotations

from .config import Config, Limits, Rule
from .shell import Shell

__all__ = ["Config", "Limits", "Rule", "Shell"]
