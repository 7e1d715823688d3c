"""Reads HTML and CSV."""

from __future__ import annotations

import csv
import io

from .document import ConversionOrder, PagedDocument, UnreadableDocument
from .markdown import html_to_markdown, split_sections, table_text
from .parts import PartCollector

__all__ = ["read_csv", "read_html"]

_SNIFFED_CHARS = 16 * 1024
_MAX_COLUMNS = 500
_MAX_FIELD_CHARS = 1_000_000


def read_html(data: bytes, order: ConversionOrder) -> PagedDocument:
    """Read an HTML page. Its sections begin at headings."""
    title, text = html_to_markdown(data)
    parts = PartCollector(order)
    for heading, section in split_sections(text):
        parts.add(heading, section)
    return parts.document(kind="HTML", unit="section", title=title[:200])


def read_csv(data: bytes, order: ConversionOrder) -> PagedDocument:
    """Read a table in UTF-8, UTF-16 with a byte order mark, or Windows-1252, with any usual delimiter.

    Raises:
        UnreadableDocument: A field is longer than a million characters.
    """
    text = _decode(data)
    parts = PartCollector(order)
    try:
        dialect: type[csv.Dialect] | csv.Dialect = csv.Sniffer().sniff(text[:_SNIFFED_CHARS], ",;\t|")
    except csv.Error:
        dialect = csv.excel_tab if "\t" in text[:_SNIFFED_CHARS] else csv.excel
    csv.field_size_limit(_MAX_FIELD_CHARS)
    try:
        rows = [row[:_MAX_COLUMNS] for row in csv.reader(io.StringIO(text, newline=""), dialect) if row]
    except csv.Error as error:
        raise UnreadableDocument(f"expected CSV, got something else: {error}") from error
    parts.add("", table_text(rows))
    return parts.document(kind="CSV", unit="sheet")


def _decode(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")
