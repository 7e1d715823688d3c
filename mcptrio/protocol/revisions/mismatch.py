"""The error for a value of the wrong type.

The readers of :mod:`mcptrio.protocol.revisions.converter` raise it, and the converter adds the path.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["Mismatch", "describe"]

_MAX_QUOTED_CHARS: Final = 40
"""Characters of a string that a message shows; the value may be huge or secret."""


class Mismatch(Exception):
    """A value does not have the type that the revision requires.

    Args:
        expected: the expected type with its article, such as ``an integer``.
        got: the actual value.
        at: the path from the reader's value to this one, such as ``.type``.
    """

    def __init__(self, expected: str, got: Any, at: str = "") -> None:
        super().__init__(expected, got, at)
        self.expected = expected
        self.got = got
        self.at = at


def describe(value: Any) -> str:
    """Return a value for an error message: short ones as JSON, others by their type."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, int | float):
        # repr of an integer of a million digits takes seconds.
        return repr(value) if abs(value) < 10**_MAX_QUOTED_CHARS else "a huge number"
    if isinstance(value, str):
        short = value if len(value) <= _MAX_QUOTED_CHARS else value[:_MAX_QUOTED_CHARS] + "…"
        # unicode_escape: control characters must not reach a terminal or a log.
        return '"' + short.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'
    if isinstance(value, list | tuple):
        return "an array"
    if isinstance(value, dict):
        return "an object"
    return f"a {type(value).__name__}"
