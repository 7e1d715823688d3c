"""Folders of agent skills as the MCP skills extension: the plugin ``skills`` of mcptrio.

mcptrio loads it through the entry point ``skills``, which names :class:`Skills`.
"""

from __future__ import annotations

from .config import Config
from .skills import Skills

__all__ = ["Config", "Skills"]
