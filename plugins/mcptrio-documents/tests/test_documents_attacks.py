"""Hostile documents and paths: the error has the reason, and no process remains."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
import trio
from mcptrio_documents import Config, DocumentConverter

from mcptrio import ToolError

from .conftest import Ask, archive, corpus, epub, odt

__all__: list[str] = []

BOMB = b"\0" * 60_000_000
ENTITIES = "<!DOCTYPE x [<!ENTITY a 'ha'>" + "".join(
    f"<!ENTITY {new} '{f'&{old};' * 20}'>" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


async def refused(data: bytes, name: str, **settings: Any) -> str:
    with pytest.raises(ToolError) as caught:
        await DocumentConverter(Config(**settings)).convert(data, name)
    return str(caught.value)


async def outcome(data: bytes, name: str, **settings: Any) -> str:
    """Return the text of a document, or its error."""
    try:
        document = await DocumentConverter(Config(**settings)).convert(data, name)
    except ToolError as error:
        return str(error)
    return "|".join(part.text for part in document.parts)


@pytest.mark.parametrize("member", ["word/document.xml", "xl/workbook.xml"])
async def test_zip_bomb_is_refused(member: str) -> None:
    assert "expected an archive of at most" in await refused(archive({member: BOMB}), "bomb.docx")


async def test_zip_with_too_many_members() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        for number in range(20_001):
            written.writestr(str(number), b"")
    assert "got 20001 files" in await refused(file.getvalue(), "many.docx")


async def test_entities_are_not_expanded() -> None:
    content = odt("<text:p>&i;</text:p>")
    with zipfile.ZipFile(io.BytesIO(content)) as read:
        body = read.read("content.xml").decode()
    outside = "<!DOCTYPE x [<!ENTITY i SYSTEM 'file:///etc/passwd'>]>"
    for prolog in (ENTITIES + "]>", outside):
        data = archive({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": prolog + body})
        text = await outcome(data, "bomb.odt")
        assert text in ("", "&i;") or "Maximum entity amplification" in text


async def test_entities_in_word() -> None:
    members = {}
    with zipfile.ZipFile(io.BytesIO(corpus()["voyage.docx"])) as read:
        members = {name: read.read(name) for name in read.namelist()}
    declaration, _, rest = members["word/document.xml"].partition(b"?>")
    text = rest.replace(b"Alice was", b"&i;", 1)
    members["word/document.xml"] = declaration + b"?>" + ENTITIES.encode() + b"]>" + text
    assert "damaged" in await refused(archive(members), "bomb.docx")


async def test_deeply_nested_page() -> None:
    assert await outcome(b"<html>" + b"<div>" * 50_000 + b"deep", "deep.html") in ("deep", "")
    assert "damaged" in await outcome(odt("<text:list>" * 5000 + "</text:list>" * 5000), "deep.odt")


async def test_cell_at_the_far_end_of_a_sheet() -> None:
    members = {}
    with zipfile.ZipFile(io.BytesIO(corpus()["birds.xlsx"])) as read:
        members = {name: read.read(name) for name in read.namelist()}
    far = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    sheet = members["xl/worksheets/sheet1.xml"].replace(b"</sheetData>", far)
    members["xl/worksheets/sheet1.xml"] = sheet.replace(b'ref="A1:C3"', b'ref="A1:XFD1048576"')
    document = await DocumentConverter(Config()).convert(archive(members), "far.xlsx")
    assert "| Certhidea | James | fine |" in document.parts[0].text
    assert len(document.parts[0].text) < 1000


async def test_huge_number_of_pages(documents: Path) -> None:
    data = (documents / "alice.pdf").read_bytes().replace(b"/Count 2", b"/Count 999999999")
    text = await outcome(data, "pages.pdf", max_pages=50)
    assert "damaged" in text or text.count("|") < 50


async def test_pages_beyond_the_limit_are_not_read(documents: Path) -> None:
    data = (documents / "long.pdf").read_bytes()
    document = await DocumentConverter(Config(max_pages=3)).convert(data, "long.pdf")
    assert (len(document.parts), document.total) == (3, 40)


async def test_memory_is_limited() -> None:
    message = await refused(b"a,b\n" * 10_000_000, "large.csv", process_memory_mb=128)
    assert "more than 128 MiB of memory" in message


async def test_time_is_limited() -> None:
    page = b"<p>x" * 500_000
    assert await refused(page, "slow.html", convert_timeout=0.7) == "reading the document took longer than 0.7 seconds"


async def test_cancelled_conversion_is_killed() -> None:
    converter = DocumentConverter(Config())
    with trio.move_on_after(0.3) as scope:
        await converter.convert(b"<p>x" * 500_000, "slow.html")
    assert scope.cancelled_caught  # the fixture of all tests looks for what is left of it


@pytest.mark.parametrize("name", ["alice.pdf", "voyage.docx", "birds.xlsx", "tales.epub"])
async def test_truncated_file(documents: Path, name: str) -> None:
    data = (documents / name).read_bytes()
    text = await outcome(data[: len(data) // 2], name)
    # PDFium repairs some files.
    assert "damaged" in text or (name == "alice.pdf" and text.count("|") < 2)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"%PDF-1.7 nothing more", "the PDF is damaged"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "encrypted or in a format from before 2007"),
        (b"\x7fELF\0\0", "got binary data of another kind"),
        (archive({"a.txt": b"x"}), "got a ZIP archive without one of these inside"),
        (epub()[:-40], "damaged"),
        (b"plain words", "the content is not that of a .pdf file"),
    ],
)
async def test_file_of_another_kind(data: bytes, why: str) -> None:
    assert why in await refused(data, "a.pdf")


async def test_paths_stay_in_the_folders(ask: Ask, documents: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.csv").write_text("secret,1\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link.csv").symlink_to(outside / "secret.csv")
    (folder / "below").symlink_to(outside)
    (folder / "private.csv").write_text("secret,1\n")
    config = {"folders": (folder,), "deny": ("private*",)}
    for path in (
        "../outside/secret.csv",
        outside / "secret.csv",
        "link.csv",
        "below/secret.csv",
        "private.csv",
        "/etc/passwd",
    ):
        message = await ask("read", path, fails=True, config=config)
        assert "access denied" in message
        assert "secret,1" not in message
    assert "not found" in await ask("read", "missing.pdf", fails=True, config=config)
    assert "expected a file, got a directory" in await ask("read", folder, fails=True, config=config)


async def test_large_file_is_not_read(ask: Ask) -> None:
    config = {"max_file_bytes": 1024}
    message = await ask("read", "alice.pdf", fails=True, config=config)
    assert message.startswith("alice.pdf: expected a document of at most 1024 bytes, got ")


async def test_without_folders(ask: Ask) -> None:
    message = await ask("read", "a.pdf", fails=True, config={"folders": ()})
    assert "[plugins.documents]" in message
    assert "MCPTRIO_DOCUMENTS_FOLDERS" in message
