"""Problems of a document: a JSON pointer and a message.

They are raised while a document is read, collected for each API, logged, and shown in the report. Because of a problem,
the smallest part around it is left out, such as an output schema or an operation.

Source: RFC 6901.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

__all__ = ["DocumentError", "DocumentProblem", "join", "name_kind", "shorten"]


@frozen(kw_only=True)
class DocumentProblem:
    """A problem in a document."""

    pointer: str
    """The JSON pointer of the invalid part, as a URI fragment such as ``#/paths/~1pets/get``."""

    text: str
    """The expected and the actual value."""

    lost: str | None = None
    """The part that is left out: an operation such as ``GET /pets``, a part of it, or everything. ``None``: nothing."""

    def __str__(self) -> str:
        return f"{self.text} at {self.pointer}" + (f"; left out: {self.lost}" if self.lost else "")


class DocumentError(ValueError):
    """A part of a document that cannot be used.

    Args:
        pointer: The JSON pointer of the part, as in :class:`DocumentProblem`.
        text: The expected and the actual value.
    """

    def __init__(self, pointer: str, text: str) -> None:
        super().__init__(f"{text} at {pointer}")
        self.pointer = pointer
        self.text = text


def join(pointer: str, *steps: str | int) -> str:
    """Append steps to a pointer. Long steps are cut, because pointers are only shown to people."""
    for step in steps:
        pointer += "/" + shorten(str(step), 200).replace("~", "~0").replace("/", "~1")
    return pointer


def name_kind(value: Any) -> str:
    """Return a JSON value for a message: a shortened scalar, or the type of a container."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    return repr(shorten(value, 60)) if isinstance(value, str) else shorten(str(value), 60)


def shorten(text: str, max_chars: int) -> str:
    """Truncate a text to this number of characters, on one line, without control characters."""
    if len(text) > 4 * max_chars:
        text = text[: 4 * max_chars]
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= max_chars else f"{line[: max_chars - 1].rstrip()}…"
