"""A converted document, and the order to convert one.

The process that converts makes documents; the server decodes, caches and searches them. Both import this module, so it
imports nothing of mcptrio.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ["ConversionOrder", "DocumentPart", "OutlineEntry", "PagedDocument", "Unit", "UnreadableDocument"]

Unit: TypeAlias = Literal["page", "slide", "sheet", "chapter", "section"]


class UnreadableDocument(Exception):
    """The document cannot be converted. The message is for a model and needs the name of the file before it."""


class DocumentPart(Struct, frozen=True):
    """A page, slide, sheet, chapter or section."""

    title: str
    """Empty if it has none."""
    text: str
    """Markdown; empty for a scanned page."""


class OutlineEntry(Struct, frozen=True):
    """A bookmark, or the title of a part."""

    title: str
    level: int
    """0 is the highest."""
    number: int
    """The part to which it leads, from 1; 0 if it leads nowhere."""


class PagedDocument(Struct, frozen=True, kw_only=True):
    """A document as Markdown."""

    kind: str
    """The usual ending of its files in capitals, such as ``PDF``."""
    unit: Unit
    """The kind of its parts."""
    title: str = ""
    parts: list[DocumentPart]
    outline: list[OutlineEntry] = []
    total: int
    """Parts of the document. More than ``parts`` if the rest was not converted."""
    notes: list[str] = []
    """Omissions, for the reader."""


class ConversionOrder(Struct, frozen=True, kw_only=True):
    """An order for the process that converts: a line of JSON, followed by the file."""

    name: str
    """The name of the file; its ending tells texts apart."""
    process_memory_mb: int
    max_cpu_seconds: int
    max_parts: int
    max_chars: int
    """Characters of all parts together."""
