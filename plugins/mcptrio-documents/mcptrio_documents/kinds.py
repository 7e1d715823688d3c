"""Recognises the kind of a document by its first bytes, and HTML and CSV by the ending of the file name."""

from __future__ import annotations

from .archive import Archive
from .document import UnreadableDocument

__all__ = ["ENDINGS", "kind_of"]

ENDINGS = ("pdf", "docx", "pptx", "xlsx", "odt", "epub", "html", "htm", "xhtml", "csv", "tsv")

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PDF_HEADER = 1024
"""Bytes at the beginning of a file in which readers of PDF look for its header."""
_EXPECTED = "expected PDF, DOCX, PPTX, XLSX, ODT, EPUB, HTML or CSV"


def kind_of(data: bytes, name: str) -> str:
    """Return one of :data:`ENDINGS`, with ``html`` and ``csv`` for their variants.

    Raises:
        UnreadableDocument: The file is not a document that can be converted.
    """
    head = data[:_PDF_HEADER]
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    if b"%PDF-" in head:
        return "pdf"
    if head.startswith(b"PK\x03\x04"):
        return _kind_of_archive(data)
    if head.startswith(_OLE):
        raise UnreadableDocument(
            f"{_EXPECTED}, got an Office file that is encrypted or in a format from before 2007; "
            "save it without a password as DOCX, XLSX or PPTX"
        )
    if not data:
        raise UnreadableDocument(f"{_EXPECTED}, got an empty file")
    if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnreadableDocument(f"{_EXPECTED}, got binary data of another kind")
    if ending in ("html", "htm", "xhtml") or head.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        return "html"
    if ending in ("csv", "tsv"):
        return "csv"
    if ending in ENDINGS:
        raise UnreadableDocument(f"the content is not that of a .{ending} file; the file may be damaged")
    raise UnreadableDocument(f"{_EXPECTED}, got a file with the ending {ending!r}; read text files as text")


def _kind_of_archive(data: bytes) -> str:
    archive = Archive(data)
    mime_type = archive.read("mimetype", 200).strip() if archive.has("mimetype") else b""
    if mime_type == b"application/epub+zip":
        return "epub"
    if mime_type == b"application/vnd.oasis.opendocument.text":
        return "odt"
    for kind, member in (("docx", "word/document.xml"), ("pptx", "ppt/presentation.xml"), ("xlsx", "xl/workbook.xml")):
        if archive.has(member):
            return kind
    raise UnreadableDocument(f"{_EXPECTED}, got a ZIP archive without one of these inside")
