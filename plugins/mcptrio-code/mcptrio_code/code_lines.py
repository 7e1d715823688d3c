"""Lines of files as results of the tools, in pages.

The tools for definitions, references, symbols and diagnostics return them. Files outside the folders are not read, so
their lines have no text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Annotated, Final

from attrs import frozen
from msgspec import Meta

from mcptrio import ToolError

from .folders import CodeFolders, path_of_uri
from .messages import Location
from .positions import split_lines

__all__ = ["CodeLine", "CodeLines", "Limit", "Line", "Offset", "Path", "Symbol", "lines_text", "page_of", "shorten"]

Path = Annotated[str, Meta(min_length=1, description="Absolute, or relative to a folder.")]
Symbol = Annotated[str, Meta(min_length=1, max_length=500, description="Name or Class.method.")]
Line = Annotated[int, Meta(ge=0, description="Line with the name, if ambiguous.")]
Limit = Annotated[int, Meta(ge=1, le=1000)]
Offset = Annotated[int, Meta(ge=0)]

_MAX_PAGE_CHARS: Final = 36_000
"""About 9,000 tokens."""
_MAX_TEXT_CHARS: Final = 200


@frozen(kw_only=True)
class CodeLine:
    """A line of a file."""

    path: str
    line: int
    text: str = ""


@frozen(kw_only=True)
class CodeLines:
    """Lines of files in order."""

    items: tuple[CodeLine, ...]
    total: int
    next_offset: int | None = None
    notes: tuple[str, ...] = ()


def shorten(text: str) -> str:
    """Return a text on one line, truncated."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_TEXT_CHARS else f"{line[:_MAX_TEXT_CHARS]}…"


def page_of(
    folders: CodeFolders, locations: Iterable[Location], *, limit: int, offset: int, notes: Sequence[str] = ()
) -> CodeLines:
    """Return a page of the lines at locations, without duplicates. Must be called in a thread: it reads files."""
    places = {(path, each.range.start.line) for each in locations if (path := path_of_uri(each.uri)) is not None}
    # The server may not know yet that a file was deleted.
    existing = {path for path in {path for path, _ in places} if os.path.exists(path)}
    ordered = sorted(each for each in places if each[0] in existing)
    items: list[CodeLine] = []
    size = 0
    read: tuple[str, list[str]] = ("", [])
    for path, line in ordered[offset : offset + limit]:
        if read[0] != path:
            read = (path, _lines(folders, path))
        text = shorten(read[1][line]) if 0 <= line < len(read[1]) else ""
        place = CodeLine(path=folders.display_path(path), line=line + 1, text=text)
        size += len(place.path) + len(text) + 12
        if items and size > _MAX_PAGE_CHARS:
            break
        items.append(place)
    end = offset + len(items)
    return CodeLines(
        items=tuple(items),
        total=len(ordered),
        next_offset=end if end < len(ordered) and items else None,
        notes=tuple(notes),
    )


def lines_text(places: CodeLines) -> str:
    """Format lines as ``path:line: text``, then the notes and the offset of the next page."""
    lines = [
        f"{each.path}:{each.line}: {each.text}" if each.text else f"{each.path}:{each.line}" for each in places.items
    ]
    lines = lines or ["nothing found"]
    lines += [f"[{note}]" for note in places.notes]
    if places.next_offset is not None:
        lines.append(f"[{len(places.items)} of {places.total}; continue with offset={places.next_offset}]")
    return "\n".join(lines)


def _lines(folders: CodeFolders, path: str) -> list[str]:
    if folders.folder_of(path) is None:
        return []
    try:
        return split_lines(folders.read(path).text)
    except ToolError:
        return []  # deleted in the meantime, or too large; the location is still returned
