"""The operator's policy for plugins: allowed tools, durations, concurrency and rates."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

import mcptrio
from mcptrio import MCPError, Server, tool
from mcptrio.plugins.policy import ToolPolicy

__all__: list[str] = []


class Files:
    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.go = trio.Event()

    @tool(read_only=True)
    async def read(self) -> str:
        return "read"

    @tool(read_only=False)
    async def write(self) -> str:
        return "written"

    @tool
    async def wait(self) -> str:
        self.running += 1
        self.most = max(self.most, self.running)
        await self.go.wait()
        self.running -= 1
        return "waited"


def offered(policy: ToolPolicy | None = None, **table: Any) -> list[str]:
    server = Server(plugins=[Files()], config={"Files": {"prefix": "f", **table}}, tools=policy)
    withheld = server.plugins.plugins["Files"].withheld
    names = [entry.key for entry in server.catalog.tools.registry]
    assert sorted([*names, *withheld]) == ["f_read", "f_wait", "f_write"]
    return names


def test_read_only_policy_withholds_tools_without_the_hint() -> None:
    assert offered(ToolPolicy(read_only=True)) == ["f_read"]


@pytest.mark.parametrize(
    ("include", "exclude", "names"),
    [
        (["read"], [], ["f_read"]),
        (["f_*"], ["f_w*"], ["f_read"]),
        (["*"], ["wait"], ["f_read", "f_write"]),
        ([], [], []),
        (None, ["READ"], ["f_read", "f_write", "f_wait"]),
    ],
)
def test_globs_match_names_with_and_without_prefix(
    include: list[str] | None, exclude: list[str], names: list[str]
) -> None:
    table = {"exclude": exclude} | ({"include": include} if include is not None else {})
    assert offered(tools=table) == names
    assert offered(ToolPolicy(include=None if include is None else tuple(include), exclude=tuple(exclude))) == names


async def test_withheld_tool_cannot_be_called() -> None:
    server = Server(plugins=[Files()], tools=ToolPolicy(read_only=True))
    async with server.open(), mcptrio.connect(server) as client:
        with pytest.raises(MCPError, match="no such tool: `write`"):
            await client.call_tool("write")
        assert server.plugins.plugins["Files"].withheld == {
            "write": "it is not marked read-only",
            "wait": "it is not marked read-only",
        }


async def test_concurrency_of_a_plugin_is_limited(autojump_clock: trio.testing.MockClock) -> None:
    files = Files()
    server = Server(plugins=[files], config={"Files": {"concurrency": 2}})
    async with server.open(), mcptrio.connect(server) as client, trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(client.call_tool, "wait")
        await trio.testing.wait_all_tasks_blocked()
        assert files.running == 2
        files.go.set()
    assert files.most == 2


async def test_rate_of_a_plugin_is_limited(autojump_clock: trio.testing.MockClock) -> None:
    server = Server(plugins=[Files()], config={"Files": {"rate": 2}})
    async with server.open(), mcptrio.connect(server) as client:
        await client.call_tool("read")
        await client.call_tool("write")
        with pytest.raises(MCPError, match="too many calls of Files: more than 2 a second"):
            await client.call_tool("read")
        await trio.sleep(0.5)
        await client.call_tool("read")


async def test_timeout_of_a_plugin_is_applied(autojump_clock: trio.testing.MockClock) -> None:
    server = Server(plugins=[Files()], config={"Files": {"timeout": 3}})
    async with server.open(), mcptrio.connect(server) as client:
        started = trio.current_time()
        with pytest.raises(MCPError, match="timed out"):
            await client.call_tool("wait")
        assert trio.current_time() - started == pytest.approx(3, abs=0.1)


@pytest.mark.parametrize("key", ["timeout", "concurrency", "rate"])
def test_invalid_policy_limit_is_refused(key: str) -> None:
    server = Server(plugins=[Files()], config={"Files": {key: 0}})
    plugin = server.plugins.plugins["Files"]
    assert plugin.state == "quarantined"
    assert f"plugins.Files.{key}: expected " in str(plugin.failure)


class Slow:
    @tool
    async def short(self) -> str:
        return "short"

    @tool(task="optional")
    async def long(self) -> str:
        return "long"

    @tool(task="required")
    async def longest(self) -> str:
        return "longest"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (None, {"short": "never", "long": "optional", "longest": "required"}),
        ("optional", {"short": "optional", "long": "optional", "longest": "required"}),
        ("never", {"short": "never", "long": "never"}),
    ],
)
def test_operator_decides_whether_calls_become_tasks(policy: str | None, expected: dict[str, str]) -> None:
    server = Server(plugins=[Slow()], config={"Slow": {"task": policy}} if policy is not None else {})

    assert {entry.key: entry.mark.task for entry in server.catalog.tools.registry} == expected
    withheld = server.plugins.plugins["Slow"].withheld
    assert withheld == (
        {"longest": 'its calls are always tasks, and the operator has set task = "never"'} if policy == "never" else {}
    )


def test_invalid_policy_for_tasks_is_refused() -> None:
    server = Server(plugins=[Slow()], config={"Slow": {"task": "required"}})

    assert "plugins.Slow.task: " in str(server.plugins.plugins["Slow"].failure)
