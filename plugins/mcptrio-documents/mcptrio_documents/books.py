"""Reads EPUB and ODT, which are archives of XML, with lxml.

Source: EPUB 3.3, 4.2.6.3 (container.xml), 5.7 (spine); OpenDocument 1.3 part 3, 5 (text), 9 (tables).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from .archive import Archive
from .document import ConversionOrder, PagedDocument, UnreadableDocument
from .markdown import html_to_markdown, split_sections, table_text
from .parts import PartCollector

__all__ = ["read_epub", "read_odt"]

_CONTAINER = "META-INF/container.xml"
_XHTML = ("application/xhtml+xml", "text/html")
_TITLE = "{http://purl.org/dc/elements/1.1/}title"

_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_MAX_SPACES = 100
_MAX_REPEATED_CELLS = 100
"""Maximum number of repetitions of a cell. Tables often end with an empty cell that is repeated thousands of times."""


def read_epub(data: bytes, order: ConversionOrder) -> PagedDocument:
    """Read a book. Its chapters are the documents of its spine.

    Raises:
        UnreadableDocument: The file is damaged.
    """
    archive = Archive(data)
    root = archive.xml(_CONTAINER).find(".//{*}rootfile")
    package_path = root.get("full-path") if root is not None else None
    if not package_path:
        raise UnreadableDocument(f"the file is damaged: {_CONTAINER} names no package document")
    package = archive.xml(package_path)
    items = {item.get("id"): item for item in package.iterfind(".//{*}manifest/{*}item")}
    title_element = package.find(f".//{_TITLE}")
    parts = PartCollector(order)
    for reference in package.iterfind(".//{*}spine/{*}itemref"):
        item = items.get(reference.get("idref"))
        if item is None or item.get("media-type") not in _XHTML:
            continue
        name = posixpath.normpath(posixpath.join(posixpath.dirname(package_path), unquote(item.get("href") or "")))
        if not archive.has(name):
            parts.notes.append(f"missing in the file: {name[:200]}")
            continue
        title, text = html_to_markdown(archive.read(name))
        if text:
            parts.add(_first_heading(text) or title, text)
    title = " ".join((title_element.text or "").split()) if title_element is not None else ""
    return parts.document(kind="EPUB", unit="chapter", title=title[:200])


def read_odt(data: bytes, order: ConversionOrder) -> PagedDocument:
    """Read a text document. Its sections begin at headings.

    Raises:
        UnreadableDocument: The file is damaged or encrypted.
    """
    archive = Archive(data)
    if archive.has("META-INF/manifest.xml") and b":encryption-data" in archive.read("META-INF/manifest.xml"):
        raise UnreadableDocument("the file is protected with a password; save a copy without one")
    body = archive.xml("content.xml").find(f".//{_OFFICE}text")
    if body is None:
        raise UnreadableDocument("the file is damaged: content.xml has no text")
    title = archive.xml("meta.xml").find(f".//{_TITLE}") if archive.has("meta.xml") else None
    parts = PartCollector(order)
    for heading, text in split_sections("\n\n".join(_blocks(body))):
        parts.add(heading, text)
    title_text = " ".join((title.text or "").split()) if title is not None else ""
    return parts.document(kind="ODT", unit="section", title=title_text[:200])


def _blocks(parent: Any) -> Iterator[str]:
    """Yield the blocks of an element as Markdown. Recursive; the parser limits the depth to 256 elements."""
    for element in parent.iterchildren("*"):
        if element.tag == f"{_TEXT}h":
            level = element.get(f"{_TEXT}outline-level") or "1"
            if text := _inline(element):
                yield f"{'#' * (int(level) if level in '123456' else 6)} {text}"
        elif element.tag == f"{_TEXT}p":
            if text := _inline(element):
                yield text
        elif element.tag == f"{_TEXT}list":
            if items := "\n".join(_items(element)):
                yield items
        elif element.tag == f"{_TABLE}table":
            yield table_text(_rows(element))
        elif element.tag == f"{_TEXT}tracked-changes":
            continue  # this element contains deleted text
        else:
            yield from _blocks(element)


def _items(element: Any, depth: int = 0) -> Iterator[str]:
    for item in element.iterchildren(f"{_TEXT}list-item", f"{_TEXT}list-header"):
        for child in item.iterchildren("*"):
            if child.tag == f"{_TEXT}list":
                yield from _items(child, depth + 1)
            elif text := _inline(child):
                yield f"{'  ' * depth}- {text}"


def _rows(table: Any) -> Iterator[list[str]]:
    for row in table.iterdescendants(f"{_TABLE}table-row"):
        cells: list[str] = []
        for cell in row.iterchildren(f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
            repeated = cell.get(f"{_TABLE}number-columns-repeated") or "1"
            count = int(repeated) if repeated.isascii() and repeated.isdigit() and len(repeated) < 6 else 1
            cells += [" ".join(_inline(each) for each in cell)] * min(count, _MAX_REPEATED_CELLS)
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield cells


def _inline(element: Any) -> str:
    return "".join(_pieces(element)).strip()


def _pieces(element: Any) -> Iterator[str]:
    yield element.text or ""
    for child in element.iterchildren("*"):
        if child.tag == f"{_TEXT}s":
            count = child.get(f"{_TEXT}c") or "1"
            yield " " * min(int(count) if count.isascii() and count.isdigit() and len(count) < 6 else 1, _MAX_SPACES)
        elif child.tag in (f"{_TEXT}tab", f"{_TEXT}line-break"):
            yield " "
        elif child.tag == f"{_TEXT}note":
            note = child.find(f"{_TEXT}note-body")
            yield f" ({' '.join(_inline(each) for each in note)})" if note is not None else ""
        elif child.tag != f"{_OFFICE}annotation":
            yield from _pieces(child)
        yield child.tail or ""


def _first_heading(text: str) -> str:
    first = text.partition("\n")[0]
    return first.lstrip("#").strip() if first.startswith("#") else ""
