"""The tables ``[mount.NAME]``: names, excluded tools, the status of the servers, restarts and new settings."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from mcptrio import Client, Mount, Server, connect
from mcptrio.client import ClientTimeouts
from mcptrio.errors import PluginError
from mcptrio.mounting.mounts import Mounts
from mcptrio.plugins.plugin import Plugin
from mcptrio.plugins.settings import PluginTables
from mcptrio.serving import MountOptions, ServerSettings

NOTES = """
import os
import trio
from mcptrio import prompt, resource, tool

@tool
async def read_note(name: str) -> str:
    return f"{os.environ.get('WHOSE', 'nobody')}'s {name}"

@tool
async def drop_notes() -> str:
    return "dropped"

@tool
async def pid() -> int:
    return os.getpid()

@tool
async def wait_for(path: str) -> str:
    open(path + ".begun", "w").close()
    while not os.path.exists(path):
        await trio.sleep(0.01)
    return "there"

@resource("note://first")
async def first() -> str:
    return "first"

@prompt
async def sum_up(name: str) -> str:
    return f"Sum up {name}"
"""


@pytest.fixture
def entry(tmp_path: Path) -> dict[str, Any]:
    """Return a table of a server."""
    (tmp_path / "notes.py").write_text(NOTES)
    return {
        "command": sys.executable,
        "args": ["-m", "mcptrio", "serve", "--stdio", "--plugin", "notes.py"],
        "env": {"WHOSE": "anna"},
        "cwd": str(tmp_path),
    }


@asynccontextmanager
async def mounted(**servers: dict[str, Any]) -> AsyncIterator[Client]:
    server = Server(plugins=[Mounts], config=tables(**servers), settings=ServerSettings(strict=True))
    with trio.fail_after(120):
        async with server.open(), connect(server) as client:
            yield client


async def text(client: Client, tool: str, /, **arguments: Any) -> str:
    block = (await client.call_tool(tool, arguments)).content[0]
    return block.text  # type: ignore[union-attr]


async def listed(client: Client) -> dict[str, Mapping[str, Any]]:
    result = (await client.call_tool("list_mounts")).structured_content
    return {each["name"]: each for each in result["mounts"]}


async def test_valid_tables_are_mounted_and_invalid_ones_are_listed_as_broken(
    entry: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "mcp.json"
    theirs = {"filed": {**entry, "alwaysAllow": ["read_note"]}, "off": {**entry, "disabled": True}, "odd": {}}
    file.write_text(json.dumps({"mcpServers": {**theirs, "notes": {"command": "/not/this"}}}))
    notes = {**entry, "tools": {"include": ["*_note*"], "exclude": ["drop_*"]}}
    others: dict[str, Any] = {
        "wrong": {"command": 3},
        "empty": {},
        "double": {"file": str(file), "url": "http://127.0.0.1"},
        "gone": {"command": "/no/such/program"},
    }
    without = {**entry, "disabled": True}
    async with mounted(notes=notes, **others, desk={"file": str(file), "prefix": "f"}, without=without) as client:
        names = {tool.name for tool in await client.tools().all()}
        prompts = [prompt.name for prompt in await client.prompts().all()]
        mounts = await listed(client)

        assert names == {"list_mounts", "restart_mount", "notes_read_note"} | {
            "f_read_note",
            "f_drop_notes",
            "f_pid",
            "f_wait_for",
        }
        assert sorted(prompts) == ["f_sum_up", "notes_sum_up"]
        assert await text(client, "notes_read_note", name="list") == "anna's list"
        assert (await client.read_resource("note://first")).contents[0].text == "first"  # type: ignore[union-attr]
        assert {name: each["state"] for name, each in mounts.items()} == {
            "notes": "ready",
            "wrong": "broken",
            "empty": "broken",
            "double": "broken",
            "gone": "disconnected",
            "filed": "ready",
            "odd": "broken",
        }
        assert mounts["notes"]["offers"]["tools"] == 1
        assert mounts["notes"]["server"].startswith("mcptrio ")
        assert "anna" not in json.dumps(mounts)
        assert "command" in mounts["wrong"]["reason"]
        assert mounts["empty"]["reason"] == "entry: expected either command or url, got none"
        assert mounts["double"]["reason"] == "expected file alone, got url too"


async def test_restart_mount_starts_a_new_process(entry: dict[str, Any]) -> None:
    async with mounted(notes=entry) as client:
        before = await text(client, "notes_pid")
        result = (await client.call_tool("restart_mount", {"name": "notes"})).structured_content
        after = await text(client, "notes_pid")
        unknown = await client.call_tool("restart_mount", {"name": "nothing"})

    assert before != after
    assert (result["state"], result["starts"]) == ("ready", 2)
    assert unknown.is_error
    assert "expected one of notes, got 'nothing'" in unknown.content[0].text  # type: ignore[union-attr]


async def test_lazy_mount_is_stopped_until_it_is_called(entry: dict[str, Any]) -> None:
    async with mounted(notes={**entry, "lazy": True, "prefix": ""}) as client:
        while (await listed(client))["notes"]["state"] != "stopped":  # noqa: ASYNC110 - no event reports it
            await trio.sleep(0.02)
        assert await text(client, "read_note", name="list") == "anna's list"
        assert (await listed(client))["notes"]["state"] == "ready"


STARTS_ONCE = """
import os, pathlib, sys
mark = pathlib.Path("started")
if mark.exists():
    sys.exit(f"{sys.argv} {os.environ['WHOSE']}")
mark.touch()
os.execv(sys.executable, [sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", "notes.py"])
"""


async def test_arguments_and_environment_of_a_server_are_not_disclosed(entry: dict[str, Any]) -> None:
    key = ["--api-key", "sk-SECRET"]
    entry |= {"args": ["-c", STARTS_ONCE, *key], "env": {"WHOSE": "sk-SECRET"}}
    gone = {"command": "/no/such/program", "args": key}
    async with mounted(gone=gone, once={**entry, "ready_timeout": 1}) as client:
        os.kill(int(await text(client, "once_pid")), signal.SIGKILL)
        while "exit code" not in str((mounts := await listed(client))["once"]["reason"]):  # noqa: ASYNC110 - no event
            await trio.sleep(0.02)
        called = await client.call_tool("once_pid")

        assert "program" in mounts["gone"]["reason"]
        assert called.is_error
        assert "once is not connected" in str(called.content)
        assert "SECRET" not in f"{mounts} {called}"


async def test_arguments_of_an_unresponsive_server_are_not_disclosed() -> None:
    options = MountOptions(start_timeout=0, timeouts=ClientTimeouts(connect=0.4, probe=0.2))
    mount = Mount(
        [sys.executable, "-c", "import sys; sys.stdin.read()", "--api-key", "sk-SECRET"], name="mute", options=options
    )
    with trio.fail_after(60):
        async with Server(plugins=[mount]).open():
            while (reason := mount.status.reason) is None:  # noqa: ASYNC110 - no event reports it
                await trio.sleep(0.02)

    assert reason == f"{Path(sys.executable).name} did not answer within 0.4 s"


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"command": "x", "idle_timeout": 0.5}, "idle_timeout"),
        ({"command": "x", "patience": 5}, "notes.patience: there is no setting `patience`"),
        ({"file": "/no/such/mcp.json"}, "mcp.json"),
    ],
    ids=["idle", "unknown", "file"],
)
def test_invalid_mount_settings_quarantine_the_plugin(config: dict[str, Any], problem: str) -> None:
    server = Server(plugins=[Mounts], config=tables(notes=config))
    [plugin] = server.status.plugins

    assert plugin.state == "quarantined"
    assert problem in str(plugin.failure)


def tables(**servers: Any) -> PluginTables:
    waiting = {"start_timeout": 60, "ready_timeout": 60}
    return PluginTables(tables={"Mounts": {"servers": {name: {**waiting, **each} for name, each in servers.items()}}})


def own(plugin: Plugin) -> bool:
    """Return whether a plugin belongs to the test: it comes from no installed distribution."""
    return plugin.distribution is None


@asynccontextmanager
async def shared(entry: dict[str, Any]) -> AsyncIterator[tuple[Server, Client]]:
    """Yield a server with the mount ``one``, and a client of it."""
    server = Server(plugins=[Mounts], config=tables(one=entry), settings=ServerSettings(strict=True))
    with trio.fail_after(120):
        async with server.open(), connect(server) as client:
            yield server, client


async def test_new_settings_restart_only_the_servers_they_change(entry: dict[str, Any]) -> None:
    pids: list[str] = []
    other = {**entry, "env": {"WHOSE": "bert"}}

    async def call(client: Client) -> None:
        while True:
            pids.append(await text(client, "one_pid"))
            await trio.sleep(0.002)

    async with (
        shared(entry) as (server, client),
        client.subscribe(tools=True) as changes,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(call, client)
        await server.renew_plugins(tables(one=entry, two=other), own)
        await anext(changes)
        assert await text(client, "two_read_note", name="list") == "bert's list"
        assert (await listed(client)).keys() == {"one", "two"}
        two = await text(client, "two_pid")

        # Another entry under the same name: the first is removed, then the new one is added.
        await server.renew_plugins(tables(one=entry, two=entry), own)
        await anext(changes)
        await anext(changes)
        assert await text(client, "two_read_note", name="list") == "anna's list"
        assert await text(client, "two_pid") != two

        await server.renew_plugins(tables(one=entry), own)
        await anext(changes)
        assert "two_pid" not in {tool.name for tool in await client.tools().all()}
        assert (await listed(client)).keys() == {"one"}
        with trio.move_on_after(0.1) as quiet:
            await anext(changes)
        nursery.cancel_scope.cancel()

    assert quiet.cancelled_caught, "the list of tools did not change, but a notification came"
    assert len(pids) > 10
    assert len(set(pids)) == 1


async def test_call_in_flight_is_answered_when_its_server_is_unmounted(entry: dict[str, Any], tmp_path: Path) -> None:
    answers: list[str] = []

    async def wait(client: Client) -> None:
        answers.append(await text(client, "one_wait_for", path=str(tmp_path / "gate")))

    async with (
        shared(entry) as (server, client),
        client.subscribe(tools=True) as changes,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(wait, client)
        while not (tmp_path / "gate.begun").exists():  # noqa: ASYNC110 - no event reports it
            await trio.sleep(0.01)
        await server.renew_plugins(tables(), own)
        await anext(changes)
        (tmp_path / "gate").touch()

    assert answers == ["there"]


async def test_invalid_new_settings_raise_and_change_nothing(entry: dict[str, Any]) -> None:
    wrong = tables(one=entry, two={"lazy": "often"})
    async with shared(entry) as (server, client):
        with pytest.raises(PluginError, match=r"two\.lazy: expected"):
            await server.renew_plugins(wrong, own)
        await server.renew_plugins(tables(one=entry), own)
        assert await text(client, "one_pid")
