"""Parses and formats page ranges such as ``3-7,9``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mcptrio import ToolError

from .document import PagedDocument

__all__ = ["ranges_text", "selected_parts"]

_RANGE = re.compile(r"(\d{1,6})?\s*([-–:])?\s*(\d{1,6})?", re.ASCII)
_MAX_CHARS = 1000
_MAX_RANGES = 50
"""Maximum number of ranges in a text; further ones are only counted."""


def selected_parts(document: PagedDocument, pages: str) -> list[int]:
    """Return the indexes of the parts that a selection names, in its order; all of them if it is empty.

    Raises:
        ToolError: The text is not a valid selection, or a number is out of range.
    """
    count = len(document.parts)
    if not pages.strip():
        return list(range(count))
    titles = {part.title.casefold(): index for index, part in reversed(list(enumerate(document.parts))) if part.title}
    if (named := titles.get(pages.strip().casefold())) is not None:
        return [named]
    selected: dict[int, None] = {}
    for piece in pages[:_MAX_CHARS].split(","):
        text = piece.strip()
        if (named := titles.get(text.casefold())) is not None:
            selected[named] = None
            continue
        match = _RANGE.fullmatch(text)
        if len(pages) > _MAX_CHARS or match is None or not (match[1] or match[3]):
            raise ToolError(f"expected pages such as '3-7', '2,5-'{_or_title(document)}, got {pages[:100]!r}")
        first = int(match[1] or 1)
        last = int(match[3] or count) if match[2] else first
        if not 1 <= first <= last or first > count:
            raise ToolError(f"expected {document.unit}s within 1-{count}, got {text[:100]!r}")
        selected.update(dict.fromkeys(range(first - 1, min(last, count))))
    return list(selected)


def ranges_text(indexes: Iterable[int]) -> str:
    """Format sorted indexes as ranges of numbers from 1, such as ``3-7, 9``."""
    ranges: list[list[int]] = []
    for index in indexes:
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    text = ", ".join(
        str(first + 1) if first == last else f"{first + 1}-{last + 1}" for first, last in ranges[:_MAX_RANGES]
    )
    return text + (f" and {len(ranges) - _MAX_RANGES} more ranges" if len(ranges) > _MAX_RANGES else "")


def _or_title(document: PagedDocument) -> str:
    return "" if document.unit == "page" else f" or the title of a {document.unit}"
