"""A converted document, and the order to convert one.

The converting process creates documents; the server decodes, caches and searches them. Both import this module. It does
not import mcptrio, so that the process starts fast.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ["ConversionOrder", "DocumentPart", "OutlineEntry", "PagedDocument", "Unit", "UnreadableDocument"]

Unit: TypeAlias = Literal["page", "slide", "sheet", "chapter", "section"]


class UnreadableDocument(Exception):
    """The document cannot be converted. The message is for models; the caller puts the name of the file before it."""


class DocumentPart(Struct, frozen=True):
    """A page, slide, sheet, chapter or section."""

    title: str
    """The title; empty if the part has none."""
    text: str
    """The text as Markdown; empty for a scanned page."""


class OutlineEntry(Struct, frozen=True):
    """A bookmark, or the title of a part."""

    title: str
    level: int
    """The level of the heading; 0 is the highest."""
    number: int
    """The number of the part, from 1; 0 if the bookmark has no valid target."""


class PagedDocument(Struct, frozen=True, kw_only=True):
    """A document as Markdown."""

    kind: str
    """The usual file name ending in capitals, such as ``PDF``."""
    unit: Unit
    """The kind of the parts."""
    title: str = ""
    parts: list[DocumentPart]
    outline: list[OutlineEntry] = []
    total: int
    """Number of parts in the file; larger than the length of ``parts`` if the rest was not converted."""
    notes: list[str] = []
    """Omissions that the reader must know of."""


class ConversionOrder(Struct, frozen=True, kw_only=True):
    """The order for a converting process. It is sent as a line of JSON, followed by the bytes of the file."""

    name: str
    """The name of the file. HTML and CSV are recognised by its ending."""
    process_memory_mb: int
    max_cpu_seconds: int
    max_parts: int
    max_chars: int
    """Maximum number of characters of all parts together."""
