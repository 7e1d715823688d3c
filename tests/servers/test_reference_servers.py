"""The reference servers in Python: on the first SDK, which speaks handshake revisions, and on the second.

The first answers unknown methods, including the request of the newest revision, with "invalid parameters".
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcptrio import MCPError, connect
from mcptrio.types import TextContent
from tests.servers.conftest import Command
from tests.servers.ways import TIMEOUTS, text, text_of

__all__: list[str] = []


@pytest.mark.parametrize("revision", [None, "2024-11-05"])
async def test_reference_time_server_answers(
    reference_generation: str, time_command: Any, revision: str | None
) -> None:
    """The client has no configuration, and finds the newest revision that both support."""
    newest = "2025-11-25" if reference_generation == "v1" else "2026-07-28"
    async with connect(time_command, timeouts=TIMEOUTS, revision=revision) as client:
        assert client.revision == (revision or newest)
        assert client.server_info is not None
        assert client.server_info.name == "mcp-time"
        assert client.capabilities.tools is not None
        assert [tool.name for tool in await client.tools().all()] == ["get_current_time", "convert_time"]
        now = json.loads(await text(client, "get_current_time", timezone="UTC"))
        assert now["timezone"] == "UTC"
        converted = await client.call_tool(
            "convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        )
        report = json.loads(text_of(converted))
        assert report["time_difference"] == "+9.0h"
        # The first SDK has none here.
        assert (
            converted.structured_content in (report, None)
            or revision == "2024-11-05"
            or not converted.structured_content
        )

        assert "Mars" in await text(client, "get_current_time", timezone="Mars")
        assert (await text(client, "get_current_time")).startswith("error: ")
        assert "Europe/Zurich" in str((await client.tools().all())[0].input_schema)


async def test_reference_git_server_answers(git_command: Command, repository: Path) -> None:
    repo = str(repository)
    async with connect(git_command, timeouts=TIMEOUTS) as client:
        tools = {tool.name: tool for tool in await client.tools().all()}
        assert len(tools) == 12
        assert tools["git_reset"].annotations is not None
        assert tools["git_reset"].annotations.destructive_hint is True

        status = await text(client, "git_status", repo_path=repo)
        assert "new file:   staged.txt" in status
        assert "modified:   poem.txt" in status
        assert "+Sugar is sweet" in await text(client, "git_diff_unstaged", repo_path=repo)
        assert "+staged" in await text(client, "git_diff_staged", repo_path=repo)
        assert (await text(client, "git_log", repo_path=repo)).count("Commit: ") == 2
        assert "Violets are blue" in await text(client, "git_show", repo_path=repo, revision="HEAD")

        assert not (await text(client, "git_add", repo_path=repo, files=["poem.txt"])).startswith("error: ")
        assert "committed" in await text(client, "git_commit", repo_path=repo, message="Zucker ist süß 🌹")
        assert "Zucker ist süß 🌹" in await text(client, "git_log", repo_path=repo, max_count=1)
        assert not (await text(client, "git_checkout", repo_path=repo, branch_name="other")).startswith("error")
        assert "* other" in await text(client, "git_branch", repo_path=repo, branch_type="local")

        assert "outside" in await text(client, "git_status", repo_path="/")
        assert (await text(client, "git_show", repo_path=repo, revision="no-such")).startswith("error: ")
    assert (repository / "poem.txt").read_text() == "Roses are red\nViolets are blue\n", "it is another branch now"


async def test_reference_fetch_server_answers(fetch_command: Any, site: str) -> None:
    async with connect(fetch_command, timeouts=TIMEOUTS) as client:
        page = await text(client, "fetch", url=f"{site}/page")
        assert page.startswith(f"Contents of {site}/page:")
        assert "# Hello" in page
        raw = await text(client, "fetch", url=f"{site}/page", raw=True, max_length=20)
        assert "<html><head><title>A\n" in raw
        assert "robots.txt" in await text(client, "fetch", url=f"{site}/private")
        assert "404" in await text(client, "fetch", url=f"{site}/missing")
        assert (await text(client, "fetch", url="no url")).startswith("error: ")

        (prompt,) = await client.prompts().all()
        assert prompt.name == "fetch"
        (message,) = (await client.get_prompt("fetch", {"url": f"{site}/private"})).messages
        assert isinstance(message.content, TextContent)
        assert "not for robots" in message.content.text
        with pytest.raises(MCPError, match="URL is required"):
            await client.get_prompt("fetch")


async def test_missing_features_of_a_reference_server_are_reported(
    reference_generation: str, git_command: Command
) -> None:
    """The first SDK lacks the methods; the second has them and lists nothing."""
    async with connect(git_command, timeouts=TIMEOUTS) as client:
        if reference_generation == "v1":
            with pytest.raises(MCPError):
                await client.resources().all()
        else:
            assert await client.resources().all() == ()
        with pytest.raises(MCPError):
            await client.request("no/such/method")
        assert len(await client.tools().all()) == 12
