"""The names of tools and of their arguments.

They are made while operations are read. A name depends only on the document, so it stays the same when the operator
selects other operations.

Source: MCP 2026-07-28, server/tools, "Tool Names". Models are stricter: they accept ``[A-Za-z0-9_-]{1,64}`` as names of
tools, and ``[A-Za-z0-9_.-]{1,64}`` as names of properties.
"""

from __future__ import annotations

import hashlib
import re

__all__ = ["MAX_NAME_CHARS", "Names", "valid_name"]

MAX_NAME_CHARS = 64 - len("openapi_")
"""Maximum length of a tool's name without the prefix of the plugin."""
_INVALID = re.compile(r"[^A-Za-z0-9_-]+")
_INVALID_ARGUMENT = re.compile(r"[^A-Za-z0-9_.-]+")


def valid_name(text: str, max_chars: int, *, dots: bool = False) -> str:
    """Return a text as a name of 1 to ``max_chars`` characters. A name that is cut ends with a hash of the text."""
    name = (_INVALID_ARGUMENT if dots else _INVALID).sub("_", text).strip("_") or "unnamed"
    if len(name) <= max_chars:
        return name
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{name[: max_chars - 9].rstrip('_')}_{digest}"


class Names:
    """Assigns unique names.

    Args:
        max_chars: Maximum length of a name.
        dots: True if names may contain dots.
        reserved: Names that are not assigned.
    """

    def __init__(
        self, max_chars: int = MAX_NAME_CHARS, *, dots: bool = False, reserved: frozenset[str] = frozenset()
    ) -> None:
        self._max_chars = max_chars
        self._dots = dots
        self._used_names = set(reserved)
        self._numbers: dict[str, int] = {}
        """The last number that was appended to a name."""

    def assign(self, text: str, suffix: str = "") -> tuple[str, bool]:
        """Return a unique name for a text, and True if it differs from the usual name of this text.

        Args:
            suffix: A text that is appended if the usual name is already used. If that name is used too, a number is
                appended.
        """
        base_name = valid_name(text, self._max_chars, dots=self._dots)
        name = base_name
        if name in self._used_names and suffix:
            name = valid_name(f"{text}_{suffix}", self._max_chars, dots=self._dots)
        base = name
        while name in self._used_names:
            # Continue from the last number. If all operations had one name, counting from 1 would take quadratic time.
            number = self._numbers[base] = self._numbers.get(base, 1) + 1
            name = f"{base[: self._max_chars - len(str(number)) - 1]}_{number}"
        self._used_names.add(name)
        return name, name != base_name
