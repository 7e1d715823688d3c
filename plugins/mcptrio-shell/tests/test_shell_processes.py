"""Background commands: their output, their input, and that no process remains."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve
from mcptrio_shell import Config, Rule, Shell
from mcptrio_shell.policy import PermittedCommand
from mcptrio_shell.process import Process
from mcptrio_shell.processes import open_processes
from trio.testing import MockClock

from mcptrio import ANONYMOUS, Client, MCPError, Server, ToolError, connect
from mcptrio.abc import Principal
from mcptrio.client import Change
from mcptrio.serving import ServerSettings, memory_channel_pair

Connect = Callable[..., AbstractAsyncContextManager[Client]]


async def call(client: Client, tool: str, /, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    assert result.structured_content is not None
    return result.structured_content


async def start(client: Client, script: str, **arguments: Any) -> str:
    started = await call(client, "start_process", argv=["sh", "-c", script], **arguments)
    assert started["status"] == "running"
    id: str = started["id"]
    return id


async def failure(client: Client, tool: str, /, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return result.content[0].text


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
async def test_input_and_output_of_a_running_process_alternate(connected: Connect, revision: str) -> None:
    async with connected(revision=revision) as client:
        id = await start(client, 'while read line; do echo "you said $line"; done; echo bye >&2', stdin="first\n")
        page = await call(client, "read_output", id=id, offset=0, wait=30)
        assert page["text"] == "you said first\n"

        sent = await call(client, "send_input", id=id, text="hello\n")
        assert (sent["bytes_taken"], sent["bytes_given"]) == (6, 6)
        page = await call(client, "read_output", id=id, offset=page["next_offset"], wait=30)
        assert page["text"] == "you said hello\n"
        assert page["process"]["status"] == "running"
        assert page["process"]["takes_input"]

        await call(client, "send_input", id=id, close=True)
        page = await call(client, "read_output", id=id, stream="stderr", offset=0, wait=30)
        assert page["text"] == "bye\n"
        page = await call(client, "read_output", id=id, offset=page["total"] * 100, wait=30)
        assert page["process"]["status"] == "exited"
        assert page["process"]["exit_code"] == 0
        assert "accepts no more input" in await failure(client, "send_input", id=id, text="more")


async def test_stop_returns_after_all_processes_ended_and_can_be_repeated(connected: Connect) -> None:
    async with connected(grace=0.2) as client:
        id = await start(client, "trap '' TERM; echo ready; setsid sleep 60; sleep 60")
        await call(client, "read_output", id=id, offset=0, wait=30)

        for _ in range(2):
            stopped = await call(client, "stop_process", id=id)
            assert stopped["process"]["status"] == "stopped"
            assert stopped["process"]["signal"] == "SIGKILL"
            assert stopped["stdout"]["text"] == "ready\n"


async def test_input_to_a_process_that_does_not_read_is_accepted_in_part(connected: Connect) -> None:
    async with connected(grace=0) as client:
        id = await start(client, "sleep 60")
        sent = await call(client, "send_input", id=id, text="x" * 1_000_000, timeout=0.2)

        assert 0 < sent["bytes_taken"] < sent["bytes_given"] == 1_000_000
        assert "at most" in await failure(client, "send_input", id=id, text="x" * 1_100_000)


async def test_process_ends_at_its_maximum_age(connected: Connect, timed: MockClock) -> None:
    async with connected(max_age=20, grace=0) as client:
        id = await start(client, "sleep 60", timeout=1000)
        timed.jump(20)
        page = await call(client, "read_output", id=id, offset=0, wait=30)

    assert page["process"]["status"] == "timed_out"


async def test_running_and_kept_processes_are_limited(connected: Connect) -> None:
    async with connected(max_running=2, max_kept=2, grace=0) as client:
        ids = [await start(client, "sleep 60") for _ in range(2)]
        for tool in ("start_process", "run_command"):
            assert "2 commands of all callers are running" in await failure(client, tool, argv=["sh", "-c", "exit"])
        listed = await call(client, "list_processes")
        assert [item["id"] for item in listed["items"]] == ids[::-1]

        for id in ids:
            await call(client, "stop_process", id=id)
        result = await call(client, "run_command", argv=["sh", "-c", "exit"])
        listed = await call(client, "list_processes")
        assert [item["id"] for item in listed["items"]] == [result["process"]["id"], ids[1]]
        assert "expected the id of a process" in await failure(client, "read_output", id=ids[0])


async def test_running_processes_per_caller_are_limited(inside: Path, connected: Connect) -> None:
    rules = Rule(argv=("sh", "-c"), rest=("*",), shell=True)
    config = Config(folders=(inside,), allow=(rules,), max_running=3, max_running_per_caller=2, grace=0)
    server = Server(plugins=[Shell(config)])
    with trio.fail_after(60):
        async with server.open() as running, trio.open_nursery() as nursery, AsyncExitStack() as stack:
            clients: dict[str, Client] = {}
            for name, subject in (("ann", "ann"), ("ann again", "ann"), ("bob", "bob"), ("cyd", None)):
                ours, theirs = memory_channel_pair()
                principal = Principal(subject=subject) if subject is not None else None
                nursery.start_soon(partial(running.serve, theirs, principal=principal))
                clients[name] = await stack.enter_async_context(connect(ours))
            mine = await start(clients["ann"], "sleep 60")
            await start(clients["ann again"], "sleep 60")
            message = await failure(clients["ann"], "start_process", argv=["sh", "-c", "exit"])
            assert "2 of your commands are running" in message
            await start(clients["bob"], "sleep 60")
            message = await failure(clients["cyd"], "start_process", argv=["sh", "-c", "exit"])
            assert "3 commands of all callers are running" in message

            listed = {name: (await call(client, "list_processes"))["items"] for name, client in clients.items()}
            assert {name: len(items) for name, items in listed.items()} == {
                "ann": 2,
                "ann again": 2,
                "bob": 1,
                "cyd": 0,
            }
            assert "expected the id of a process" in await failure(clients["cyd"], "stop_process", id=mine)
            await call(clients["ann again"], "stop_process", id=mine)
            await start(clients["cyd"], "sleep 60")
            nursery.cancel_scope.cancel()


async def test_output_is_kept_after_the_end_for_a_limited_time(connected: Connect) -> None:
    async with connected(keep_seconds=0) as client:
        await call(client, "run_command", argv=["sh", "-c", "exit"])

        assert (await call(client, "list_processes"))["items"] == []


async def test_processes_end_with_the_server(connected: Connect, inside: Path) -> None:
    async with connected(grace=0.2) as client:
        for _ in range(3):
            id = await start(client, "trap '' TERM; (setsid sleep 60 &); echo $$ >> pids; sleep 60; sleep 60")
            await call(client, "read_output", id=id, wait=0.1)
        with trio.fail_after(30):
            while len(pids := (inside / "pids").read_text().split()) < 3:  # noqa: ASYNC110 - other processes write it
                await trio.sleep(0.01)

    assert not {int(pid) for pid in pids} & {int(name) for name in os.listdir("/proc") if name.isdecimal()}


async def test_output_is_split_between_characters(connected: Connect) -> None:
    async with connected() as client:
        result = await call(client, "run_command", argv=["sh", "-c", "printf 'aé€😀'; printf '\\377'"])
        assert result["stdout"]["text"] == "aé€😀\ufffd"
        id = result["process"]["id"]
        texts, start_at = [], 0
        while start_at < 11:
            page = await call(client, "read_output", id=id, offset=start_at, limit=4)
            texts.append(page["text"])
            start_at = page["next_offset"]

    assert texts == ["aé", "€", "😀", "\ufffd"]


async def test_output_without_an_offset_is_its_end(connected: Connect) -> None:
    async with connected() as client:
        result = await call(client, "run_command", argv=["sh", "-c", "seq 1 100"])
        page = await call(client, "read_output", id=result["process"]["id"], limit=8)

    assert page["text"] == "\n99\n100\n"
    assert not page["truncated"]


async def test_output_is_a_subscribable_resource(connected: Connect) -> None:
    async with connected(grace=0) as client:
        id = await start(client, "read line; echo out; echo err >&2; sleep 60")
        uri = f"process://{id}/log"
        completed = await client.complete("resource", "process://{id}/log{?stream,start}", "id", id[:3])
        assert completed.values == (id,)
        async with client.subscribe([uri]) as changes:
            await call(client, "send_input", id=id, text="go\n")
            assert await anext(changes) == Change("resource", uri)
        await call(client, "read_output", id=id, stream="stderr", offset=0, wait=30)

        [both] = (await client.read_resource(uri)).contents
        [one] = (await client.read_resource(f"{uri}?stream=stdout&start=1")).contents
        assert both.text == "[stdout]\nout\n\n[stderr]\nerr\n"
        assert one.text == "ut\n"
        for wrong in ("process://none/log", f"{uri}?stream=other"):
            with pytest.raises(MCPError):
                await client.read_resource(wrong)


async def test_process_is_available_to_its_owner_only(inside: Path) -> None:
    """Ids cannot be guessed, and another caller cannot use an id."""
    alice, bob = "principal:alice", "principal:bob"
    command = PermittedCommand(argv=("true",), executable="/bin/true", cwd=str(inside), environment={})
    async with open_processes(Config(), lambda uri: None) as processes:
        process = processes.admit(command, alice, merged=False)

        assert processes.get(process.id, alice) is process
        assert processes.owned_by(bob) == []
        for asker in (bob, ANONYMOUS):
            with pytest.raises(ToolError, match="expected the id"):
                processes.get(process.id, asker)


async def test_cancelled_start_leaves_no_process(inside: Path) -> None:
    """The start is cancelled at several moments."""
    script = ("sh", "-c", "trap '' TERM; sleep 60; sleep 60")
    command = PermittedCommand(
        argv=script, executable="/bin/sh", cwd=str(inside), environment={"PATH": "/usr/bin:/bin"}
    )
    config = Config(grace=0)
    for moment in (0, 0.002, 0.01, 0.02, 0.03, 0.04, 0.06):
        process = Process(id="x", command=command, config=config, owner=ANONYMOUS, on_change=lambda process: None)
        with trio.fail_after(30), trio.move_on_after(moment):
            await process.run(seconds=60)

        assert process.finished.is_set()


async def test_tool_names_and_hints_match_the_readme() -> None:
    async with connect(Server(plugins=[Shell(Config())])) as client:
        tools = {tool.name: tool async for tool in client.tools()}

    readme = (Path(__file__).parent.parent / "README.md").read_text()
    reading = {"read_output", "list_processes", "list_allowed_commands"}
    assert set(tools) == {"run_command", "start_process", "send_input", "stop_process", *reading}
    for name, tool in tools.items():
        assert f"`shell_{name}`" in readme
        hints = tool.annotations
        assert hints is not None
        assert hints.read_only_hint is (name in reading)
        assert hints.destructive_hint is (name not in reading)
        assert None not in (hints.idempotent_hint, hints.open_world_hint)
        assert tool.title
        assert tool.output_schema is not None
        assert len(tool.description or "") > 40


async def test_table_of_the_configuration_file_is_read(inside: Path) -> None:
    rules = [{"argv": ["echo"], "rest": ["*"]}, {"argv": ["sh", "-c"], "rest": ["*"], "shell": True}]
    table = {"folders": [str(inside)], "allow": rules, "limits": {"open_files": 20}, "environment": {"A": "b"}}
    async with connect(
        Server(plugins=[Shell], config={"Shell": table}, settings=ServerSettings(strict=True))
    ) as client:
        result = await call(client, "run_command", argv=["sh", "-c", "echo $A; ulimit -n"])
    assert result["stdout"]["text"] == "b\n20\n"

    for wrong in (
        {"allow": [{"argv": ["sh"]}]},
        {"grce": 1},
        {"limits": {"cpu_seconds": 0}},
        {"allow": [{"rest": []}]},
    ):
        server = Server(plugins=[Shell], config={"Shell": wrong})
        assert server.status.plugins[0].state == "quarantined"


async def test_unconfigured_tools_name_the_missing_setting() -> None:
    async with connect(Server(plugins=[Shell(Config())])) as client:
        for tool in ("run_command", "start_process"):
            assert "[[plugins.shell.allow]]" in await failure(client, tool, argv=["ls"])
        allowed = await call(client, "list_allowed_commands")
        assert allowed["items"] == []


async def test_process_belongs_to_the_user_of_any_token(inside: Path) -> None:
    rules = Rule(argv=("sh", "-c"), rest=("*",), shell=True)
    server = Server(plugins=[Shell(Config(folders=(inside,), allow=(rules,), grace=0))])
    ada = Principal(subject="ada", issuer="https://a", scopes=frozenset({"run"}), client_id="one")
    same = (evolve(ada, scopes=frozenset({"run", "more"})), evolve(ada, client_id="two"))
    others = (None, evolve(ada, subject="bob"), evolve(ada, issuer="https://b"))
    with trio.fail_after(60):
        async with server.open() as running, trio.open_nursery() as nursery, AsyncExitStack() as stack:
            clients: list[Client] = []
            for principal in (ada, *same, *others):
                ours, theirs = memory_channel_pair()
                nursery.start_soon(partial(running.serve, theirs, principal=principal))
                clients.append(await stack.enter_async_context(connect(ours)))
            id = await start(clients[0], "sleep 60")
            for client in clients[:3]:
                assert len((await call(client, "list_processes"))["items"]) == 1
                assert (await call(client, "read_output", id=id))["process"]["id"] == id
            for client in clients[3:]:
                assert (await call(client, "list_processes"))["items"] == []
                assert "expected the id of a process" in await failure(client, "read_output", id=id)
            nursery.cancel_scope.cancel()
