"""An error about a value, for its sender.

The readers of :mod:`mcptrio.protocol.revisions.converter` raise it, and the converter adds the path. It has the
expected value and a short form of the actual one.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["Mismatch", "describe"]

_MAX_QUOTED_CHARS: Final = 40
"""Characters of a string in a message; the value may be huge, and secret."""


class Mismatch(Exception):
    """A value is not of the type the revision asks for.

    Args:
        expected: with its article, e.g. ``an integer``.
        got: the value that came.
        at: the path from the value the reader was given to this one, e.g. ``.type``.
    """

    def __init__(self, expected: str, got: Any, at: str = "") -> None:
        super().__init__(expected, got, at)
        self.expected = expected
        self.got = got
        self.at = at


def describe(value: Any) -> str:
    """A value as an error message shows it: small ones as JSON, others by their kind."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value) if abs(value) < 10**_MAX_QUOTED_CHARS else "a huge number"
    if isinstance(value, str):
        short = value if len(value) <= _MAX_QUOTED_CHARS else value[:_MAX_QUOTED_CHARS] + "…"
        return '"' + short.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'
    if isinstance(value, list | tuple):
        return "an array"
    if isinstance(value, dict):
        return "an object"
    return f"a {type(value).__name__}"
