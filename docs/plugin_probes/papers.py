"""Probes of documents: what is found in them, which kinds are read, limits."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

import openpyxl
import trio
from reportlab.pdfgen.canvas import Canvas

from plugin_probes.process import measured_call
from plugin_probes.trial import Answer, Probes, Talk, Trial

__all__ = ["PAPERS", "read", "serve"]

_CELLS = (("Species", "Beak"), ("Geospiza", "large"), ("Certhidea", "fine"))
_TIMEOUT = 50.0
"""Seconds for a call; markitdown-mcp imports its libraries in the first one."""
_CHAPTERS = ("Departure", "Patagonia", "Galapagos")
_UNPACKED = 200_000_000


def command(trial: Trial) -> tuple[str, ...]:
    return serve(trial, trial.make_folder("papers"))


def serve(trial: Trial, folder: Path) -> tuple[str, ...]:
    if trial.references is not None:
        return (str(trial.references.markitdown), "-m", "markitdown_mcp")
    return trial.ours({"folders": [str(folder)]})


async def read(trial: Trial, talk: Talk, path: Path) -> Answer:
    """Call the tool that reads a document."""
    if trial.is_ours:
        return await talk.call("read_document", path=str(path), timeout=_TIMEOUT)
    return await talk.call("convert_to_markdown", uri=path.as_uri(), timeout=_TIMEOUT)


PAPERS = Probes(
    "documents",
    "`markitdown-mcp` 0.0.1a8",
    command,
    {},
    (
        "The tool of markitdown-mcp takes a URI and also fetches pages; ours takes a path, and mcptrio-fetch fetches.",
        "Its only tool has one argument, so its definition is shorter than those of our three tools.",
        "markitdown-mcp recognises tables without lines in PDF files, and also reads notebooks, archives, feeds and "
        "mail; ours does not.",
        "[The README](../plugins/mcptrio-documents/README.md#a-pdf-of-40-pages) has eight questions about a PDF.",
    ),
    [],
)


@PAPERS("A file outside the configured folder")
async def outside(trial: Trial) -> str:
    path = trial.make_folder("elsewhere") / "secret.txt"
    path.write_text("the secret of another user")
    async with trial.talk(command(trial)) as talk:
        answer = await read(trial, talk, path)
    return "returned it: no folder can be configured" if "the secret" in answer.text else str(answer)


@PAPERS("The page of a sentence in a PDF")
async def page_of_a_fact(trial: Trial) -> str:
    folder = _folder(trial, "voyage.pdf", _pdf())
    async with trial.talk(serve(trial, folder)) as talk:
        answer = await talk.call("search_document", path="voyage.pdf", query="33 seconds")
        if answer.is_error:
            answer = await read(trial, talk, folder / "voyage.pdf")
    return "reported" if "page 2" in answer.text else "not reported"


@PAPERS("The chapters of a PDF, without its text")
async def outline(trial: Trial) -> str:
    folder = _folder(trial, "voyage.pdf", _pdf())
    async with trial.talk(serve(trial, folder)) as talk:
        answer = await talk.call("describe_document", path="voyage.pdf")
    return "no tool" if answer.is_error else f"{sum(name in answer.text for name in _CHAPTERS)} of 3 found"


@PAPERS("A table with ruled lines in a PDF")
async def ruled(trial: Trial) -> str:
    folder = _folder(trial, "voyage.pdf", _pdf())
    async with trial.talk(serve(trial, folder)) as talk:
        return _table_in(await read(trial, talk, folder / "voyage.pdf"), _CELLS[1])


@PAPERS("A page of a PDF that is only a picture")
async def scanned(trial: Trial) -> str:
    folder = _folder(trial, "voyage.pdf", _pdf())
    async with trial.talk(serve(trial, folder)) as talk:
        answer = await read(trial, talk, folder / "voyage.pdf")
    return "is named" if "without text" in answer.text else "is not named"


@PAPERS("A CSV file with semicolons")
async def semicolons(trial: Trial) -> str:
    folder = _folder(trial, "birds.csv", "\n".join(map(";".join, _CELLS)).encode())
    async with trial.talk(serve(trial, folder)) as talk:
        return _table_in(await read(trial, talk, folder / "birds.csv"), _CELLS[1])


@PAPERS("An empty cell of an XLSX file")
async def empty_cell(trial: Trial) -> str:
    book = openpyxl.Workbook()
    for row in (*_CELLS, ("Camarhynchus", None)):
        book.active.append(row)
    file = io.BytesIO()
    book.save(file)
    folder = _folder(trial, "birds.xlsx", file.getvalue())
    async with trial.talk(serve(trial, folder)) as talk:
        answer = await read(trial, talk, folder / "birds.xlsx")
    return "is `NaN`" if "NaN" in answer.text else "is empty" if "Camarhynchus" in answer.text else str(answer)


@PAPERS("An ODT file")
async def opendocument(trial: Trial) -> str:
    names = "".join(f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "text"))
    content = (
        f"<office:document-content{names}><office:body><office:text><text:p>Geospiza</text:p></office:text>"
        "</office:body></office:document-content>"
    )
    kind = "application/vnd.oasis.opendocument.text"
    folder = _folder(trial, "birds.odt", _archive({"mimetype": kind.encode(), "content.xml": content.encode()}))
    async with trial.talk(serve(trial, folder)) as talk:
        answer = await read(trial, talk, folder / "birds.odt")
    return "is read" if not answer.is_error and "Geospiza" in answer.text else str(answer)


@PAPERS("A DOCX file of 200 kB that unpacks to 200 MB", is_measured=True)
async def bomb(trial: Trial) -> str:
    data = _archive({"[Content_Types].xml": b"<Types/>", "word/document.xml": b" " * _UNPACKED})
    folder = _folder(trial, "large.docx", data)
    path = folder / "large.docx"
    tool, arguments = ("convert_to_markdown", {"uri": path.as_uri()})
    if trial.is_ours:
        tool, arguments = ("documents_read_document", {"path": str(path)})
    got = await measured_call(serve(trial, folder), tool, arguments, cwd=folder, env={})
    refused = "refused, " if b'"isError":true' in got.answer.replace(b" ", b"") else ""
    return f"{refused}memory of the server up to {got.memory:,.0f} MiB"


@PAPERS("Time to read a PDF of four pages, and to read it again", is_measured=True)
async def times(trial: Trial) -> str:
    folder = _folder(trial, "voyage.pdf", _pdf())
    took = []
    async with trial.talk(serve(trial, folder)) as talk:
        for _ in range(2):
            began = trio.current_time()
            await read(trial, talk, folder / "voyage.pdf")
            took.append(f"{(trio.current_time() - began) * 1000:,.0f}")
    return f"{', '.join(took)} ms"


def _folder(trial: Trial, name: str, data: bytes) -> Path:
    folder = trial.make_folder("papers")
    (folder / name).write_bytes(data)
    return folder


def _pdf() -> bytes:
    """Three pages with an outline, a sentence on the second and a table on the third, and a page with a picture."""
    file = io.BytesIO()
    canvas = Canvas(file, invariant=True)
    for number, chapter in enumerate(_CHAPTERS, 1):
        canvas.bookmarkPage(chapter)
        canvas.addOutlineEntry(chapter, chapter)
        canvas.drawString(50, 750, chapter)
        if number == 2:
            canvas.drawString(50, 720, "The chronometers differed by 33 seconds after five years.")
        if number == 3:
            canvas.grid([50, 150, 250], [640, 660, 680, 700])
            for y, row in zip((685, 665, 645), _CELLS, strict=True):
                for x, cell in zip((55, 155), row, strict=True):
                    canvas.drawString(x, y, cell)
        canvas.showPage()
    canvas.rect(100, 100, 400, 500, fill=1)
    canvas.showPage()
    canvas.save()
    return file.getvalue()


def _archive(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as written:
        for name, data in members.items():
            written.writestr(name, data)
    return file.getvalue()


def _table_in(answer: Answer, row: Sequence[str]) -> str:
    is_there = "|".join(("", *row, "")) in answer.text.replace(" ", "")
    return "is a table" if is_there else str(answer) if answer.is_error else "is text"
