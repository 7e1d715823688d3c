"""The time, in any time zone, and arithmetic with it: the plugin ``time`` of mcptrio.

Loaded by mcptrio through the entry point ``time``. The one rule: the hooks are here and nothing else. The objects that
carry the tools and prompts are registered, and nothing is kept in this module.
"""

from __future__ import annotations

from collections.abc import Callable

from mcptrio import hookimpl

from .clock import Clock
from .config import Config
from .prompts import Prompts
from .tools import TimeTools

__all__ = ["Clock", "Config", "Prompts", "TimeTools", "configuration", "register_objects"]


@hookimpl
def configuration() -> type[Config]:
    """The settings that ``[plugins.time]`` may have."""
    return Config


@hookimpl
def register_objects(register: Callable[[object], object], config: Config) -> None:
    """Register the objects whose methods are tools, prompts and resources.

    Raises:
        ConfigError: ``local_timezone`` is no time zone.
    """
    tools = TimeTools(Clock(config))
    register(tools)
    register(Prompts(tools))
