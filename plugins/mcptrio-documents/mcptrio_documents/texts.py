"""The answers of the tools: compact texts, with a last line on how to continue."""

from __future__ import annotations

from collections.abc import Sequence

from .document import PagedDocument
from .search import DocumentHits
from .selection import ranges_text

__all__ = ["description_text", "document_text", "hits_text", "omissions", "part_text"]

_MAX_SHORTENING = 300
"""Maximum number of characters by which an answer is shortened so that it ends with a whole line."""


def document_text(document: PagedDocument, selected: Sequence[int] | None = None) -> str:
    """Return a document as Markdown, with a line such as ``[page 3]`` before each part that has text.

    Args:
        selected: The indexes of the parts; all if None.
    """
    indexes = range(len(document.parts)) if selected is None else selected
    parts = [(index, document.parts[index].text) for index in indexes]
    return "\n\n".join(f"{_heading(document, index)}\n{text}" for index, text in parts if text)


def omissions(document: PagedDocument, selected: Sequence[int] | None = None) -> list[str]:
    """Return notes on parts that the text omits, such as scanned pages and pages after the limit.

    Args:
        selected: The indexes of the parts; all if None.
    """
    return _empty_part_notes(
        document, range(len(document.parts)) if selected is None else selected
    ) + _conversion_notes(document)


def part_text(document: PagedDocument, selected: Sequence[int], *, offset: int, max_chars: int) -> str:
    """Return the text of parts, each after a line with its number.

    Args:
        offset: The index of the first character.
        max_chars: Maximum number of characters.
    """
    text = document_text(document, selected)
    piece = text[offset : offset + max_chars]
    shortening = min(_MAX_SHORTENING, len(piece) // 2)
    if offset + len(piece) < len(text) and (line_end := piece.rfind("\n", len(piece) - shortening)) > 0:
        piece = piece[: line_end + 1]
    end = offset + len(piece)
    notes = []
    if offset and offset >= len(text):
        notes.append(f"no more text, the selection has {len(text)} characters")
    elif offset or end < len(text):
        notes.append(f"characters {offset} to {end} of {len(text)}")
    notes += omissions(document, selected)
    if end < len(text):
        notes.append(f"continue with offset={end}")
    return "\n".join([*filter(None, [piece.rstrip("\n")]), *([f"[{'; '.join(notes)}]"] if notes else [])])


def description_text(document: PagedDocument, name: str, max_chars: int) -> str:
    """Return the kind, length and outline of a document.

    Args:
        max_chars: Maximum number of characters.
    """
    chars = sum(len(part.text) for part in document.parts)
    lines = [f"{name}: {document.kind}, {_count(document)}, {chars} characters"]
    if document.title:
        lines.append(f"title: {document.title}")
    lines += omissions(document)
    if document.outline:
        lines.append(f"outline ({document.unit}, title):")
    size = sum(map(len, lines))
    for entry in document.outline:
        line = f"{'  ' * entry.level}{entry.number or '-'} {entry.title}"
        if document.unit != "page" and entry.number:
            line += f" ({len(document.parts[entry.number - 1].text)} characters)"
        size += len(line) + 1
        if size > max_chars:
            lines.append("[the outline was cut; search finds titles as well]")
            break
        lines.append(line)
    return "\n".join(lines)


def hits_text(document: PagedDocument, hits: DocumentHits, *, offset: int, limit: int, max_chars: int) -> str:
    """Return a line for each hit, with the number of its part.

    Args:
        offset: The index of the first hit.
        limit: Maximum number of hits.
        max_chars: Maximum number of characters.
    """
    lines: list[str] = []
    size = 0
    for index, excerpt in hits.items[offset : offset + limit]:
        line = f"{document.unit} {index + 1}: {excerpt}"
        size += len(line) + 1
        if size > max_chars and lines:
            break
        lines.append(line)
    end = offset + len(lines)
    notes = []
    if not hits.items:
        notes.append(f"no hits in {_count(document)}; try fewer or other words")
    elif hits.match_words_only:
        notes.append(f"no {document.unit} has this phrase; these have all its words")
    if end < len(hits.items):
        notes.append(f"{len(lines)} of {len(hits.items)} hits; continue with offset={end}")
    elif offset and not lines:
        notes.append(f"no more hits, there are {len(hits.items)}")
    if not hits.items:
        notes += _empty_part_notes(document, range(len(document.parts)))
    notes += _conversion_notes(document)
    return "\n".join([*lines, *([f"[{'; '.join(notes)}]"] if notes else [])])


def _heading(document: PagedDocument, index: int) -> str:
    title = document.parts[index].title
    # The text of a sheet does not contain its name. Other parts usually begin with their title.
    named = f": {title}" if title and document.unit == "sheet" else ""
    return f"[{document.unit} {index + 1}{named}]"


def _count(document: PagedDocument) -> str:
    return f"{document.total} {document.unit}{'' if document.total == 1 else 's'}"


def _empty_part_notes(document: PagedDocument, selected: Sequence[int]) -> list[str]:
    without = sorted(index for index in selected if not document.parts[index].text)
    why = ", perhaps scanned" if document.unit == "page" else ""
    return [f"without text{why}: {document.unit}s {ranges_text(without)}"] if without else []


def _conversion_notes(document: PagedDocument) -> list[str]:
    notes = list(document.notes[:5])
    if document.total > len(document.parts):
        notes.append(f"{document.unit}s after {len(document.parts)} of {document.total} were not read")
    return notes
