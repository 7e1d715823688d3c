"""Documents of a site: mcptrio-documents converts them to Markdown, and they are limited and paged as web pages are."""

from __future__ import annotations

import base64
import io
import sys
import zipfile
from collections.abc import Iterable
from typing import Any

import docx
import openpyxl
import pptx
import pytest
import trio
from reportlab.pdfgen.canvas import Canvas

from mcptrio.types import BlobResourceContents, EmbeddedResource, TextResourceContents

from .conftest import OpenReader, ReceivedRequest, Site

__all__: list[str] = []

OFFICE = "application/vnd.openxmlformats-officedocument."
DOCX = OFFICE + "wordprocessingml.document"
SLOW = b"<html>" + b"<p>x" * 500_000
"""Converting it takes several seconds. A site may call anything a PDF."""


def pdf(pages: Iterable[str]) -> bytes:
    file = io.BytesIO()
    canvas = Canvas(file, invariant=True)
    canvas.setTitle("A report")
    for line in pages:
        canvas.drawString(50, 740, line)
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def saved(document: Any) -> bytes:
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def archive(**members: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        for name, text in members.items():
            written.writestr(name, text)
    return file.getvalue()


def docx_file() -> bytes:
    document = docx.Document()
    document.add_heading("On bread", 1)
    return saved(document)


def pptx_file() -> bytes:
    deck = pptx.Presentation()
    deck.slides.add_slide(deck.slide_layouts[0]).shapes.title.text = "On bread"
    return saved(deck)


def xlsx_file() -> bytes:
    book = openpyxl.Workbook()
    book.active.title = "Bread"
    for row in (["kind", "hours"], ["rye", 12]):
        book.active.append(row)
    return saved(book)


def odt_file() -> bytes:
    names = "".join(f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "text"))
    text = '<text:h text:outline-level="1">On bread</text:h>'
    content = (
        f"<office:document-content{names}><office:body><office:text>{text}</office:text></office:body>"
        "</office:document-content>"
    )
    return archive(**{"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content})


def epub_file() -> bytes:
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><manifest>'
        '<item id="c" href="c.xhtml" media-type="application/xhtml+xml"/></manifest>'
        '<spine><itemref idref="c"/></spine></package>'
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="book.opf"/></rootfiles></container>'
    )
    members = {
        "META-INF/container.xml": container,
        "book.opf": package,
        "c.xhtml": "<html><body><h1>On bread</h1></body></html>",
    }
    return archive(mimetype="application/epub+zip", **members)


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("application/pdf", pdf(["On bread"]), "Title: A report\n[page 1]\nOn bread"),
        ("application/octet-stream", pdf(["On bread"]), "Title: A report\n[page 1]\nOn bread"),
        (DOCX, docx_file(), "[section 1]\n# On bread"),
        ("", docx_file(), "[section 1]\n# On bread"),
        (OFFICE + "presentationml.presentation", pptx_file(), "[slide 1]\n# On bread"),
        (OFFICE + "spreadsheetml.sheet", xlsx_file(), "[sheet 1: Bread]\n| kind | hours |\n|---|---|\n| rye | 12 |"),
        ("application/vnd.oasis.opendocument.text", odt_file(), "[section 1]\n# On bread"),
        ("application/epub+zip", epub_file(), "[chapter 1]\n# On bread"),
    ],
)
async def test_document_is_returned_as_markdown(
    reading: OpenReader, site: Site, kind: str, body: bytes, text: str
) -> None:
    site.page("/d", body, kind)
    async with reading(allow_private=True) as reader:
        assert (await reader.text(site.url("/d"))).startswith(f"Contents of {site.url('/d')}:\n{text}")


async def test_pieces_of_a_document_need_one_download(reading: OpenReader, site: Site) -> None:
    lines = [f"This is page number {number}." if number % 10 else "" for number in range(1, 41)]
    site.page("/d.pdf", pdf(lines), "application/pdf")
    async with reading(allow_private=True) as reader:
        first = await reader.text(site.url("/d.pdf"), limit=800)
        rest = await reader.text(site.url("/d.pdf"), offset=800)

    note = "without text, perhaps scanned: pages 10, 20, 30, 40]"
    assert f"\n[characters 0 to 800 of 1240; continue with offset=800; {note}" in first
    assert rest.endswith(f"; {note}")
    assert "page number 39." in rest
    assert site.paths() == ["GET /d.pdf"]


async def test_raw_returns_the_file(reading: OpenReader, site: Site) -> None:
    body = docx_file()
    site.page("/d", body, DOCX)
    async with reading(allow_private=True, max_media_bytes=1024) as small:
        assert "On bread" in await small.text(site.url("/d"))
        assert f"expected at most 1024 bytes of {DOCX}, got {len(body)}" in await small.failure(
            site.url("/d"), raw=True
        )
    async with reading(allow_private=True) as reader:
        result = await reader.call("fetch", url=site.url("/d"), raw=True)

    assert result.content[0].text == f"Contents of {site.url('/d')}: {DOCX}, {len(body)} bytes"
    assert isinstance(result.content[1], EmbeddedResource)
    assert result.content[1].resource.mime_type == DOCX


async def test_document_is_a_resource_and_fills_the_prompt(reading: OpenReader, site: Site) -> None:
    site.page("/d.pdf", pdf(["On bread", ""]), "application/pdf")
    async with reading(allow_private=True) as reader:
        [page] = (await reader.client.read_resource(f"fetch://{site.url('/d.pdf')}")).contents
        got = await reader.client.get_prompt("fetch", {"url": site.url("/d.pdf")})

    assert isinstance(page, TextResourceContents)
    assert page.mime_type == "text/markdown"
    assert page.text == "[page 1]\nOn bread\n[without text, perhaps scanned: pages 2]"
    assert got.messages[0].content.text == page.text


async def test_without_mcptrio_documents_the_answer_says_what_to_install(
    reading: OpenReader, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcptrio_documents", None)  # Python finds no such module
    body = pdf(["On bread"])
    site.page("/d.pdf", body, "application/pdf")
    site.page("/d.docx", docx_file(), DOCX)
    site.page("/d", docx_file(), "application/octet-stream")
    async with reading(allow_private=True) as reader:
        result = await reader.call("fetch", url=site.url("/d.pdf"))
        raw = await reader.text(site.url("/d.pdf"), raw=True)
        [resource] = (await reader.client.read_resource(f"fetch://{site.url('/d.pdf')}")).contents
        stated = await reader.failure(site.url("/d.docx"))
        guessed = await reader.failure(site.url("/d"))

    advice = "; to read it as Markdown, install mcptrio-fetch[documents]"
    assert result.content[0].text == f"Contents of {site.url('/d.pdf')}: application/pdf, {len(body)} bytes{advice}"
    assert isinstance(result.content[1], EmbeddedResource)
    assert raw.endswith(" bytes")
    assert isinstance(resource, BlobResourceContents)
    assert base64.b64decode(resource.blob) == body
    expected = "expected a page, an image, audio or a PDF, got"
    assert stated == f"{expected} {DOCX}: {site.url('/d.docx')}{advice}"
    assert guessed == f"{expected} binary data of another kind: {site.url('/d')}{advice}"


async def test_large_document_is_refused(reading: OpenReader, site: Site) -> None:
    async def endless(seen: ReceivedRequest) -> None:
        await seen.stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n%PDF-1.7\n")
        while True:
            await seen.stream.send_all(b" " * 1000)

    site.page("/d.pdf", pdf(["On bread"] * 99), "application/pdf")
    site.routes["/endless"] = endless
    async with reading(allow_private=True, max_document_bytes=4096) as reader:
        assert "expected at most 4096 bytes of application/pdf, got 45" in await reader.failure(site.url("/d.pdf"))
        assert "expected at most 4096 bytes of application/octet-stream, got more" in await reader.failure(
            site.url("/endless")
        )


async def test_binary_file_without_a_type_is_refused_by_its_first_bytes(reading: OpenReader, site: Site) -> None:
    async def stalled(seen: ReceivedRequest) -> None:
        await seen.stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n\x7fELF\0\0")
        await seen.stream.receive_some()

    site.routes["/a"] = stalled
    async with reading(allow_private=True) as reader:
        assert "got binary data of another kind" in await reader.failure(site.url("/a"))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"%PDF-1.7 nothing more", "the PDF is damaged"),
        (archive(a="x"), "got a ZIP archive without one of these inside"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "encrypted or in a format from before 2007"),
        (b"plain words", "the content is not that of a .pdf file"),
    ],
)
async def test_unreadable_document_is_an_error_with_its_url(
    reading: OpenReader, site: Site, body: bytes, why: str
) -> None:
    site.page("/d.pdf", body, "application/pdf")
    async with reading(allow_private=True) as reader:
        failure = await reader.failure(site.url("/d.pdf?a=.html"))

    assert failure.startswith(f"{site.url('/d.pdf?a=.html')}: ")
    assert why in failure


async def test_time_of_a_conversion_is_limited(reading: OpenReader, site: Site) -> None:
    site.page("/d.pdf", SLOW, "application/pdf")
    async with reading(allow_private=True, convert_timeout=0.7) as reader:
        assert "took longer than 0.7 seconds; raw=true" in await reader.failure(site.url("/d.pdf"))


async def test_cancelled_call_ends_the_conversion(reading: OpenReader, site: Site) -> None:
    """The fixture of all tests checks that no process remains."""
    site.page("/d.pdf", SLOW, "application/pdf")
    async with reading(allow_private=True) as reader:
        with trio.move_on_after(1) as scope:
            await reader.call("fetch", url=site.url("/d.pdf"))

    assert scope.cancelled_caught
