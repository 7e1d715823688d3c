"""Results are no larger than a client accepts, and the rest can be requested."""

from __future__ import annotations

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

from mcptrio import Client, MCPError, Server, connect
from mcptrio.protocol.revisions.registry import LATEST
from mcptrio.types import CallToolResult, ReadResourceResult

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


@pytest.mark.parametrize("kind", TEXTS)
async def test_text_is_read_in_pieces_within_the_answer_size(inside: Path, kind: str) -> None:
    (inside / "a.txt").write_text(TEXTS[kind], newline="")
    async with connected(inside) as client:
        pieces: list[str] = []
        offset = 0
        while True:
            result = await client.call_tool("read_text_file", {"path": "a.txt", "offset": offset})
            assert not result.is_error, result
            assert weight(result) <= LEAST
            pieces.append(result.structured_content["content"])
            if not result.structured_content.get("truncated"):
                break
            offset = result.structured_content["nextOffset"]
        assert "".join(pieces) == TEXTS[kind]
        # The pieces are not tiny either.
        assert len(pieces) <= 6 * len(TEXTS[kind].encode()) * 3 // LEAST + 20
        for ends in ({"head": 10**6}, {"tail": 10**6}):
            result = await client.call_tool("read_text_file", {"path": "a.txt", **ends})
            assert result.structured_content["truncated"]
            assert LEAST // 10 < weight(result) <= LEAST


async def test_several_files_share_the_size_limit(inside: Path) -> None:
    for number in range(30):
        (inside / f"{number}.txt").write_text("\x01" * 2000)
    async with connected(inside) as client:
        paths = [f"{number}.txt" for number in range(30)]
        result = await client.call_tool("read_multiple_files", {"paths": paths})
        assert not result.is_error
        assert weight(result) <= LEAST
        assert "the answer is full" in result.structured_content["content"]
        assert result.structured_content["truncated"]


async def test_lists_are_split_into_pages_that_fit(inside: Path) -> None:
    names = [f"{number:03}" + "n" * 240 for number in range(400)]
    for name in names:
        (inside / name).mkdir()
        (inside / name / ("d" * 200)).mkdir()
    async with connected(inside) as client:
        for tool in ("list_directory", "list_directory_with_sizes"):
            seen: list[str] = []
            offset = 0
            while True:
                result = await client.call_tool(tool, {"path": ".", "offset": offset})
                assert weight(result) <= LEAST
                found = result.structured_content["content"].splitlines()
                seen += [line.split()[1] for line in found if line.startswith("[DIR]")]
                if not result.structured_content.get("truncated"):
                    break
                offset = result.structured_content["nextOffset"]
            assert seen == names

        cursor: dict[str, str] = {}
        seen = []
        while True:
            result = await client.call_tool("search_files", {"path": ".", "pattern": "**/d*", **cursor})
            assert weight(result) <= LEAST
            seen += [line.split("/")[-2] for line in result.structured_content["content"].splitlines()]
            if not result.structured_content.get("truncated"):
                break
            cursor = {"cursor": result.structured_content["nextCursor"]}
        assert seen == names

        result = await client.call_tool("directory_tree", {"path": "."})
        assert LEAST // 10 < weight(result) <= LEAST
        assert result.structured_content["truncated"]
        tree = orjson.loads(result.structured_content["content"])
        assert {each["name"] for each in tree} <= set(names)

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
        assert "expected a file of at most 36864 bytes, got 80008" in refused.content[0].text  # type: ignore[union-attr]
        taken = await client.call_tool("read_media_file", {"path": "b.png"})
        assert not taken.is_error
        assert weight(taken) <= LEAST
        for name in ("a.png", "c.txt"):
            with pytest.raises(MCPError):
                await client.read_resource((inside / name).as_uri())
        assert weight(await client.read_resource((inside / "b.png").as_uri())) <= LEAST


async def test_photo_fits_the_default_size_limit(inside: Path) -> None:
    (inside / "a.jpg").write_bytes(b"\xff\xd8\xff" + b"\1" * (3 * KIB * KIB - 50_000))
    async with connected(inside, max_answer_bytes=Config().max_answer_bytes) as client:
        taken = await client.call_tool("read_media_file", {"path": "a.jpg"})
        assert not taken.is_error
        assert weight(taken) <= Config().max_answer_bytes
