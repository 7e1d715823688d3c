"""Checks whether a regular expression of a document can be used.

Called for every ``pattern``: one that the validator would refuse is dropped, so that it does not cost the tool.
"""

from __future__ import annotations

from functools import lru_cache

from mcptrio.schema import Validator

__all__ = ["is_supported"]

_MAX_PATTERN_CHARS = 2000


@lru_cache(maxsize=1000)
def is_supported(pattern: str) -> bool:
    """Whether mcptrio's validator takes the pattern: in linear time, so without look-around and back-references."""
    if len(pattern) > _MAX_PATTERN_CHARS:
        return False
    try:
        Validator({"type": "string", "pattern": pattern})
    except ValueError:
        return False
    return True
