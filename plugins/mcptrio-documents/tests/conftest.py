"""Twenty documents, written with the libraries of other programs, and a client of a server with the plugin.

The texts are from the public domain: Carroll, Darwin and Poe.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pptx
import pytest
import trio
from mcptrio_documents import Config, DocumentLibrary, Documents
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches
from reportlab.lib import colors
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Table

from mcptrio import Client, Server, connect
from mcptrio.types import TextContent

Connect = Callable[..., AbstractAsyncContextManager[Client]]
Ask = Callable[..., Awaitable[str]]

ALICE = (
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do: once or "
    "twice she had peeped into the book her sister was reading, but it had no pictures or conversations in it."
)
DARWIN = (
    "When on board H.M.S. Beagle, as naturalist, I was much struck with certain facts in the distribution of the "
    "inhabitants of South America, and in the geological relations of the present to the past inhabitants."
)
RAVEN = "Once upon a midnight dreary, while I pondered, weak and weary, over many a quaint volume of forgotten lore"
CELLS = [["Species", "Island", "Beak"], ["Geospiza magnirostris", "Chatham", "large"], ["Certhidea", "James", "fine"]]
TABLE = "| Species | Island | Beak |\n|---|---|---|\n| Geospiza magnirostris | Chatham | large |"


def wrapped(text: str, width: int = 80) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def pdf(pages: Sequence[Sequence[str]], **options: Any) -> bytes:
    """Return a PDF of pages of lines. A page without lines has only a picture. A line ``#TITLE`` is also a bookmark."""
    file = io.BytesIO()
    canvas = Canvas(file, pagesize=(600, 800), invariant=True, **options)
    canvas.setTitle("Galápagos")
    for number, lines in enumerate(pages):
        y = 740.0
        for line in lines:
            if line.startswith("#"):
                canvas.bookmarkPage(f"p{number}")
                canvas.addOutlineEntry(line[1:], f"p{number}", level=0)
            canvas.drawString(50, y, line.lstrip("#"))
            y -= 18
        if not lines:
            canvas.rect(100, 100, 400, 500, fill=1)
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def pdf_with_table(grid: bool) -> bytes:
    file = io.BytesIO()
    canvas = Canvas(file, pagesize=(600, 800), invariant=True)
    canvas.drawString(50, 740, "Before the table")
    table = Table(CELLS, style=[("GRID", (0, 0), (-1, -1), 0.5, colors.black)] if grid else [])
    table.wrapOn(canvas, 400, 400)
    table.drawOn(canvas, 50, 600)
    canvas.drawString(50, 560, "After the table")
    canvas.save()
    return file.getvalue()


def docx_file() -> bytes:
    document = docx.Document()
    document.core_properties.title = "Voyage"
    for heading in ("Down the Rabbit-Hole", "The Pool of Tears"):
        document.add_heading(heading, 1)
        document.add_paragraph(ALICE)
        document.add_paragraph("a first item", style="List Bullet")
    table = document.add_table(len(CELLS), len(CELLS[0]))
    for row, texts in zip(table.rows, CELLS, strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    return saved(document)


def pptx_file() -> bytes:
    deck = pptx.Presentation()
    for title in ("Finches", "Tortoises"):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = "one point\nanother point"
        slide.notes_slide.notes_text_frame.text = f"say something about {title}"
    table = slide.shapes.add_table(3, 3, Inches(1), Inches(4), Inches(6), Inches(1)).table
    for i, row in enumerate(CELLS):
        for j, text in enumerate(row):
            table.cell(i, j).text = text
    chart = CategoryChartData()
    chart.categories = ["1831", "1836"]
    chart.add_series("miles", (10, 40))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, Inches(1), Inches(1), Inches(3), Inches(2), chart)
    return saved(deck)


def xlsx_file() -> bytes:
    book = openpyxl.Workbook()
    first = book.active
    first.title = "Birds"
    for row in CELLS:
        first.append(row)
    second = book.create_sheet("Costs")
    second["C4"], second["D4"], second["C5"], second["D5"] = "item", "pounds", "rope", 12.5
    return saved(book)


def saved(document: Any) -> bytes:
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def archive(members: dict[str, str | bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as written:
        for name, data in members.items():
            written.writestr(name, data)
    return file.getvalue()


def epub(*chapters: str) -> bytes:
    items = "".join(
        f'<item id="c{i}" href="c{i}.xhtml" media-type="application/xhtml+xml"/>' for i in range(len(chapters))
    )
    spine = "".join(f'<itemref idref="c{i}"/>' for i in range(len(chapters)))
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<metadata><dc:title>Tales</dc:title></metadata><manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
    )
    bodies = {f"OEBPS/c{i}.xhtml": f"<html><body>{body}</body></html>" for i, body in enumerate(chapters)}
    return archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": container,
            "OEBPS/book.opf": package,
            **bodies,
        }
    )


def odt(body: str) -> bytes:
    names = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "text", "table")
    )
    content = (
        f"<office:document-content{names}><office:body><office:text>{body}</office:text></office:body>"
        "</office:document-content>"
    )
    return archive({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content})


def odt_cell(text: str) -> str:
    return f"<table:table-cell><text:p>{text}</text:p></table:table-cell>"


def html_table() -> str:
    return "<table>" + "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in CELLS) + "</table>"


def corpus() -> dict[str, bytes]:
    """Return the documents by name."""
    odt_rows = "".join(f"<table:table-row>{''.join(map(odt_cell, row))}</table:table-row>" for row in CELLS)
    return {
        "alice.pdf": pdf([["#Chapter I", *wrapped(ALICE)], ["#Chapter II", *wrapped(DARWIN)]]),
        "scanned.pdf": pdf([["#Words", *wrapped(RAVEN)], [], [], ["The end"]]),
        "locked.pdf": pdf([[RAVEN]], encrypt=StandardEncryption("secret", strength=128)),
        "owner.pdf": pdf([[RAVEN[:60]]], encrypt=StandardEncryption("", "owner", strength=128)),
        "long.pdf": pdf([[f"#Section {n}", *wrapped(DARWIN), f"Fact {n} is {n * n}."] * 3 for n in range(1, 41)]),
        "grid.pdf": pdf_with_table(True),
        "columns.pdf": pdf_with_table(False),
        "voyage.docx": docx_file(),
        "plain.docx": saved(docx.Document()),
        "finches.pptx": pptx_file(),
        "birds.xlsx": xlsx_file(),
        "tales.epub": epub(f"<h1>The Raven</h1><p>{RAVEN}</p>", f"<p>{ALICE}</p>", f"<h2>Finches</h2>{html_table()}"),
        "notes.odt": odt(
            f'<text:h text:outline-level="1">Beagle</text:h><text:p>{DARWIN}</text:p>'
            f"<text:list><text:list-item><text:p>rope</text:p></text:list-item></text:list>"
            f'<text:h text:outline-level="1">Birds</text:h><table:table>{odt_rows}</table:table>'
        ),
        "page.html": f"<title>Pool</title><h1>One</h1><p>{ALICE}</p><h1>Two</h1>{html_table()}".encode(),
        "menu.htm": b"<html><head><script>steal()</script></head><body><ul><li>soup<ul><li>hot</li></ul></ul></body>",
        "birds.csv": "\n".join(",".join(row) for row in CELLS).encode(),
        "birds.tsv": "\n".join("\t".join(row) for row in CELLS).encode("utf-16"),
        "semicolons.csv": "Größe;Preis\n1,5;2|3\n".encode("cp1252"),
        "empty.pdf": b"",
        "text.txt": RAVEN.encode(),
    }


@pytest.fixture(scope="session")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the corpus."""
    folder = tmp_path_factory.mktemp("documents")
    for name, data in corpus().items():
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture
def documents_client(documents: Path) -> Connect:
    """Clients of servers with the folder of documents and any other settings."""

    @asynccontextmanager
    async def open_client(**settings: Any) -> AsyncIterator[Client]:
        library = DocumentLibrary(Config(**{"folders": (documents,), "roots": False, **settings}))
        with trio.fail_after(60):
            async with connect(Server(plugins=[Documents(library)])) as client:
                yield client

    return open_client


@pytest.fixture
def ask(documents_client: Connect) -> Ask:
    """Call a tool of a new server, and return the text of its result."""

    async def call(tool: str, path: str | Path, *, fails: bool = False, config: Any = None, **arguments: Any) -> str:
        async with documents_client(**(config or {})) as client:
            result = await client.call_tool(f"{tool}_document", {"path": str(path), **arguments})
            assert result.is_error is fails, result
            [block] = result.content
            assert isinstance(block, TextContent)
            return block.text

    return call
