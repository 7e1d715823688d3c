"""The tools: ranges, pieces, searches, and the notes on how to continue."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mcptrio_documents.document import DocumentPart, OutlineEntry, PagedDocument
from mcptrio_documents.search import find_phrase
from mcptrio_documents.selection import ranges_text, selected_parts
from mcptrio_documents.texts import description_text, hits_text, part_text

from mcptrio import ToolError
from mcptrio.types import TextContent
from plugins.conftest import CheckTokens

from .conftest import Ask, Connect

__all__: list[str] = []


def nothing() -> None: ...


def made(*texts: str, unit: str = "page", total: int | None = None) -> PagedDocument:
    parts = [DocumentPart(f"Title {n}" if unit == "sheet" else "", text) for n, text in enumerate(texts, 1)]
    return PagedDocument(kind="PDF", unit=unit, parts=parts, total=total or len(parts))  # type: ignore[arg-type]


async def test_long_document_is_questioned_with_few_tokens(documents_client: Connect) -> None:
    async with documents_client() as client:

        async def call(tool: str, **arguments: object) -> str:
            [block] = (await client.call_tool(tool, {"path": "long.pdf", **arguments})).content
            assert isinstance(block, TextContent)
            return block.text

        described = await call("describe_document")
        assert described.startswith("long.pdf: PDF, 40 pages, ")
        assert "\n31 Section 31" in described

        found = await call("search_document", query="fact 31 IS 961")
        assert re.match(r"page 31: ….*Fact 31 is 961\. Section 31", found)
        assert len(found) < 1500

        page = await call("read_document", pages="31")
        assert page.startswith("[page 31]\nSection 31\n")
        assert "Section 30" not in page

        first = await call("read_document")
        assert len(first) < 40_000
        assert "go on" not in first

        cut = await call("read_document", limit=1000)
        end = int(re.search(r"continue with offset=(\d+)\]$", cut)[1])  # type: ignore[index]
        rest = await call("read_document", offset=end)
        assert (cut.rpartition("\n[")[0] + "\n" + rest.rpartition("\n[")[0]).replace("\n\n", "\n") == first.replace(
            "\n\n", "\n"
        )


async def test_scanned_pages_are_named(ask: Ask) -> None:
    assert "[without text, perhaps scanned: pages 2-3]" in await ask("read", "scanned.pdf")
    assert await ask("read", "scanned.pdf", pages="2") == "[without text, perhaps scanned: pages 2]"
    assert "\nwithout text, perhaps scanned: pages 2-3\n" in await ask("describe", "scanned.pdf")


async def test_sheets_are_named(ask: Ask) -> None:
    assert (await ask("read", "birds.xlsx", pages="costs")).startswith("[sheet 2: Costs]\n| item | pounds |")
    assert "expected pages such as '3-7', '2,5-' or the title of a sheet, got 'Cost'" in await ask(
        "read", "birds.xlsx", pages="Cost", fails=True
    )


async def test_changed_file_is_converted_again(documents_client: Connect, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("old,text\n")
    async with documents_client(folders=(tmp_path,)) as client:
        assert "old" in str((await client.call_tool("read_document", {"path": str(file)})).content)
        file.write_text("newer,text\n")
        assert "newer" in str((await client.call_tool("read_document", {"path": str(file)})).content)


async def test_definitions_are_small(documents_client: Connect, check_tokens: CheckTokens) -> None:
    async with documents_client() as client:
        await check_tokens(client, 380)


@pytest.mark.parametrize(
    ("pages", "indexes"),
    [
        ("", [0, 1, 2, 3, 4]),
        ("3", [2]),
        ("2-3", [1, 2]),
        (" 2 – 3 ,5", [1, 2, 4]),
        ("4-", [3, 4]),
        ("-2", [0, 1]),
        ("4-99", [3, 4]),
        ("3,3,1", [2, 0]),
        ("Title 4", [3]),
        ("title 4,1", [3, 0]),
    ],
)
def test_selections(pages: str, indexes: list[int]) -> None:
    assert selected_parts(made(*"abcde", unit="sheet"), pages) == indexes


@pytest.mark.parametrize("pages", ["0", "6", "3-2", "x", "1;2", "-", ",", "1-2-3", "²", "1," * 600])
def test_wrong_selections(pages: str) -> None:
    with pytest.raises(ToolError, match=r"^expected (pages such as|pages within 1-5)"):
        selected_parts(made(*"abcde"), pages)


def test_ranges_are_written_short() -> None:
    assert ranges_text([0, 1, 2, 4, 6, 7]) == "1-3, 5, 7-8"
    assert ranges_text(range(0, 200, 2)).endswith("99 and 50 more ranges")


def test_phrase_is_found_over_lines_and_in_any_case() -> None:
    document = made("nothing here", "a b\nquick  Brown\nFOX jumps", "brown and quick, a fox")
    found = find_phrase(document, "quick brown fox", nothing)
    assert found.items == [(1, "a b quick Brown FOX jumps")]
    words = find_phrase(document, "fox quick and", nothing)
    assert words.match_words_only
    assert hits_text(document, words, offset=0, limit=5, max_chars=999) == (
        "page 3: brown and quick, a fox\n[no page has this phrase; these have all its words]"
    )
    nowhere = hits_text(document, find_phrase(document, "badger", nothing), offset=0, limit=5, max_chars=999)
    assert nowhere == "[no hits in 3 pages; try fewer or other words]"
    with pytest.raises(ToolError, match="a query of 1 to 500 characters"):
        find_phrase(document, " ", nothing)


def test_hits_are_paged() -> None:
    document = made(*(f"needle {n}" for n in range(50)))
    found = find_phrase(document, "needle", nothing)
    first = hits_text(document, found, offset=0, limit=20, max_chars=9999)
    assert first.endswith("page 20: needle 19\n[20 of 50 hits; continue with offset=20]")
    assert hits_text(document, found, offset=40, limit=20, max_chars=9999).startswith("page 41: needle 40\n")
    assert hits_text(document, found, offset=50, limit=20, max_chars=9999) == "[no more hits, there are 50]"
    assert len(hits_text(document, found, offset=0, limit=50, max_chars=300)) < 400


def test_near_hits_are_one() -> None:
    assert len(find_phrase(made("ha " * 40), "ha", nothing).items) == 1


def test_unread_pages_are_named() -> None:
    document = made("one", "two", total=9)
    assert part_text(document, [0, 1], offset=0, max_chars=999) == (
        "[page 1]\none\n\n[page 2]\ntwo\n[pages after 2 of 9 were not read]"
    )
    assert "9 pages, 6 characters\npages after 2 of 9 were not read" in description_text(document, "a.pdf", 999)
    assert part_text(document, [0], offset=500, max_chars=9).startswith(
        "[no more text, the selection has 12 characters;"
    )


def test_short_piece_ends_with_a_line_only_if_half_of_it_is_left() -> None:
    document = made("one\n" + "word " * 50)
    assert part_text(document, [0], offset=0, max_chars=40) == (
        "[page 1]\none\nword word word word word wo\n[characters 0 to 40 of 263; continue with offset=40]"
    )
    assert part_text(document, [0], offset=0, max_chars=14).startswith("[page 1]\none\n[characters 0 to 13 of ")


def test_large_outline_is_cut() -> None:
    outline = [OutlineEntry(f"Section {n}", 1, 1) for n in range(500)]
    document = PagedDocument(kind="PDF", unit="page", parts=[DocumentPart("", "x")], outline=outline, total=1)
    text = description_text(document, "a.pdf", 1000)
    assert len(text) < 1100
    assert text.endswith("[the outline was cut; search finds titles as well]")
