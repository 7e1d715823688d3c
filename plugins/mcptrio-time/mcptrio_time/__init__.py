"""The plugin ``time`` of mcptrio: the time in any zone, and arithmetic with it.

mcptrio loads it through the entry point ``time``. This module contains only the hook that registers the tools, prompts
and resources.
"""

from __future__ import annotations

from mcptrio import PluginSetup, hookimpl

from .clock import Clock
from .config import Config
from .prompts import TimePrompts
from .tools import TimeTools

__all__ = ["Clock", "Config", "TimePrompts", "TimeTools", "setup"]


@hookimpl
def setup(server: PluginSetup, config: Config) -> None:
    """Add the objects whose methods are tools, prompts and resources.

    Raises:
        ConfigError: ``local_timezone`` is not a time zone.
    """
    tools = TimeTools(Clock(config))
    server.add(tools)
    server.add(TimePrompts(tools))
