"""The plugin in a server, over a channel: what a client sees."""

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
from attrs import define, field
from mcptrio_fs.access import uri_of

from mcptrio import Server, memory_channel_pair
from mcptrio.protocol.messages import ErrorResponse, Message, Notification, Request, Response
from mcptrio.transports.memory import MemoryChannel

READING = {
    "read_file": "Read File (Deprecated)",
    "read_text_file": "Read Text File",
    "read_media_file": "Read Media File",
    "read_multiple_files": "Read Multiple Files",
    "list_directory": "List Directory",
    "list_directory_with_sizes": "List Directory with Sizes",
    "directory_tree": "Directory Tree",
    "search_files": "Search Files",
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


@define
class Client:
    """A client of a handshake session, down to the messages."""

    channel: MemoryChannel
    roots: list[str] = field(factory=list)
    heard: list[Notification] = field(factory=list)
    news: trio.Event = field(factory=trio.Event)
    _answers: dict[int | str, Response | ErrorResponse] = field(factory=dict)
    _ids: Any = field(factory=lambda: count(1))

    async def listen(self) -> None:
        while True:
            try:
                arrived = await self.channel.receive()
            except trio.EndOfChannel:
                return
            for message in arrived:
                if isinstance(message, Notification):
                    self.heard.append(message)
                elif isinstance(message, Request):
                    assert message.method == "roots/list"
                    await self.send(Response(message.id, {"roots": [{"uri": uri} for uri in self.roots]}))
                elif isinstance(message, Response | ErrorResponse):
                    self._answers[message.id or 0] = message
            self.news.set()
            self.news = trio.Event()

    async def send(self, message: Message) -> None:
        await self.channel.send([message])

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = await self.answer(method, params)
        assert isinstance(answer, Response), answer
        return answer.result

    async def answer(self, method: str, params: dict[str, Any] | None = None) -> Response | ErrorResponse:
        id = next(self._ids)
        await self.send(Request(id, method, params))
        with trio.fail_after(20):
            while id not in self._answers:
                await self.news.wait()
        return self._answers.pop(id)

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        return await self.ask("tools/call", {"name": tool, "arguments": arguments})

    async def text(self, tool: str, /, **arguments: Any) -> str:
        result = await self.call(tool, **arguments)
        assert not result.get("isError"), result
        return result["content"][0]["text"]

    async def hear(self, method: str) -> dict[str, Any]:
        with trio.fail_after(20):
            while True:
                for message in self.heard:
                    if message.method == method:
                        self.heard.remove(message)
                        return message.params or {}
                await self.news.wait()


@asynccontextmanager
async def connected(*roots: Path, has_roots: bool = False, **config: Any) -> AsyncIterator[Client]:
    server = Server(plugins=[mcptrio_fs], config={"mcptrio_fs": config}, strict=True)
    ours, theirs = memory_channel_pair()
    client = Client(ours, [uri_of(str(root)) for root in roots])
    async with server.open(), trio.open_nursery() as nursery:
        nursery.start_soon(server.serve, theirs)
        nursery.start_soon(client.listen)
        capabilities = {"roots": {"listChanged": True}} if roots or has_roots else {}
        await client.ask(
            "initialize",
            {
                "protocolVersion": "2025-11-25",
                "capabilities": capabilities,
                "clientInfo": {"name": "test", "version": "0"},
            },
        )
        await client.send(Notification("notifications/initialized"))
        yield client
        nursery.cancel_scope.cancel()


async def test_the_tools_are_those_of_the_reference(inside: Path) -> None:
    async with connected(folders=[str(inside)]) as client:
        tools = {tool["name"]: tool for tool in (await client.ask("tools/list"))["tools"]}

    assert set(tools) == {*READING, *CHANGING}
    for name, title in READING.items():
        assert tools[name]["title"] == title
        assert tools[name]["annotations"].items() >= {"readOnlyHint": True, "openWorldHint": False}.items()
    for name, (title, idempotent, destructive) in CHANGING.items():
        assert tools[name]["title"] == title
        assert (
            tools[name]["annotations"].items()
            >= {
                "readOnlyHint": False,
                "idempotentHint": idempotent,
                "destructiveHint": destructive,
                "openWorldHint": False,
            }.items()
        )
    for name, tool in tools.items():
        assert tool["outputSchema"]["required"] == ["content"], name
        assert len(tool["description"]) > 50, name
    assert tools["edit_file"]["inputSchema"]["required"] == ["path", "edits"]
    assert tools["read_multiple_files"]["inputSchema"]["properties"]["paths"]["minItems"] == 1


async def test_a_day_at_work(inside: Path) -> None:
    async with connected(folders=[str(inside)]) as client:
        await client.text("create_directory", path="src")
        await client.text("write_file", path="src/a.py", content="x = 1\n")
        diff = await client.text("edit_file", path="src/a.py", edits=[{"oldText": "1", "newText": "2"}])
        assert "+x = 2" in diff
        await client.text("move_file", source="src/a.py", destination="src/b.py")
        assert await client.text("read_text_file", path="src/b.py") == "x = 2\n"
        assert await client.text("search_files", path=".", pattern="**/*.py") == f"{inside}/src/b.py"
        assert await client.text("list_directory", path="src") == "[FILE] b.py"
        assert '"name": "b.py"' in await client.text("directory_tree", path=".", excludePatterns=["node_modules"])
        assert "size: 6" in await client.text("get_file_info", path="src/b.py")
        assert "b.py" in await client.text("list_directory_with_sizes", path="src", sortBy="size")
        assert "x = 2" in await client.text("read_multiple_files", paths=["src/b.py", "none"])
        result = await client.call("read_media_file", path="src/b.py")
        assert result["content"][0]["type"] == "resource"
        assert result["structuredContent"]["content"][0]["resource"]["blob"] == "eCA9IDIK"


async def test_a_failure_is_for_the_model_to_read(inside: Path, outside: Path) -> None:
    async with connected(folders=[str(inside)]) as client:
        result = await client.call("read_text_file", path=str(outside / "secret.txt"))

        assert result["isError"]
        assert result["content"][0]["text"].startswith("access denied: ")
        for arguments in ({"paths": []}, {"paths": ["a"], "other": 1}, {}):
            wrong = await client.answer("tools/call", {"name": "read_multiple_files", "arguments": arguments})
            assert isinstance(wrong, ErrorResponse) or wrong.result["isError"]


async def test_read_only_offers_no_tool_that_changes_anything(inside: Path) -> None:
    async with connected(folders=[str(inside)], read_only=True) as client:
        assert {tool["name"] for tool in (await client.ask("tools/list"))["tools"]} == set(READING)


async def test_roots_narrow_the_folders_and_may_change(inside: Path) -> None:
    for name in ("a", "b"):
        (inside / name).mkdir()
    async with connected(inside / "a", folders=[str(inside)]) as client:
        assert await client.text("list_allowed_directories") == f"Allowed directories:\n{inside}/a"
        assert (await client.call("list_directory", path=str(inside / "b")))["isError"]

        client.roots = [uri_of(str(inside / "b"))]
        await client.send(Notification("notifications/roots/list_changed"))

        # The notification is handled beside the calls that follow it, so the first of them may still be before it.
        with trio.fail_after(20):
            while await client.text("list_allowed_directories") != f"Allowed directories:\n{inside}/b":
                pass
        assert (await client.call("list_directory", path=str(inside / "a")))["isError"]


async def test_without_folders_every_tool_says_how_to_configure_one(inside: Path) -> None:
    async with connected(inside) as client:
        for name in ("list_allowed_directories", "list_directory"):
            result = await client.call(name, **({"path": "."} if name == "list_directory" else {}))
            assert "MCPTRIO_FS_FOLDERS" in result["content"][0]["text"]


async def test_resources_are_listed_read_and_completed(inside: Path, outside: Path) -> None:
    (inside / "a b.md").write_text("# hello")
    (inside / "c.bin").write_bytes(b"\0")
    async with connected(folders=[str(inside)]) as client:
        listed = (await client.ask("resources/list"))["resources"]
        assert [(item["uri"], item["mimeType"]) for item in listed] == [(uri_of(str(inside)), "inode/directory")]
        templates = (await client.ask("resources/templates/list"))["resourceTemplates"]
        assert [template["uriTemplate"] for template in templates] == ["file:///{+path}"]

        directory = (await client.ask("resources/read", {"uri": listed[0]["uri"]}))["contents"][0]
        uri = directory["text"].split("\n")[0]
        text = (await client.ask("resources/read", {"uri": uri}))["contents"][0]
        data = (await client.ask("resources/read", {"uri": uri_of(str(inside / "c.bin"))}))["contents"][0]
        assert (text["uri"], text["mimeType"], text["text"]) == (uri, "text/markdown", "# hello")
        assert data["blob"] == "AA=="

        ref = {"type": "ref/resource", "uri": "file:///{+path}"}
        argument = {"name": "path", "value": f"{inside}/a"[1:]}
        completed = await client.ask("completion/complete", {"ref": ref, "argument": argument})
        assert completed["completion"]["values"] == [f"{inside}/a b.md"[1:]]

        for path in (f"{outside}/secret.txt", f"{inside}/../outside/secret.txt", f"{inside}/none"):
            for uri in (uri_of(path), "file://" + path.replace("..", "%2e%2e")):
                refused = await client.answer("resources/read", {"uri": uri})
                assert isinstance(refused, ErrorResponse), uri


async def test_a_subscriber_hears_of_a_change(inside: Path) -> None:
    (inside / "a").write_text("1")
    uri = uri_of(str(inside / "a"))
    async with connected(folders=[str(inside)], watch_interval=0.02) as client:
        await client.ask("resources/subscribe", {"uri": uri})
        # The first look, from which on a change is one, comes right after the subscription; a file that goes on
        # changing is noticed in any case.
        with trio.fail_after(20):
            for number in count():
                (inside / "a").write_text("x" * number)
                await trio.sleep(0.05)
                if client.heard:
                    break

        assert (await client.hear("notifications/resources/updated")) == {"uri": uri}


async def test_a_search_is_cancelled_in_the_middle(inside: Path) -> None:
    for number in range(40):
        (inside / f"{number:02}").mkdir()
        for other in range(300):
            os.close(os.open(inside / f"{number:02}/{other:03}", os.O_CREAT))
    async with connected(folders=[str(inside)]) as client:
        params = {"name": "search_files", "arguments": {"path": ".", "pattern": "**/none"}}
        await client.send(Request("long", "tools/call", {**params, "_meta": {"progressToken": "p"}}))
        progress = await client.hear("notifications/progress")
        await client.send(Notification("notifications/cancelled", {"requestId": "long"}))

        assert progress["progressToken"] == "p"
        assert await client.ask("ping") == {}
        assert "long" not in client._answers


async def test_a_setting_that_does_not_fit_is_a_fault_of_the_plugin() -> None:
    server = Server(plugins=[mcptrio_fs], config={"mcptrio_fs": {"folder": []}})

    assert "did you mean 'folders'" in (server.plugins.plugins["mcptrio_fs"].fault or "")
    assert server.snapshot()["plugins"][0]["state"] == "quarantined"


def test_the_plugin_is_imported_without_an_http_stack() -> None:
    code = "import sys, mcptrio_fs; print([n for n in ('quart', 'hypercorn', 'httpx2', 'ssl') if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )

    assert "quart" not in done.stdout
    assert "httpx2" not in done.stdout


@pytest.mark.parametrize("name", [*READING, *CHANGING])
async def test_every_tool_is_in_the_readme(name: str) -> None:
    assert f"`{name}`" in (Path(mcptrio_fs.__file__).parent.parent / "README.md").read_text()
