"""Results are no larger than a client accepts, and the rest can be requested."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio
from mcptrio_fs import Config
from mcptrio_fs.access import FileAccess
from mcptrio_fs.changes import FileChanges
from mcptrio_fs.files import Files
from mcptrio_fs.resources import FileResources
from mcptrio_fs.sizes import MAX_TEXT_BYTES

from mcptrio import Client, MCPError, Server, connect
from mcptrio.protocol.revisions.registry import LATEST
from mcptrio.types import CallToolResult, ReadResourceResult, TextContent

KIB = 1024
LEAST = 128 * KIB


@asynccontextmanager
async def connected(folder: Path, **settings: Any) -> AsyncIterator[Client]:
    access = FileAccess(Config(**{"folders": (folder,), "roots": False, "max_answer_bytes": LEAST, **settings}))
    server = Server(plugins=[Files(access), FileChanges(access), FileResources(access)])
    with trio.fail_after(30):
        async with connect(server) as client:
            yield client


def weight(result: CallToolResult | ReadResourceResult) -> int:
    return len(orjson.dumps(LATEST.unstructure(result)))


TEXTS = {
    "plain": "All work and no play.\n" * 30_000,
    "controls": "\x01" * 100_000,
    "denser": "plain " * 5000 + "\x02" * 100_000,
    "sparser": "\x02" * 10_000 + "plain " * 100_000,
    "wide": "\N{PILE OF POO}é" * 60_000,
    "quotes": '"\\' * 90_000,
}


def text_of(result: CallToolResult) -> str:
    """Return the text of a result whose structured content has nothing that the text lacks."""
    assert not result.is_error, result
    [block] = result.content
    assert isinstance(block, TextContent)
    assert len(orjson.dumps(block.text)) <= 40_000
    return block.text


@pytest.mark.parametrize("kind", TEXTS)
async def test_text_is_read_in_pieces_within_the_answer_size(inside: Path, kind: str) -> None:
    whole = TEXTS[kind]
    (inside / "a.txt").write_text(whole, newline="")
    async with connected(inside) as client:
        pieces: list[str] = []
        offset = 0
        while True:
            result = await client.call_tool("read_text_file", {"path": "a.txt", "offset": offset})
            assert not result.structured_content
            text = text_of(result)
            note = re.search(r"\n?\[bytes (\d+) to \d+ of \d+; continue with offset=(\d+)\]\Z", text)
            if note is None:
                pieces.append(text)
                break
            pieces.append(whole.encode()[offset : int(note[2])].decode())
            assert text.startswith(pieces[-1])
            offset = int(note[2])
        assert "".join(pieces) == whole
        # The pieces are not tiny either.
        assert len(pieces) <= 6 * len(whole.encode()) * 3 // MAX_TEXT_BYTES + 20
        for lines in ({"end_line": 10**6}, {"start_line": -(10**6)}):
            result = await client.call_tool("read_text_file", {"path": "a.txt", **lines})
            assert "\n[bytes " in text_of(result)
            assert weight(result) > MAX_TEXT_BYTES // 10


async def test_several_files_share_the_size_limit(inside: Path) -> None:
    for number in range(30):
        (inside / f"{number}.txt").write_text("\x01" * 2000)
    async with connected(inside) as client:
        paths = [f"{number}.txt" for number in range(30)]
        text = text_of(await client.call_tool("read_multiple_files", {"paths": paths}))
        assert "==> 29.txt\nnot read\n[files cut: " in text


async def test_lists_are_split_into_pages_that_fit(inside: Path) -> None:
    names = [f"{number:03}" + "n" * 240 for number in range(400)]
    for name in names:
        (inside / name).mkdir()
        (inside / name / ("d" * 200)).mkdir()
    async with connected(inside) as client:
        for tool in ("list_directory", "list_directory_with_sizes"):
            seen: list[str] = []
            offset: int | None = 0
            while offset is not None:
                result = await client.call_tool(tool, {"path": ".", "offset": offset})
                seen += [line.split()[-1][:-1] for line in text_of(result).splitlines() if line.endswith("/")]
                offset = result.structured_content.get("next_offset")
            assert seen == names

        cursor: str | None = ""
        seen = []
        while cursor is not None:
            result = await client.call_tool("search_files", {"path": ".", "pattern": "**/d*", "cursor": cursor})
            seen += [line.split("/")[-2] for line in text_of(result).splitlines() if not line.startswith("[")]
            cursor = result.structured_content.get("next_cursor")
        assert seen == names

        *lines, note = text_of(await client.call_tool("directory_tree", {"path": "."})).splitlines()
        assert len("".join(lines)) > MAX_TEXT_BYTES // 10
        assert note.startswith("[directories not expanded: ")
        assert {line.strip().partition("/")[0] for line in lines} <= {*names, "d" * 200}

        folder = await client.read_resource(inside.as_uri())
        assert weight(folder) <= LEAST
        assert "more; list_directory shows them" in folder.contents[0].text  # type: ignore[union-attr]


async def test_file_over_the_size_limit_is_refused_as_a_whole(inside: Path) -> None:
    (inside / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 80_000)
    (inside / "b.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 30_000)
    (inside / "c.txt").write_text("\x01" * 40_000)
    async with connected(inside) as client:
        refused = await client.call_tool("read_media_file", {"path": "a.png"})
        assert refused.is_error
        assert "expected a file of at most 73728 bytes, got 80008" in refused.content[0].text  # type: ignore[union-attr]
        taken = await client.call_tool("read_media_file", {"path": "b.png"})
        assert not taken.is_error
        assert weight(taken) <= LEAST
        for name in ("a.png", "c.txt"):
            with pytest.raises(MCPError):
                await client.read_resource((inside / name).as_uri())
        assert weight(await client.read_resource((inside / "b.png").as_uri())) <= LEAST


async def test_photo_fits_the_default_size_limit(inside: Path) -> None:
    (inside / "a.jpg").write_bytes(b"\xff\xd8\xff" + b"\1" * (6 * KIB * KIB - 50_000))
    async with connected(inside, max_answer_bytes=Config().max_answer_bytes) as client:
        taken = await client.call_tool("read_media_file", {"path": "a.jpg"})
        assert not taken.is_error
        assert weight(taken) <= Config().max_answer_bytes
