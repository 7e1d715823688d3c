"""The tool names that clients see: ``NAME_tool``, so that the tools of two plugins cannot collide.

These functions are used when a plugin registers its tools. A name depends only on the plugin and the tool.

Source: host applications accept ``[A-Za-z0-9_-]{1,64}``; several add their own prefix and truncate longer names.
"""

from __future__ import annotations

import re

__all__ = ["MAX_UNTRUNCATED_CHARS", "is_portable", "prefixed_name"]

MAX_UNTRUNCATED_CHARS = 40
"""Characters of a tool's name. Hosts that add their own prefix truncate longer names."""

_PORTABLE = re.compile(r"[A-Za-z0-9_-]{1,64}")


def prefixed_name(prefix: str, name: str) -> str:
    """Return the name of a tool with its plugin's prefix. A name that already starts with it is not changed."""
    return name if not prefix or name == prefix or name.startswith(f"{prefix}_") else f"{prefix}_{name}"


def is_portable(name: str) -> bool:
    """Return whether every host accepts the name."""
    return _PORTABLE.fullmatch(name) is not None
