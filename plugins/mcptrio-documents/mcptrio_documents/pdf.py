"""Reads PDF files with PDFium: text, tables with ruled lines, bookmarks.

Source: PDF 32000-1:2008, 12.3.3 (outlines), 14.3.3 (document information).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pypdfium2  # type: ignore[import-untyped]
from pypdfium2 import raw

from .document import ConversionOrder, DocumentPart, OutlineEntry, PagedDocument, UnreadableDocument
from .markdown import table_text
from .pdf_tables import find_tables

__all__ = ["read_pdf"]

_MAX_OUTLINE = 1000
_MAX_TITLE_CHARS = 200
_HYPHEN = re.compile("[\x02\ufffe]\r?\n?")
"""PDFium returns one of these characters for a hyphen at the end of a line."""
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")


def read_pdf(data: bytes, order: ConversionOrder) -> PagedDocument:
    """Convert a PDF to text, page by page.

    Raises:
        UnreadableDocument: The file has a password or is damaged.
    """
    try:
        pdf = pypdfium2.PdfDocument(data)
        total = len(pdf)
    except pypdfium2.PdfiumError as error:
        if raw.FPDF_GetLastError() == raw.FPDF_ERR_PASSWORD or "assword" in str(error):
            raise UnreadableDocument("the PDF is protected with a password; save a copy without one") from error
        raise UnreadableDocument("the PDF is damaged, PDFium cannot read it") from error
    parts, chars, damaged = [], 0, 0
    for number in range(min(total, order.max_parts)):
        try:
            text = _page_text(pdf, number)
        except pypdfium2.PdfiumError:
            damaged += 1
            text = ""
        chars += len(text)
        if chars > order.max_chars:
            break
        parts.append(DocumentPart("", text))
    return PagedDocument(
        kind="PDF",
        unit="page",
        title=_clean(pdf.get_metadata_value("Title")).strip()[:_MAX_TITLE_CHARS],
        parts=parts,
        outline=list(_outline(pdf, total)),
        total=total,
        notes=[f"pages that PDFium cannot read: {damaged}"] if damaged else [],
    )


def _page_text(pdf: pypdfium2.PdfDocument, number: int) -> str:
    """Return the text of a page, with its tables as Markdown."""
    page = pdf[number]
    try:
        words = page.get_textpage()
        try:
            tables = find_tables(page, words)
            if not tables:
                return _clean(words.get_text_bounded()).strip()
            pieces, top = [], None
            for table in tables:
                pieces.append(_clean(words.get_text_bounded(bottom=table.top, top=top)).strip())
                pieces.append(table_text([[_clean(cell) for cell in row] for row in table.rows]))
                top = table.bottom
            pieces.append(_clean(words.get_text_bounded(top=top)).strip())
            return "\n\n".join(piece for piece in pieces if piece)
        finally:
            words.close()
    finally:
        page.close()


def _outline(pdf: pypdfium2.PdfDocument, total: int) -> Iterator[OutlineEntry]:
    for count, bookmark in enumerate(pdf.get_toc()):
        if count == _MAX_OUTLINE:
            return
        target = bookmark.get_dest()
        index = target.get_index() if target is not None else None
        title = " ".join(_clean(bookmark.get_title()).split())[:_MAX_TITLE_CHARS]
        number = index + 1 if index is not None and 0 <= index < total else 0
        yield OutlineEntry(title, bookmark.level, number)


def _clean(text: str) -> str:
    text = _HYPHEN.sub("", text.replace("\r\n", "\n"))
    return "\n".join(line.rstrip() for line in _CONTROLS.sub("", text).splitlines())
