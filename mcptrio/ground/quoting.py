"""Quotes values that a peer has sent, for error messages.

Invisible characters are escaped (``\\x1b``, ``\\u202e``): see :mod:`mcptrio.ground.printable`.
"""

from __future__ import annotations

from mcptrio.ground.printable import printable

__all__ = ["printable", "quote", "quote_name"]

_MAX_QUOTED_CHARS = 60
"""Characters of a value that an error repeats."""


def quote(text: str, *, most: int = _MAX_QUOTED_CHARS) -> str:
    """Return the text in quotation marks, cut after ``most`` characters."""
    return f'"{printable(text)}"' if len(text) <= most else f'"{printable(text[:most])}…"'


def quote_name(name: str) -> str:
    """Return the name of a field in backticks, cut after 60 characters."""
    return f"`{printable(name[:_MAX_QUOTED_CHARS])}`"
