"""Checks whether the validator supports a regular expression of a document.

``Schemas`` calls it for every ``pattern`` and drops unsupported ones, because the tool would otherwise be left out.
"""

from __future__ import annotations

from functools import lru_cache

from mcptrio.schema import Validator

__all__ = ["is_supported"]

_MAX_PATTERN_CHARS = 2000


@lru_cache(maxsize=1000)
def is_supported(pattern: str) -> bool:
    """Return whether mcptrio's validator supports a pattern.

    The validator matches in linear time, so it supports neither look-around nor back-references.
    """
    if len(pattern) > _MAX_PATTERN_CHARS:
        return False
    try:
        Validator({"type": "string", "pattern": pattern})
    except ValueError:
        return False
    return True
