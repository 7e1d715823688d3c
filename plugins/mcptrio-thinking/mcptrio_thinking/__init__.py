"""Thinking step by step, as an MCP tool with a history: the plugin ``thinking`` of mcptrio.

mcptrio loads it through the entry point ``thinking``, which names :class:`Thinking`.
"""

from __future__ import annotations

from .config import Config
from .thinking import Thinking

__all__ = ["Config", "Thinking"]
