"""The plugin in a server, used by a client."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import mcptrio_fs
import pytest
import trio
from mcptrio_fs.access import no_folder, uri_of

from mcptrio import Client, MCPError, Server
from mcptrio.client import Change, Handlers
from mcptrio.testing import Case, Script, ServerSpec, open_served
from mcptrio.types import BlobResourceContents, TextContent, TextResourceContents

READING = {
    "read_text_file": "Read Text File",
    "read_media_file": "Read Media File",
    "read_multiple_files": "Read Multiple Files",
    "list_directory": "List Directory",
    "list_directory_with_sizes": "List Directory with Sizes",
    "directory_tree": "Directory Tree",
    "search_files": "Search Files",
    "grep": "Grep",
    "get_file_info": "Get File Info",
    "list_allowed_directories": "List Allowed Directories",
}
# idempotentHint, destructiveHint
CHANGING = {
    "write_file": ("Write File", True, True),
    "edit_file": ("Edit File", False, True),
    "create_directory": ("Create Directory", True, False),
    "move_file": ("Move File", False, True),
}


CASE = Case(revision="2025-11-25")


def parts(**config: Any) -> ServerSpec:
    """Yield a server with the plugin and these settings."""
    return ServerSpec(plugins=[mcptrio_fs], config={"mcptrio_fs": config})


@asynccontextmanager
async def connected(handlers: Handlers | None = None, **config: Any) -> AsyncIterator[Client]:
    """Yield a client of such a server."""
    with trio.fail_after(60):
        async with open_served(parts(**config), CASE) as served, served.connect(handlers=handlers) as client:
            yield client


async def text(client: Client, tool: str, /, **arguments: Any) -> str:
    """Return the text of a successful tool call."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


async def test_tools_are_those_of_the_reference(inside: Path) -> None:
    async with connected(folders=[str(inside)]) as client:
        tools = {tool.name: tool async for tool in client.tools()}

    assert set(tools) == {*READING, *CHANGING}
    for name, title in READING.items():
        assert tools[name].title == title
        hints = tools[name].annotations
        assert hints is not None
        assert (hints.read_only_hint, hints.open_world_hint) == (True, False)
    for name, (title, idempotent, destructive) in CHANGING.items():
        assert tools[name].title == title
        hints = tools[name].annotations
        assert hints is not None
        assert (hints.idempotent_hint, hints.destructive_hint) == (idempotent, destructive)
        assert (hints.read_only_hint, hints.open_world_hint) == (False, False)
    assert tools["edit_file"].input_schema["required"] == ["path", "edits"]
    assert tools["read_multiple_files"].input_schema["properties"]["paths"]["minItems"] == 1


async def test_definitions_take_few_tokens(inside: Path, check_tokens: Any) -> None:
    async with connected(folders=[str(inside)]) as client:
        await check_tokens(client, 1736)


async def test_tools_work_together(inside: Path) -> None:
    async with connected(folders=[str(inside)]) as client:
        await text(client, "create_directory", path="src")
        await text(client, "write_file", path="src/a.py", content="x = 1\n")
        diff = await text(client, "edit_file", path="src/a.py", edits=[{"old_text": "1", "new_text": "2"}])
        assert "+x = 2" in diff
        await text(client, "move_file", source="src/a.py", destination="src/b.py")
        assert await text(client, "read_text_file", path="src/b.py") == "x = 2\n"
        assert await text(client, "search_files", path=".", pattern="**/*.py") == "src/b.py"
        assert await text(client, "list_directory", path="src") == "b.py"
        assert await text(client, "directory_tree", path=".", exclude=["node_modules"]) == "src/\n  b.py"
        assert "size: 6" in await text(client, "get_file_info", path="src/b.py")
        assert "b.py" in await text(client, "list_directory_with_sizes", path="src", sort_by="size")
        assert "x = 2" in await text(client, "read_multiple_files", paths=["src/b.py", "none"])
        result = await client.call_tool("read_media_file", {"path": "src/b.py"})
        assert result.content[0].type == "resource"
        assert result.content[0].resource.blob == "eCA9IDIK"


async def test_failure_is_a_tool_error(inside: Path, outside: Path) -> None:
    async with connected(folders=[str(inside)]) as client:
        result = await client.call_tool("read_text_file", {"path": str(outside / "secret.txt")})

        assert result.is_error
        assert isinstance(result.content[0], TextContent)
        assert result.content[0].text.startswith("access denied: ")
        for arguments in ({"paths": []}, {"paths": ["a"], "other": 1}, {}):
            assert (await client.call_tool("read_multiple_files", arguments)).is_error


async def test_read_only_plugin_offers_no_changing_tool(inside: Path) -> None:
    async with connected(folders=[str(inside)], read_only=True) as client:
        assert {tool.name async for tool in client.tools()} == set(READING)


async def test_roots_narrow_the_folders_and_may_change(inside: Path) -> None:
    for name in ("a", "b"):
        (inside / name).mkdir()
    script = Script().roots(inside / "a").roots(inside / "b")
    async with connected(script.handlers("roots"), folders=[str(inside)]) as client:
        assert await text(client, "list_allowed_directories") == f"{inside}/a"
        assert (await client.call_tool("list_directory", {"path": str(inside / "b")})).is_error

        await client.roots_changed()

        # A notification is handled concurrently with later calls, so the first of them may be faster.
        while await text(client, "list_allowed_directories") != f"{inside}/b":
            pass
        assert (await client.call_tool("list_directory", {"path": str(inside / "a")})).is_error
    script.check()


async def test_tools_without_folders_explain_how_to_configure_one(inside: Path) -> None:
    async with connected(Handlers(roots=[inside])) as client:
        for name in ("list_allowed_directories", "list_directory"):
            result = await client.call_tool(name, {"path": "."} if name == "list_directory" else {})
            assert isinstance(result.content[0], TextContent)
            assert "MCPTRIO_FS_FOLDERS" in result.content[0].text


def test_start_without_folders_logs_a_warning(inside: Path, caplog: pytest.LogCaptureFixture) -> None:
    message = no_folder("fs")
    for config in ({"folders": [str(inside)]}, {"roots": True}):
        Server("test", plugins=[mcptrio_fs], config={"mcptrio_fs": config})
        assert message not in caplog.messages
    Server("test", plugins=[mcptrio_fs])

    assert message in caplog.messages


async def test_missing_folder_is_logged_at_the_start(inside: Path, heard: trio.MemoryReceiveChannel[str]) -> None:
    async with connected(folders=[str(inside), str(inside / "gone")]):
        assert (await heard.receive()).startswith(
            f"folders of [plugins.fs]: there is no directory {inside}/gone; create it"
        )


async def test_missing_folder_is_named_in_each_call(inside: Path) -> None:
    missing = inside / "gone"
    async with connected(folders=[str(missing)]) as client:
        for path in (".", "a/b", str(missing / "a")):
            result = await client.call_tool("list_directory", {"path": path})
            assert result.text == f"not found: {path}; the allowed directory {missing} does not exist"


async def test_resources_are_listed_read_and_completed(inside: Path, outside: Path) -> None:
    (inside / "a b.md").write_text("# hello")
    (inside / "c.bin").write_bytes(b"\0")
    async with connected(folders=[str(inside)]) as client:
        [listed] = [each async for each in client.resources()]
        assert (listed.uri, listed.mime_type) == (uri_of(str(inside)), "inode/directory")
        assert [each.uri_template async for each in client.resource_templates()] == ["file:///{+path}"]

        [directory] = (await client.read_resource(listed.uri)).contents
        assert isinstance(directory, TextResourceContents)
        uri = directory.text.split("\n")[0]
        [page] = (await client.read_resource(uri)).contents
        [data] = (await client.read_resource(uri_of(str(inside / "c.bin")))).contents
        assert page == TextResourceContents(uri=uri, mime_type="text/markdown", text="# hello")
        assert isinstance(data, BlobResourceContents)
        assert data.blob == "AA=="

        completed = await client.complete("resource", "file:///{+path}", "path", f"{inside}/a"[1:])
        assert completed.values == (f"{inside}/a b.md"[1:],)

        for path in (f"{outside}/secret.txt", f"{inside}/../outside/secret.txt", f"{inside}/none"):
            for uri in (uri_of(path), "file://" + path.replace("..", "%2e%2e")):
                with pytest.raises(MCPError):
                    await client.read_resource(uri)


async def test_subscriber_is_notified_of_a_change(inside: Path) -> None:
    (inside / "a").write_text("1")
    uri = uri_of(str(inside / "a"))

    async def go_on_changing() -> None:
        # The first check comes right after the subscription, and later changes are reported; a file that keeps changing
        # is noticed in any case.
        for number in count():
            (inside / "a").write_text("x" * number)
            await trio.sleep(0.05)

    async with connected(folders=[str(inside)], watch_interval=0.02) as client:
        async with client.subscribe([uri]) as changes, trio.open_nursery() as nursery:
            nursery.start_soon(go_on_changing)
            assert await anext(changes) == Change("resource", uri)
            nursery.cancel_scope.cancel()


async def test_running_search_is_cancelled(inside: Path) -> None:
    for number in range(40):
        (inside / f"{number:02}").mkdir()
        for other in range(300):
            os.close(os.open(inside / f"{number:02}/{other:03}", os.O_CREAT))
    async with open_served(parts(folders=[str(inside)]), CASE) as served, served.connect() as client:
        with trio.fail_after(60):
            async with client.start_tool("search_files", {"path": ".", "pattern": "**/none"}) as call:
                async for _ in call:
                    break

            assert served.server is not None
            while served.server.status.in_flight:
                await client.ping()


async def test_invalid_setting_quarantines_the_plugin() -> None:
    server = Server(plugins=[mcptrio_fs], config={"mcptrio_fs": {"folder": []}})

    assert "did you mean `folders`?" in (server.plugins.plugins["mcptrio_fs"].failure or "")
    assert server.status.plugins[0].state == "quarantined"


def test_plugin_import_loads_no_http_stack() -> None:
    code = "import sys, mcptrio_fs; print([n for n in ('quart', 'hypercorn', 'httpx2', 'ssl') if n in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )

    assert "quart" not in result.stdout
    assert "httpx2" not in result.stdout


@pytest.mark.parametrize("name", [*READING, *CHANGING])
async def test_every_tool_is_in_the_readme(name: str) -> None:
    assert f"`fs_{name}`" in (Path(mcptrio_fs.__file__).parent.parent / "README.md").read_text()
