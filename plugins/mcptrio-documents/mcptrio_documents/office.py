"""Reads DOCX with Mammoth, PPTX with python-pptx, and XLSX with openpyxl."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import date, datetime, time
from typing import Any

import mammoth  # type: ignore[import-untyped]
import openpyxl  # type: ignore[import-untyped]
import pptx

from .archive import Archive
from .document import ConversionOrder, PagedDocument
from .markdown import html_to_markdown, split_sections, table_text
from .parts import PartCollector

__all__ = ["read_docx", "read_pptx", "read_xlsx"]

_MAX_COLUMNS = 500
_MAX_SHAPE_DEPTH = 20
"""Maximum depth of nested groups on a slide."""
_TITLE = "{http://purl.org/dc/elements/1.1/}title"


def read_docx(data: bytes, order: ConversionOrder) -> PagedDocument:
    """Read a Word document. Its sections begin at headings, because DOCX has no pages."""
    title = _core_title(data)
    # By default, Mammoth embeds each image as Base64.
    html = mammoth.convert_to_html(io.BytesIO(data), convert_image=mammoth.images.img_element(_no_image)).value
    parts = PartCollector(order)
    for heading, text in split_sections(html_to_markdown(html)[1]):
        parts.add(heading, text)
    return parts.document(kind="DOCX", unit="section", title=title)


def read_pptx(data: bytes, order: ConversionOrder) -> PagedDocument:
    """Read a presentation: text, tables and notes of each slide."""
    title = _core_title(data)
    deck = pptx.Presentation(io.BytesIO(data))
    parts = PartCollector(order)
    for slide in deck.slides:
        heading = slide.shapes.title
        name = " ".join(heading.text_frame.text.split()) if heading is not None else ""
        texts = [f"# {name}"] if name else []
        texts += _shape_texts(slide.shapes, None if heading is None else heading.shape_id)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            notes = slide.notes_slide.notes_text_frame.text.strip()
            texts += [f"Notes: {notes}"] if notes else []
        parts.add(name, "\n\n".join(texts))
    return parts.document(kind="PPTX", unit="slide", title=title)


def read_xlsx(data: bytes, order: ConversionOrder) -> PagedDocument:
    """Read a workbook: the values of each sheet, without empty rows and columns at its edges."""
    title = _core_title(data)
    book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    parts = PartCollector(order)
    for sheet in book.worksheets:
        # The size that a sheet declares may be wrong, or huge in a malicious file.
        sheet.reset_dimensions()
        parts.add(sheet.title, _sheet_text(sheet, parts.chars_left, parts.notes))
    return parts.document(kind="XLSX", unit="sheet", title=title)


def _sheet_text(sheet: Any, max_chars: int, notes: list[str]) -> str:
    rows: list[list[str]] = []
    width = chars = last = 0
    for values in sheet.iter_rows(values_only=True):
        row = [_cell_text(value) for value in values[:_MAX_COLUMNS]]
        while row and not row[-1]:
            row.pop()
        chars += sum(map(len, row)) + 3 * len(row)
        if chars > max_chars or len(rows) > max_chars:
            notes.append(f"sheet {sheet.title} was cut after row {len(rows)}")
            break
        rows.append(row)
        if row:
            width, last = max(width, len(row)), len(rows)
    del rows[last:]
    while rows and not rows[0]:
        del rows[0]
    first = min((next(i for i, cell in enumerate(row) if cell) for row in rows if row), default=0)
    return table_text([row[first:] for row in rows])


def _cell_text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "TRUE" if value else "FALSE"
        case float():
            return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case datetime():
            is_day = value.time() == time()
            return value.date().isoformat() if is_day else value.isoformat(" ", "seconds")
        case date() | time():
            return value.isoformat()
        case _:
            return str(value)


def _shape_texts(shapes: Any, title: int | None, depth: int = 0) -> Iterator[str]:
    for shape in shapes:
        if shape.shape_id == title:
            continue
        if hasattr(shape, "shapes"):
            if depth < _MAX_SHAPE_DEPTH:
                yield from _shape_texts(shape.shapes, None, depth + 1)
        elif getattr(shape, "has_table", False):
            yield table_text([[cell.text for cell in row.cells] for row in shape.table.rows])
        elif getattr(shape, "has_chart", False):
            yield _chart_text(shape.chart)
        elif shape.has_text_frame and shape.text_frame.text.strip():
            yield "\n".join(_paragraphs(shape.text_frame))


def _chart_text(chart: Any) -> str:
    plot = next(iter(chart.plots), None)
    if plot is None:
        return ""
    names = [str(category) for category in plot.categories]
    rows = [[str(series.name), *(_cell_text(value) for value in series.values)] for series in plot.series]
    return table_text([["", *names], *rows])


def _paragraphs(frame: Any) -> Iterator[str]:
    lines = [paragraph for paragraph in frame.paragraphs if paragraph.text.strip()]
    for paragraph in lines:
        text = " ".join(paragraph.text.split())
        yield f"{'  ' * paragraph.level}- {text}" if len(lines) > 1 else text


def _core_title(data: bytes) -> str:
    """Return the title in the properties of an Office file. Opening the archive also checks its size."""
    archive = Archive(data)
    if not archive.has("docProps/core.xml"):
        return ""
    title_element = archive.xml("docProps/core.xml").find(_TITLE)
    return " ".join((title_element.text or "").split())[:200] if title_element is not None else ""


def _no_image(image: object) -> dict[str, str]:
    return {"src": ""}
