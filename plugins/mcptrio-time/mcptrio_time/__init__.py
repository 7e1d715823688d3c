"""The time, in any time zone, and arithmetic with it: the plugin ``time`` of mcptrio.

Loaded by mcptrio through the entry point ``time``. The one rule: the hooks are here and nothing else. The objects that
carry the tools and prompts are registered, and nothing is kept in this module.
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
        ConfigError: ``local_timezone`` is no time zone.
    """
    tools = TimeTools(Clock(config))
    server.add(tools)
    server.add(TimePrompts(tools))
