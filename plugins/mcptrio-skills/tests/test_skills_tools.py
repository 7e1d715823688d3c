"""The tools for clients without the skills extension."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from mcptrio_skills import Config, Skills

from mcptrio import Client, Server, connect
from mcptrio.types import TextContent

from .conftest import write_skill


@asynccontextmanager
async def connected(folder: Path, revision: str | None = None) -> AsyncIterator[Client]:
    config = Config(folders=(folder,), watch_interval=0)
    with trio.fail_after(60):
        async with connect(Server(plugins=[Skills(config)]), revision=revision) as client:
            yield client


async def call_text(client: Client, tool: str, /, *, failed: bool = False, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error is failed, result.content
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
async def test_client_without_the_extension_lists_and_reads_skills(skills_folder: Path, revision: str) -> None:
    async with connected(skills_folder, revision) as client:
        assert await call_text(client, "list_skills") == (
            "acme/pdf: What it is for.\nacme/pdf/nested: What it is for.\ngit-workflow: What it is for."
        )
        for name in ("acme/pdf", "pdf", "skill://acme/pdf/SKILL.md"):
            text = await call_text(client, "read_skill", name=name)
            assert text.startswith("---\nname: pdf\n")
            assert text.endswith(
                "# Instructions\n[files: nested/SKILL.md, references/FORMS.md, references/deep/a b%.png]"
            )
        for path in ("references/FORMS.md", "./references/FORMS.md"):
            assert await call_text(client, "read_skill_file", name="pdf", path=path) == "# Forms\r\n"


async def test_unknown_names_and_binary_files_are_refused(skills_folder: Path) -> None:
    (skills_folder.parent / "secret").write_text("secret")
    write_skill(skills_folder / "other" / "pdf")
    async with connected(skills_folder) as client:
        assert await call_text(client, "read_skill", name="none", failed=True) == (
            "expected one of acme/pdf, acme/pdf/nested, git-workflow, other/pdf at `name`, got 'none'"
        )
        assert await call_text(client, "read_skill", name="pdf", failed=True) == (
            "expected one of acme/pdf, other/pdf at `name`, got 'pdf'"
        )
        for path in ("../../../secret", "/etc/passwd", "", "references"):
            assert "expected a file of the skill acme/pdf such as" in await call_text(
                client, "read_skill_file", name="acme/pdf", path=path, failed=True
            )
        assert "expected a text file, got image/png of about 6 bytes" in await call_text(
            client, "read_skill_file", name="acme/pdf", path="references/deep/a b%.png", failed=True
        )


async def test_long_texts_and_lists_are_read_in_pieces(tmp_path: Path) -> None:
    instructions = "Do this, then that.\n" * 4_000
    write_skill(tmp_path / "long", text=instructions)
    for number in range(200):
        write_skill(tmp_path / f"skill-{number:03}", description="word " * 60)
    async with connected(tmp_path) as client:
        whole, offset = "", 0
        while True:
            text = await call_text(client, "read_skill", name="long", offset=offset)
            assert len(text) < 40_000
            piece, _, note = text.rpartition("\n[characters ")
            if not piece:
                whole += text
                break
            whole += piece
            offset = int(note.rpartition("=")[2][:-1])
        assert whole.endswith(f"---\n{instructions}")

        first = await call_text(client, "list_skills")
        assert len(first) < 40_000
        offset = int(first.rpartition("=")[2][:-1])
        rest = await call_text(client, "list_skills", offset=offset)
        assert len(first.splitlines()) - 1 + len(rest.splitlines()) == 201


async def test_definitions_take_few_tokens(skills_folder: Path, check_tokens: Any) -> None:
    async with connected(skills_folder) as client:
        await check_tokens(client, 208)
