"""The error for a value of the wrong type, and the form in which errors show values of a peer.

The readers of :mod:`mcptrio.protocol.revisions.converter` raise it, and the converter adds the path. Messages about
arguments and schemas show values in the same form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["Mismatch", "show_place", "show_value"]

_MAX_QUOTED_CHARS: Final = 60
"""Characters of a string that a message shows; the value may be huge or secret."""


class Mismatch(Exception):
    """A value does not have the type that the revision requires.

    Args:
        expected: The expected type with its article, such as ``an integer``.
        got: The actual value.
        at: The path from the reader's value to this one, such as ``.type``.
    """

    def __init__(self, expected: str, got: Any, at: str = "") -> None:
        super().__init__(expected, got, at)
        self.expected = expected
        self.got = got
        self.at = at


def show_place(path: str) -> str:
    """Return the place of a value for an error message: " at `rows[3].name`"; an empty text for the whole value.

    Args:
        path: A JSON path, such as ``$.rows[3].name``.
    """
    name = path.removeprefix("$").removeprefix(".")
    return f" at `{name}`" if name else ""


def show_value(value: Any) -> str:
    """Return a value for an error message: a number, null or a shortened string as JSON, any other value by its
    type."""
    if isinstance(value, int | float | None):
        # Python refuses to format integers of more than 4,300 digits.
        return "a very large integer" if isinstance(value, int) and value.bit_length() > 128 else json.dumps(value)
    if isinstance(value, str):
        # unicode_escape, because control characters must not reach a terminal or a log.
        escaped = value[:_MAX_QUOTED_CHARS].encode("unicode_escape").decode("ascii").replace('"', '\\"')
        return f'"{escaped}…"' if len(value) > _MAX_QUOTED_CHARS else f'"{escaped}"'
    if isinstance(value, Sequence):
        return "an array"
    if isinstance(value, Mapping):
        return "an object"
    return f"a {type(value).__name__}"
