"""The names under which clients see the tools of plugins: ``NAME_tool``, so that no plugin is in another's way.

Used when a plugin offers its tools.
The one rule: a name depends on the plugin and the tool only, so it is the same on every machine and every day.

Source: hosts accept ``[A-Za-z0-9_-]{1,64}``, several put a name of their own before it, and cut what is longer.
"""

from __future__ import annotations

import re

__all__ = ["LONG", "exposed", "is_portable"]

LONG = 40
"""Characters above which some host, with its own name for the server in front, cuts a tool's name."""

_PORTABLE = re.compile(r"[A-Za-z0-9_-]{1,64}")


def exposed(prefix: str, name: str) -> str:
    """The name of a tool with its plugin's prefix; one that begins with it is left as it is."""
    return name if not prefix or name == prefix or name.startswith(f"{prefix}_") else f"{prefix}_{name}"


def is_portable(name: str) -> bool:
    """Whether every host takes it."""
    return _PORTABLE.fullmatch(name) is not None
