"""The plugin in a server, seen by a client."""

from __future__ import annotations

import base64
import hashlib
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from mcptrio_skills import Config, Skills
from mcptrio_skills.skills import EXTENSION

from mcptrio import Client, InvalidParams, MCPError, ResourceNotFound, Server, connect
from mcptrio.client import Change
from mcptrio.serving import ServerSettings
from mcptrio.types import BlobResourceContents, TextResourceContents

from .conftest import write_skill


@asynccontextmanager
async def connected(*folders: Path, revision: str | None = None, **settings: Any) -> AsyncIterator[Client]:
    config = Config(**{"folders": folders, "watch_interval": 0.02, **settings})
    with trio.fail_after(60):
        async with connect(Server(plugins=[Skills(config)]), revision=revision) as client:
            yield client


async def uris(client: Client) -> list[str]:
    return [skill["uri"] for skill in (await client.request("skills/list", {}))["skills"]]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_instructions_name_the_skills(skills_folder: Path, revision: str) -> None:
    """Models of hosts without the extension use them."""
    async with connected(skills_folder, revision=revision) as client:
        listed = await uris(client)
        assert client.instructions is not None
        assert [uri for uri in listed if f"- {uri}: " in client.instructions] == listed
        assert "read it with read_skill" in client.instructions
    async with connected(revision=revision) as client:
        assert client.instructions is None


async def test_instructions_stay_short(tmp_path: Path) -> None:
    for number in range(100):
        write_skill(tmp_path / f"skill-{number:03}", description="word " * 60)
    async with connected(tmp_path) as client:
        assert client.instructions is not None
        assert len(client.instructions) < 5000
        assert "more: see list_skills" in client.instructions


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_host_can_list_get_read_and_verify_a_skill(skills_folder: Path, revision: str) -> None:
    async with connected(skills_folder, revision=revision, ttl=60, public=True) as client:
        listing = await client.request("skills/list", {})
        assert (listing["ttlMs"], listing["cacheScope"], listing["resultType"]) == (60_000, "public", "complete")
        assert "nextCursor" not in listing
        for skill in listing["skills"]:
            got = await client.request("skills/get", {"uri": skill["uri"]})
            assert got["skill"] == skill
            assert (got["ttlMs"], got["cacheScope"]) == (60_000, "public")
            for row in skill["resources"]:
                [contents] = (await client.read_resource(row["uri"])).contents
                assert contents.uri == row["uri"]
                if isinstance(contents, TextResourceContents):
                    data = contents.text.encode()
                else:
                    assert isinstance(contents, BlobResourceContents)
                    data = base64.b64decode(contents.blob)
                assert len(data) == row["size"]
                assert f"sha256:{hashlib.sha256(data).hexdigest()}" == row["digest"]


async def test_extension_and_resources_are_advertised(skills_folder: Path) -> None:
    async with connected(skills_folder) as client:
        assert client.capabilities.extensions == {EXTENSION: {"directoryRead": True}}
        assert client.capabilities.resources is not None
        listed = {resource.uri: resource async for resource in client.resources()}
        [template] = [template async for template in client.resource_templates()]

    assert list(listed) == sorted(listed)
    assert len(listed) == 3
    pdf = listed["skill://acme/pdf/SKILL.md"]
    assert (pdf.name, pdf.description, pdf.mime_type) == ("pdf", "What it is for.", "text/markdown")
    assert pdf.size == (skills_folder / "acme/pdf/SKILL.md").stat().st_size
    assert template.uri_template == "skill://{+path}"


async def test_skills_are_listed_in_pages(skills_folder: Path) -> None:
    async with connected(skills_folder, page_size=1) as client:
        found: list[str] = []
        params: dict[str, Any] = {}
        while True:
            page = await client.request("skills/list", params)
            found += [skill["uri"] for skill in page["skills"]]
            if "nextCursor" not in page:
                break
            params = {"cursor": page["nextCursor"]}
        assert found == sorted(found)
        assert len(found) == 3
        for cursor in ("x", "", 5, "AAAA", "x" * 20_000):
            for method, more in (("skills/list", {}), ("resources/directory/read", {"uri": "skill://acme"})):
                with pytest.raises(MCPError, match="cursor") as raised:
                    await client.request(method, {**more, "cursor": cursor})
                assert raised.value.code == -32602


async def test_folders_are_read_level_by_level(skills_folder: Path) -> None:
    async with connected(skills_folder) as client:
        read = await client.request("resources/directory/read", {"uri": "skill://acme/pdf"})
        assert read["resources"] == [
            {
                "uri": "skill://acme/pdf/SKILL.md",
                "name": "pdf",
                "description": "What it is for.",
                "mimeType": "text/markdown",
                "size": (skills_folder / "acme/pdf/SKILL.md").stat().st_size,
            },
            {"uri": "skill://acme/pdf/nested", "name": "nested", "mimeType": "inode/directory"},
            {"uri": "skill://acme/pdf/references", "name": "references", "mimeType": "inode/directory"},
        ]
        above = await client.request("resources/directory/read", {"uri": "skill://acme"})
        assert [each["uri"] for each in above["resources"]] == ["skill://acme/pdf"]
        [contents] = (await client.read_resource("skill://acme/pdf/references")).contents
        assert isinstance(contents, TextResourceContents)
        assert contents.mime_type == "inode/directory"
        assert contents.text.splitlines()[0] == "skill://acme/pdf/references/FORMS.md"


@pytest.mark.parametrize(
    ("method", "uri"),
    [
        ("skills/get", "skill://none/SKILL.md"),
        ("skills/get", "skill://acme/pdf"),
        ("skills/get", "skill://acme/pdf/references/FORMS.md"),
        ("skills/get", "skill://acme/../git-workflow/SKILL.md"),
        ("skills/get", 5),
        ("skills/get", None),
        ("resources/directory/read", "skill://acme/pdf/SKILL.md"),
        ("resources/directory/read", "skill://acme/pdf/"),
        ("resources/directory/read", "skill://"),
        ("resources/directory/read", "skill://acme/pdf/../.."),
        ("resources/directory/read", "file:///etc"),
        ("resources/read", "skill://acme/pdf/../../../secret"),
        ("resources/read", "skill://acme/pdf/%2e%2e/%2e%2e/secret"),
        ("resources/read", "skill://acme/pdf/none.md"),
        ("resources/read", "skill://acme/README.md"),
        ("resources/read", "skill:///etc/passwd"),
    ],
)
async def test_unserved_uri_is_refused(skills_folder: Path, method: str, uri: Any) -> None:
    (skills_folder.parent / "secret").write_text("secret")
    (skills_folder / "acme" / "README.md").write_text("not of a skill")
    async with connected(skills_folder, revision="2026-07-28") as client:
        with pytest.raises(MCPError) as raised:
            await client.request(method, {"uri": uri})

    assert isinstance(raised.value, ResourceNotFound if isinstance(uri, str) else InvalidParams)


async def test_change_is_visible_to_the_next_request(skills_folder: Path) -> None:
    async with connected(skills_folder, watch_interval=0) as client:
        before = await client.request("skills/get", {"uri": "skill://git-workflow/SKILL.md"})
        (skills_folder / "git-workflow" / "SKILL.md").write_text("---\nname: git-workflow\ndescription: New.\n---\n")
        after = await client.request("skills/get", {"uri": "skill://git-workflow/SKILL.md"})
        assert before["skill"]["resources"] != after["skill"]["resources"]
        assert after["skill"]["frontmatter"]["description"] == "New."

        write_skill(skills_folder / "another")
        assert "skill://another/SKILL.md" in await uris(client)
        (skills_folder / "another" / "SKILL.md").unlink()
        assert "skill://another/SKILL.md" not in await uris(client)
        with pytest.raises(MCPError):
            await client.read_resource("skill://another/SKILL.md")


async def test_file_replaced_by_a_link_is_not_read(skills_folder: Path, tmp_path: Path) -> None:
    """The file is replaced between the scan and the read."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    async with connected(skills_folder, watch_interval=0) as client:
        file = skills_folder / "acme/pdf/references/FORMS.md"
        file.unlink()
        file.symlink_to(secret)
        with pytest.raises(MCPError):
            await client.read_resource("skill://acme/pdf/references/FORMS.md")
        file.unlink()
        (skills_folder / "acme/pdf/references").rename(skills_folder / "acme/pdf/moved")
        (tmp_path / "FORMS.md").write_text("secret")
        (skills_folder / "acme/pdf/references").symlink_to(tmp_path)
        with pytest.raises(MCPError):
            await client.read_resource("skill://acme/pdf/references/FORMS.md")


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_subscribers_and_lists_are_notified(skills_folder: Path, revision: str) -> None:
    uri = "skill://acme/pdf/references/FORMS.md"
    async with connected(skills_folder, revision=revision) as client:
        async with client.subscribe([uri], resources=True) as changes:
            (skills_folder / "acme/pdf/references/FORMS.md").write_text("# Other forms\n")
            assert await anext(changes) == Change("resource", uri)
            write_skill(skills_folder / "another")
            while (await anext(changes)).kind != "resources":
                pass
        assert "skill://another/SKILL.md" in [each.uri async for each in client.resources()]


async def test_paths_are_completed(skills_folder: Path) -> None:
    async with connected(skills_folder) as client:
        completed = await client.complete("resource", "skill://{+path}", "path", "acme/pdf/ref")

    assert completed.values == ("acme/pdf/references/FORMS.md", "acme/pdf/references/deep/a b%.png")


async def test_rejected_skill_is_logged_once(skills_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_skill(skills_folder / "Bad_Name")
    with caplog.at_level(logging.WARNING, "mcptrio_skills"):
        async with connected(skills_folder) as client:
            for _ in range(3):
                await uris(client)

    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["not served"]


async def test_missing_folders_setting_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with connected() as client:
        assert await uris(client) == []

    assert "[plugins.skills]" in caplog.text


async def test_concurrent_requests_share_a_scan(skills_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mcptrio_skills import index as module

    scans: list[object] = []

    everybody_asks = threading.Event()

    class Counted(module.FolderScan):
        def run(self) -> Any:
            scans.append(self)
            if len(scans) > 1:
                everybody_asks.wait()
            return super().run()

    monkeypatch.setattr(module, "FolderScan", Counted)
    async with connected(skills_folder, watch_interval=0) as client, trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(uris, client)
        await trio.testing.wait_all_tasks_blocked()
        everybody_asks.set()

    assert len(scans) <= 3  # one at the start, one that runs, one for the requests that arrived meanwhile


async def test_table_of_the_configuration_file_is_read(skills_folder: Path) -> None:
    table = {"folders": [str(skills_folder)], "ignore": ["nested"], "page_size": 10}
    async with connect(
        Server(plugins=[Skills], config={"Skills": table}, settings=ServerSettings(strict=True))
    ) as client:
        assert await uris(client) == ["skill://acme/pdf/SKILL.md", "skill://git-workflow/SKILL.md"]

    for wrong in ({"folders": ["x"], "max_files": 513}, {"folder": []}, {"ignore": ["a/b"]}):
        server = Server(plugins=[Skills], config={"Skills": wrong})
        assert server.status.plugins[0].state == "quarantined"


def test_yaml_parser_is_imported_when_needed() -> None:
    code = "import sys, mcptrio_skills; print('yaml' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert result.stdout == "False\n"


async def test_closed_server_lists_no_skills(skills_folder: Path) -> None:
    server = Server(plugins=[Skills(Config(folders=(skills_folder,)))])
    async with server.open():
        assert len(server.catalog.resources.resources) == 3

    assert len(server.catalog.resources.resources) == 0
