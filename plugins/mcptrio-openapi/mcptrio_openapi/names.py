"""The names of tools and of their arguments.

Made while operations are read. A name depends only on the document, so it stays the same when the operator chooses
other operations.

Source: MCP 2026-07-28, server/tools, "Tool Names"; the models' own limit is ``[A-Za-z0-9_-]{1,64}``, and
``[A-Za-z0-9_.-]{1,64}`` for properties.
"""

from __future__ import annotations

import hashlib
import re

__all__ = ["MAX_NAME_CHARS", "Names", "valid_name"]

MAX_NAME_CHARS = 64 - len("openapi_")
"""Characters of a tool's name without the plugin's, which the loader puts before it."""
_INVALID = re.compile(r"[^A-Za-z0-9_-]+")
_INVALID_ARGUMENT = re.compile(r"[^A-Za-z0-9_.-]+")


def valid_name(text: str, most: int, *, dots: bool = False) -> str:
    """Return a text as a name of 1 to ``most`` characters; a longer one ends in a hash of the whole."""
    name = (_INVALID_ARGUMENT if dots else _INVALID).sub("_", text).strip("_") or "unnamed"
    if len(name) <= most:
        return name
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{name[: most - 9].rstrip('_')}_{digest}"


class Names:
    """Gives out names that are unique among the names in use.

    Args:
        most: characters of a name.
        dots: whether a dot is valid.
        taken: The names that are reserved.
    """

    def __init__(self, most: int = MAX_NAME_CHARS, *, dots: bool = False, taken: frozenset[str] = frozenset()) -> None:
        self._most = most
        self._dots = dots
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}
        """The last number that was appended to a name."""

    def give(self, text: str, suffix: str = "") -> tuple[str, bool]:
        """A name for a text, and whether it is another one than the text alone would have had.

        Args:
            suffix: what tells it apart from others with the same text, before numbers do.
        """
        wanted = valid_name(text, self._most, dots=self._dots)
        name = wanted
        if name in self._taken and suffix:
            name = valid_name(f"{text}_{suffix}", self._most, dots=self._dots)
        base = name
        while name in self._taken:
            # Going on from the last one: a document may give one name to everything.
            number = self._numbers[base] = self._numbers.get(base, 1) + 1
            name = f"{base[: self._most - len(str(number)) - 1]}_{number}"
        self._taken.add(name)
        return name, name != wanted
