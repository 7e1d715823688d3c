"""The outline of a file: the indented lines that define its symbols.

The tool ``outline`` uses it for the symbols of a language server or of ``SourceParser``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import frozen

from .code_lines import shorten
from .symbols import SourceSymbol

__all__ = ["FileOutline", "OutlineItem", "outline_of", "outline_text"]

_CODE_KINDS: Final = frozenset({"function", "method", "constructor"})
_INNER_KINDS: Final = frozenset({"class", "function", "method"})
"""Kinds of symbols that are shown inside functions. Local variables are omitted."""
_MAX_PAGE_CHARS: Final = 36_000


@frozen(kw_only=True)
class OutlineItem:
    """A symbol of a file."""

    line: int
    end_line: int
    depth: int
    kind: str
    name: str
    text: str
    """The line with the name of the symbol."""


@frozen(kw_only=True)
class FileOutline:
    """The symbols of a file in the order of its text."""

    path: str
    lines: int
    items: tuple[OutlineItem, ...]
    total: int
    next_offset: int | None = None


def outline_of(
    path: str, lines: Sequence[str], symbols: Sequence[SourceSymbol], *, limit: int, offset: int
) -> FileOutline:
    """Return a page of the symbols."""
    visible_symbols = [
        each for each in symbols if each.kind in _INNER_KINDS or not _CODE_KINDS.intersection(each.outer_kinds)
    ]
    items: list[OutlineItem] = []
    size = 0
    for each in visible_symbols[offset : offset + limit]:
        # The line of the name, because the symbol may begin with decorators.
        at = each.position.line
        text = shorten(lines[at]) if 0 <= at < len(lines) else each.names[-1]
        size += len(text) + 20
        if items and size > _MAX_PAGE_CHARS:
            break
        items.append(
            OutlineItem(
                line=each.line + 1,
                end_line=each.end_line + 1,
                depth=len(each.names) - 1,
                kind=each.kind,
                name=each.names[-1],
                text=text or each.names[-1],
            )
        )
    end = offset + len(items)
    next_offset = end if items and end < len(visible_symbols) else None
    return FileOutline(
        path=path, lines=len(lines), items=tuple(items), total=len(visible_symbols), next_offset=next_offset
    )


def outline_text(outline: FileOutline) -> str:
    """Format an outline: a line for the file, then one for each line that defines symbols, with line numbers."""
    lines = [f"{outline.path}: {outline.lines} lines"]
    for number, each in enumerate(outline.items):
        before = outline.items[number - 1] if number else None
        if before is not None and (before.line, before.text) == (each.line, each.text):
            continue
        span = str(each.line) if each.end_line == each.line else f"{each.line}-{each.end_line}"
        lines.append(f"{'  ' * each.depth}{span}: {each.text}")
    if not outline.items:
        lines.append("no symbols")
    if outline.next_offset is not None:
        lines.append(f"[{len(outline.items)} of {outline.total}; continue with offset={outline.next_offset}]")
    return "\n".join(lines)
