"""Clients receive the contents and results of a mounted server, in both eras on both sides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve
from trio.testing import MockClock

from mcptrio import MCPError, Server, connect
from mcptrio.serving import ToolPolicy
from tests.mounting import mounted_plugin
from tests.mounting.mounted import WAITING, User, eventually, mounted, text

__all__: list[str] = []

NEW, OLD = "2026-07-28", "2025-11-25"
SIDES = [(NEW, NEW), (NEW, OLD), (OLD, NEW), (OLD, OLD)]

both_sides = pytest.mark.parametrize(("upstream", "revision"), SIDES, ids=lambda side: side[:4])


def bare(result: Any) -> Any:
    """Return a result without the members that the protocol of each connection adds."""
    kept = {key: value for key, value in (result.meta or {}).items() if not key.startswith("io.modelcontextprotocol/")}
    return evolve(result, meta=kept or None)


@both_sides
async def test_lists_and_results_of_a_mounted_server_are_forwarded(upstream: str, revision: str) -> None:
    user = User()
    async with mounted(upstream=upstream, revision=revision, user=user) as (client, _, _):
        alone = Server(plugins=[mounted_plugin])
        async with alone.open(), connect(alone, revision=upstream) as direct:
            there = {tool.name: tool for tool in await direct.tools().all()}
            here = {tool.name: tool for tool in await client.tools().all()}
            answers = {name: bare(await direct.call_tool(name)) for name in ("pair", "media", "fail")}
            passed = {name: bare(await client.call_tool(f"up_{name}")) for name in answers}
            uris = ("bytes://all", "note://anna", "count://up")
            read = {uri: (await direct.read_resource(uri)).contents for uri in uris}
            read_here = {uri: (await client.read_resource(uri)).contents for uri in uris}
            prompts = await direct.prompts().all()
            prompts_here = await client.prompts().all()
            templates = await direct.resource_templates().all(), await direct.resources().all()
            templates_here = await client.resource_templates().all(), await client.resources().all()
            greeting = await direct.get_prompt("greet", {"who": "anna"})
            greeting_here = await client.get_prompt("up_greet", {"who": "anna"})
            completed = [
                await client.complete("prompt", "up_greet", "who", "b"),
                await client.complete("resource", "note://{name}", "name", ""),
            ]

    odd = here.pop("up_odd_name_92c9b577")
    same = {tool: evolve(it, name=f"up_{tool}") for tool, it in there.items() if tool != "odd.name"}
    assert here.keys() == {f"up_{name}" for name in same}
    # The tasks are those of the mount.
    assert evolve(here["up_pair"], execution=None) == same["pair"]
    assert here["up_hang"].input_schema == there["hang"].input_schema
    assert odd.input_schema == there["odd.name"].input_schema
    assert passed == answers
    assert passed["media"].meta == {"com.example/seen": True}
    assert read_here == read
    assert prompts_here == tuple(evolve(each, name=f"up_{each.name}") for each in prompts)
    assert templates_here == templates
    assert bare(greeting_here) == bare(greeting)
    assert [each.values for each in completed] == [("bert",), ("anna", "bert")]


@both_sides
async def test_progress_logs_and_errors_are_forwarded(upstream: str, revision: str) -> None:
    user = User()
    reports: list[float] = []
    async with mounted(upstream=upstream, revision=revision, user=user) as (client, _, _):
        await client.call_tool("up_steps", {"count": 3}, progress=lambda it: reports.append(it.progress))
        with pytest.raises(MCPError, match="not today") as refused:
            await client.call_tool("up_refuse")
        with pytest.raises(MCPError) as missing:
            await client.read_resource("note://nobody")

    assert reports == [1, 2, 3]
    assert ("warning", "steps", "all done") in user.logs
    assert (refused.value.code, refused.value.data) == (-32050, {"when": [1, 2]})
    assert missing.value.data == {"uri": "note://nobody"}


@both_sides
async def test_cancellation_reaches_the_handler_of_a_mounted_server(
    upstream: str, revision: str, tmp_path: Path
) -> None:
    async with mounted(upstream=upstream, revision=revision) as (client, _, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "up_hang", {"mark": str(tmp_path / "left")})
            await eventually((tmp_path / "left.began").exists)
            nursery.cancel_scope.cancel()
        await eventually((tmp_path / "left.cancelled").exists)

        assert await text(client, "up_odd_name_92c9b577") == "odd"


async def test_timeout_of_the_caller_applies_to_the_mounted_server(autojump_clock: MockClock) -> None:
    """``mcptrio/timeout`` of the caller ends the call on both sides."""
    happened: list[str] = []

    async def hang() -> None:
        happened.append("began")
        try:
            await trio.sleep_forever()
        finally:
            happened.append("ended")

    there = Server()
    there.add_tool(hang)
    async with there.open(), mounted(there) as (client, _, _):
        request = {"name": "up_hang", "arguments": {}, "_meta": {"mcptrio/timeout": 0.3}}
        with pytest.raises(MCPError):
            await client.request("tools/call", request)
        await eventually(lambda: happened == ["began", "ended"])


async def test_excluded_tools_of_a_mount_are_not_listed() -> None:
    options = evolve(WAITING, prefix="", tools=ToolPolicy(include=("p*",), exclude=("pid",)), timeout=30)
    async with mounted(options=options) as (client, mount, _):
        names = [tool.name for tool in await client.tools().all()]

        assert names == ["pair"]
        assert mount.status.offers == {"tools": 1, "prompts": 1, "resources": 3, "templates": 1}
        assert (mount.status.state, mount.status.starts) == ("ready", 1)
    assert mount.status.state == "closed"
