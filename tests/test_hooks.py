"""Each hook works as its docstring describes, as seen by a client; a wrong hook affects only its own plugin."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from mcptrio import Context, PluginSetup, Server, hookimpl, lifespan, tool
from mcptrio.errors import PluginError
from mcptrio.serving import PluginManager, ServerSettings, memory_channel_pair
from tests.interaction.client import Peer
from tests.interaction.wires import MemoryWire

__all__: list[str] = []

HANDSHAKE, MODERN = "2025-11-25", "2026-07-28"
both_eras = pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])


@asynccontextmanager
async def talking(server: Server, revision: str = HANDSHAKE, **options: Any) -> AsyncIterator[Peer]:
    """Yield a client of the open server; ``options`` are the client's."""
    with trio.fail_after(20):
        async with server.open() as running, trio.open_nursery() as nursery:
            ours, theirs = memory_channel_pair()
            nursery.start_soon(running.serve, theirs)
            peer = Peer(revision=revision, wire=MemoryWire(ours), nursery=nursery, **options)
            await nursery.start(peer.run)
            await peer.begin()
            yield peer
            nursery.cancel_scope.cancel()
            await ours.aclose()


class Plugin:
    """All hooks at once."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.heard: list[tuple[str, Any, str | None]] = []
        self.ticking = trio.Event()

    @hookimpl
    def setup(self, server: PluginSetup, config: Mapping[str, Any]) -> None:
        server.add(Greeter(config["greeting"]))
        for unit in ("celsius", "kelvin"):
            server.add_tool(_temperature(unit), name=f"in_{unit}", read_only=True)
        server.add_resource(lambda: "12 degrees", "weather://now", name="now", mime_type="text/plain")

        async def plan(city: str) -> str:
            """Plan a day."""
            return f"Plan a day in {city}."

        server.add_prompt(plan, title="A day out")
        server.add_completion(["Paris", "Prague", "Rome"], "prompt", "plan", "city")
        server.add_method(lambda params: {"seen": params["number"]}, "com.example/number")
        server.add_method(lambda params: self.happened.append("heard"), "com.example/told", notification=True)
        server.add_extension("com.example/weather", {"level": 2})
        server.add_redaction(lambda text: text.replace("4711", "[number]"))
        server.add_log_sink(lambda level, data, logger: self.heard.append((level, data, logger)))
        server.add_background(self._tick)

    @lifespan
    async def living(self) -> AsyncGenerator[str]:
        self.happened.append("opened")
        yield "the state"
        self.happened.append("closed")

    async def _tick(self) -> None:
        self.ticking.set()
        await trio.sleep_forever()

    @tool
    async def show_state(self, ctx: Context) -> str:
        await ctx.info("the number is 4711", logger="plugin")
        return str(ctx.state)


class Greeter:
    def __init__(self, greeting: str) -> None:
        self._greeting = greeting

    @tool
    async def greet(self) -> str:
        return self._greeting


def _temperature(unit: str) -> Callable[[float], str]:
    def convert(kelvin: float) -> str:
        return f"{kelvin if unit == 'kelvin' else kelvin - 273.15:g} {unit}"

    return convert


@both_eras
async def test_every_hook_is_called(revision: str) -> None:
    plugin = Plugin()
    server = Server(plugins=[plugin], config={"Plugin": {"greeting": "hej"}})
    async with talking(server, revision) as peer:
        await peer.set_log_level("debug")
        assert await peer.text("greet") == "hej"
        assert await peer.text("in_celsius", {"kelvin": 273.15}) == "0 celsius"
        assert await peer.text("show_state") == "the state"
        assert plugin.heard == [("info", "the number is [number]", "plugin")]
        assert peer.notes("notifications/message")[0]["data"] == "the number is [number]"
        read = await peer.request("resources/read", {"uri": "weather://now"})
        assert read["contents"][0]["text"] == "12 degrees"
        [prompt] = (await peer.request("prompts/list"))["prompts"]
        assert (prompt["name"], prompt["title"]) == ("plan", "A day out")
        ref = {"type": "ref/prompt", "name": "plan"}
        completed = await peer.request("completion/complete", {"ref": ref, "argument": {"name": "city", "value": "p"}})
        assert completed["completion"]["values"] == ["Paris", "Prague"]
        assert (await peer.request("com.example/number", {"number": 7}))["seen"] == 7
        await peer.notify("com.example/told")
        await peer.eventually(lambda: "heard" in plugin.happened)
        assert server.catalog.lifecycle.capabilities.extensions == {"com.example/weather": {"level": 2}}
        await plugin.ticking.wait()
        [listed] = server.status.plugins
        assert listed.state == "running"
        assert sorted(listed.offers["tools"]) == ["greet", "in_celsius", "in_kelvin", "show_state"]
    assert plugin.happened == ["opened", "heard", "closed"]


async def test_failing_background_task_is_restarted_with_backoff(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    starts: list[float] = []

    class Failing:
        @hookimpl
        def setup(self, server: PluginSetup) -> None:
            server.add_background(self.work)

        async def work(self) -> None:
            starts.append(trio.current_time())
            if len(starts) < 4:
                raise ValueError("again")

    async with Server(plugins=[Failing()]).open():
        await trio.sleep(100)

    assert [round(later - earlier) for earlier, later in itertools.pairwise(starts)] == [1, 2, 4]
    assert len(caplog.records) == 3


@pytest.mark.parametrize("hook", ["setup", "lifespan"])
async def test_error_in_a_hook_quarantines_that_plugin_only(hook: str, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ValueError("no database")

    faulty = type("Faulty", (Greeter,), {hook: hookimpl(lambda self: fail())})("never")
    healthy = type("Healthy", (), {"hello": tool(name="hello")(lambda self: "here")})()
    server = Server(plugins=[faulty, healthy])
    async with talking(server) as peer:
        assert await peer.text("hello") == "here"
        assert [listed["name"] for listed in (await peer.request("tools/list"))["tools"]] == ["hello"]
        states = {plugin.name: (plugin.state, plugin.failure) for plugin in server.status.plugins}
    assert states["Healthy"] == ("running", None)
    assert states["Faulty"][0] == "quarantined"
    assert "no database" in states["Faulty"][1]


def test_error_in_a_hook_ends_a_strict_server() -> None:
    class Faulty:
        @hookimpl
        def setup(self, server: PluginSetup) -> None:
            raise ValueError("no database")

    with pytest.raises(PluginError, match=r"plugin Faulty: .*no database"):
        Server(plugins=[Faulty()], settings=ServerSettings(strict=True))


def test_misspelt_hook_is_an_error() -> None:
    class Misspelt:
        @hookimpl
        def set_up(self) -> None: ...

    plugin = PluginManager().register(Misspelt())

    assert (
        plugin.failure
        == "expected one of the hooks setup, lifespan, doctor, transports, got `set_up`; did you mean `setup`?"
    )
