"""The columns of a text on a terminal.

An approximation with the standard library alone; terminals differ in the rest.

Source: Unicode Standard Annex 11 (East Asian Width).
"""

from __future__ import annotations

import unicodedata

__all__ = ["columns", "cut", "fitting_count"]

# Combining marks and format characters take no column.
_ZERO_WIDTH = ("Mn", "Me", "Cf")


def columns(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_width, text))


def fitting_count(text: str, width: int) -> int:
    """Return how many characters of a text fit into ``width`` columns."""
    if text.isascii():
        return min(len(text), max(width, 0))
    used = 0
    for count, character in enumerate(text):
        used += _width(character)
        if used > width:
            return count
    return len(text)


def cut(text: str, width: int) -> str:
    """Return the text, or its beginning and an ellipsis, in at most ``width`` columns."""
    return text if columns(text) <= width else f"{text[: fitting_count(text, width - 1)]}…"


def _width(character: str) -> int:
    if unicodedata.category(character) in _ZERO_WIDTH:
        return 0
    # Characters of ambiguous width (A) are narrow outside East Asian locales.
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
