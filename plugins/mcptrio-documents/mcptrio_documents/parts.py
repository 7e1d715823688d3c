"""Collects the parts of a document up to the limits of the conversion order."""

from __future__ import annotations

from .document import ConversionOrder, DocumentPart, OutlineEntry, PagedDocument, Unit

__all__ = ["PartCollector"]

_MAX_TITLE_CHARS = 200


class PartCollector:
    """The parts of a document while it is read.

    Attributes:
        notes: Omissions that the reader must know of.
        chars_left: Maximum number of characters of the next part.
    """

    def __init__(self, order: ConversionOrder) -> None:
        self.notes: list[str] = []
        self.chars_left = order.max_chars
        self._max_parts = order.max_parts
        self._parts: list[DocumentPart] = []
        self._total = 0

    def add(self, title: str, text: str) -> None:
        """Add a part. A part that exceeds a limit is cut, or only counted."""
        self._total += 1
        if len(self._parts) == self._max_parts or self.chars_left <= 0:
            return
        if len(text) > self.chars_left:
            text = text[: self.chars_left]
            self.notes.append(f"number {self._total} was cut after {len(text)} characters")
        self.chars_left -= max(len(text), 1)
        self._parts.append(DocumentPart(title[:_MAX_TITLE_CHARS], text))

    def document(self, *, kind: str, unit: Unit, title: str = "") -> PagedDocument:
        """Return the document. Its outline has the titles of the parts."""
        outline = [OutlineEntry(part.title, 0, number) for number, part in enumerate(self._parts, 1) if part.title]
        return PagedDocument(
            kind=kind,
            unit=unit,
            title=title,
            parts=self._parts,
            outline=outline,
            total=self._total,
            notes=self.notes,
        )
