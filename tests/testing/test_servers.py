"""A server under test runs over each transport as in production, and so do its clients."""

from __future__ import annotations

import os
import time

import pytest
import trio

from mcptrio import ConfigError, ConnectionClosed, Context, PluginSetup, ToolError, hookimpl, tool
from mcptrio.errors import PluginError
from mcptrio.serving import ServerLimits, ServerSettings
from mcptrio.testing import Case, Script, Served, ServerSpec, delay, drop, open_served, run_jumping

__all__: list[str] = []

TRANSPORTS = ("memory", "stdio", "http")


class Plugin:
    """A plugin with state; a child process receives a copy of it."""

    def __init__(self, greeting: str) -> None:
        self.greeting = greeting
        self.runs = 0

    @tool
    async def greet(self) -> str:
        return self.greeting

    @tool
    async def process(self) -> int:
        return os.getpid()

    @tool
    async def environment(self, name: str) -> str:
        return os.environ.get(name, "nothing")

    @tool
    async def ask(self, ctx: Context) -> str:
        self.runs += 1
        answer = await ctx.ask("A number?", int)
        return f"{answer} after {self.runs} runs"

    @tool
    def slow(self) -> str:
        """Runs in a thread."""
        time.sleep(0.1)
        return "done"

    @tool
    async def impatient(self) -> str:
        with trio.move_on_after(3):
            await trio.to_thread.run_sync(time.sleep, 0.1)
            return "done"
        raise ToolError("too slow")

    @tool
    def calling_back(self) -> str:
        """Runs in a thread, which waits for a task."""
        trio.from_thread.run(trio.sleep, 20)
        return "done"


class Broken:
    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        raise ValueError("no, never")


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_server_runs_over_each_transport(transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GREETED", "yes")
    case = Case(transport=transport, revision="2025-06-18")  # type: ignore[arg-type]
    async with open_served(ServerSpec(plugins=[Plugin("hello")]), case) as served:
        async with served.connect() as one, served.connect(revision="2026-07-28") as two:
            for client in (one, two):
                assert (await client.call_tool("greet")).content[0].text == "hello"  # type: ignore[union-attr]
            process = (await one.call_tool("process")).structured_content
            result = await two.call_tool("environment", {"name": "GREETED"})

    assert isinstance(served, Served)
    assert (one.revision, two.revision) == ("2025-06-18", "2026-07-28")
    assert result.content[0].text == "yes"  # type: ignore[union-attr]
    assert (process == {"result": os.getpid()}) == (transport != "stdio")
    assert (served.server is None) == (transport == "stdio")


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("replay", "runs"), [(False, 1), (True, 2)])
async def test_handler_is_replayed_if_parking_is_disabled(transport: str, replay: bool, runs: int) -> None:
    script = Script().elicit({"value": 7})
    case = Case(transport=transport, replay=replay)  # type: ignore[arg-type]
    spec = ServerSpec(plugins=[Plugin("hello")], options={"settings": ServerSettings(limits=ServerLimits(requests=7))})
    async with open_served(spec, case) as served, served.connect(handlers=script.handlers()) as client:
        result = await client.call_tool("ask")

    assert result.content[0].text == f"7 after {runs} runs"  # type: ignore[union-attr]
    if served.server is not None:
        assert served.server.settings.limits == ServerLimits(requests=7, parked=0 if replay else ServerLimits().parked)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_failing_plugin_fails_the_test(transport: str) -> None:
    plugin = Broken()
    case = Case(transport=transport)  # type: ignore[arg-type]
    spec = ServerSpec(plugins=[plugin])
    if transport == "stdio":
        with pytest.raises(ConnectionClosed, match=r"plugin Broken: .*no, never"):
            async with open_served(spec, case) as served, served.connect():
                pass
        return
    with pytest.raises(PluginError, match=r"plugin Broken: .*no, never"):
        async with open_served(spec, case):
            pass
    async with open_served(ServerSpec(plugins=[plugin], options={"strict": False}), case) as served:
        assert served.server is not None
        assert served.server.status.plugins[0].state == "quarantined"


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_exception_of_the_block_is_raised_unchanged(transport: str) -> None:
    case = Case(transport=transport)  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        async with open_served(ServerSpec(), case) as served, served.connect():
            raise KeyError


async def test_faults_apply_between_client_and_server(autojump_clock: object) -> None:
    async with open_served(ServerSpec(plugins=[Plugin("hello")])) as served:
        async with served.connect(to_server=[delay(5, "tools/call")], to_client=[delay(7, "tools/call")]) as client:
            before = trio.current_time()
            await client.call_tool("greet")
            assert trio.current_time() - before == pytest.approx(12)
    async with open_served(ServerSpec(), Case(transport="http")) as served:
        with pytest.raises(ConfigError, match="expected the transport memory, got http"):
            async with served.connect(to_client=[drop(1)]):
                pass


@pytest.mark.trio(run=run_jumping)
async def test_autojump_clock_waits_for_threads() -> None:
    async with open_served(ServerSpec(plugins=[Plugin("hello")])) as served, served.connect() as client:
        before = trio.current_time()
        for name in ("slow", "impatient"):
            assert (await client.call_tool(name, timeout=5)).content[0].text == "done"  # type: ignore[union-attr]
        assert trio.current_time() == before
        assert (await client.call_tool("calling_back")).content[0].text == "done"  # type: ignore[union-attr]
        assert trio.current_time() - before == pytest.approx(20)
        started = time.monotonic()
        await trio.sleep(1000)
        assert time.monotonic() - started < 100
