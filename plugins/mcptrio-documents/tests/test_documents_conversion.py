"""Every kind of document is converted to Markdown, page by page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from mcptrio_documents import Config, DocumentConverter, PagedDocument

from mcptrio import ToolError

__all__: list[str] = []

ROW = "Geospiza magnirostris | Chatham | large |"
EXPECTED = {
    "alice.pdf": ("PDF", 2, "Chapter I\nAlice was beginning to get very tired"),
    "scanned.pdf": ("PDF", 4, "midnight dreary"),
    "owner.pdf": ("PDF", 1, "Once upon a midnight"),
    "long.pdf": ("PDF", 40, "Fact 7 is 49."),
    "grid.pdf": ("PDF", 1, f"Before the table\n\n| Species | Island | Beak |\n|---|---|---|\n| {ROW}"),
    "columns.pdf": ("PDF", 1, "Geospiza magnirostris Chatham large\n"),
    "voyage.docx": ("DOCX", 2, "# Down the Rabbit-Hole\n\nAlice was"),
    "plain.docx": ("DOCX", 1, ""),
    "finches.pptx": ("PPTX", 2, "# Finches\n\n- one point\n- another point\n\nNotes: say something about Finches"),
    "birds.xlsx": ("XLSX", 2, "| item | pounds |\n|---|---|\n| rope | 12.5 |"),
    "tales.epub": ("EPUB", 3, "# The Raven\n\nOnce upon"),
    "notes.odt": ("ODT", 2, "# Beagle\n\nWhen on board"),
    "page.html": ("HTML", 2, "# Two\n\n| Species"),
    "menu.htm": ("HTML", 1, "- soup\n  - hot"),
    "birds.csv": ("CSV", 1, ROW),
    "birds.tsv": ("CSV", 1, ROW),
    "semicolons.csv": ("CSV", 1, "| Größe | Preis |\n|---|---|\n| 1,5 | 2\\|3 |"),
}
TABLES = ("grid.pdf", "voyage.docx", "finches.pptx", "birds.xlsx", "tales.epub", "notes.odt", "page.html")
REFUSED = {
    "locked.pdf": "protected with a password",
    "empty.pdf": "got an empty file",
    "text.txt": "read text files as text",
}


@pytest.fixture(scope="module")
def converted(documents: Path) -> Mapping[str, PagedDocument | ToolError]:
    """Return all converted documents, or their errors."""
    found: dict[str, PagedDocument | ToolError] = {}
    converter = DocumentConverter(Config(max_processes=3))

    async def convert(name: str, data: bytes) -> None:
        try:
            found[name] = await converter.convert(data, name)
        except ToolError as error:
            found[name] = error

    files = list(documents.iterdir())

    async def convert_all() -> None:
        async with trio.open_nursery() as nursery:
            for path in files:
                nursery.start_soon(convert, path.name, path.read_bytes())

    trio.run(convert_all)
    return found


def text_of(document: Any) -> str:
    return "\n\n".join(part.text for part in document.parts)


def test_twenty_documents(converted: Mapping[str, Any]) -> None:
    assert set(converted) == {*EXPECTED, *REFUSED}
    assert len(converted) == 20
    for name, (kind, count, text) in EXPECTED.items():
        document = converted[name]
        assert isinstance(document, PagedDocument), (name, document)
        assert (document.kind, len(document.parts), document.total) == (kind, count, count)
        assert text in text_of(document)
        assert document.notes == []
    for name, why in REFUSED.items():
        assert why in str(converted[name])


def test_tables_are_markdown_tables(converted: Mapping[str, Any]) -> None:
    for name in TABLES:
        text = text_of(converted[name])
        assert f"| Species | Island | Beak |\n|{text.partition('Beak |')[2][2:].partition(ROW)[0]}{ROW}" in text
        assert "---|" in text or "--- |" in text


def test_titles_and_outlines(converted: Mapping[str, Any]) -> None:
    assert converted["alice.pdf"].title == "Galápagos"
    assert converted["voyage.docx"].title == "Voyage"
    assert converted["tales.epub"].title == "Tales"
    outlines = {
        name: [(entry.title, entry.number) for entry in converted[name].outline]
        for name in ("alice.pdf", "tales.epub", "birds.xlsx", "finches.pptx")
    }
    assert outlines == {
        "alice.pdf": [("Chapter I", 1), ("Chapter II", 2)],
        "tales.epub": [("The Raven", 1), ("Finches", 3)],
        "birds.xlsx": [("Birds", 1), ("Costs", 2)],
        "finches.pptx": [("Finches", 1), ("Tortoises", 2)],
    }


def test_parts_without_text_are_left_out(converted: Mapping[str, Any]) -> None:
    assert "steal" not in text_of(converted["menu.htm"])
    assert [bool(part.text) for part in converted["scanned.pdf"].parts] == [True, False, False, True]
    assert "| miles | 10 | 40 |" in text_of(converted["finches.pptx"])
