"""Plugins that are enabled and disabled while the server is open."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

import mcptrio
from mcptrio import ConfigError, Context, MCPError, PluginSetup, Server, completion, hookimpl, prompt, resource, tool
from mcptrio.client import Handlers
from mcptrio.protocol.revisions.registry import REVISIONS
from mcptrio.serving import ServerSettings, Timeouts
from mcptrio.types import TextContent

__all__: list[str] = []


class Shop:
    """A plugin that fails while a resource is missing."""

    def __init__(self) -> None:
        self.is_there = True
        self.open = 0
        self.begun = trio.Event()

    @hookimpl
    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[str]:
        if not self.is_there:
            raise RuntimeError("the shop is shut")
        self.open += 1
        try:
            yield "open"
        finally:
            self.open -= 1

    @tool
    async def sell(self, ctx: Context) -> str:
        return str(ctx.state)

    @tool
    async def dawdle(self) -> str:
        self.begun.set()
        await trio.sleep_forever()
        return ""


class OtherPlugin:
    @tool
    async def wave(self) -> str:
        return "hello"


async def said(client: mcptrio.Client, tool: str) -> str:
    [block] = (await client.call_tool(tool)).content
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.parametrize("revision", REVISIONS)
async def test_clients_are_notified_of_enabled_and_disabled_plugins(revision: str) -> None:
    server = Server(plugins=[Shop(), OtherPlugin()])
    async with (
        server.open(),
        mcptrio.connect(server, revision=revision) as client,
        client.subscribe(tools=True) as changes,
    ):
        # Once the client answers, the server knows that the client has subscribed.
        await client.ping()
        with trio.fail_after(30):
            await server.disable_plugin("Shop")
            await anext(changes)
            assert [tool.name async for tool in client.tools()] == ["wave"]
            await server.enable_plugin("Shop")
            await anext(changes)
            while [tool.name async for tool in client.tools()] != ["sell", "dawdle", "wave"]:
                await anext(changes)
            assert await said(client, "sell") == "open"


async def test_quarantined_plugin_is_started_again() -> None:
    shop = Shop()
    shop.is_there = False
    server = Server(plugins=[shop, OtherPlugin()])
    async with server.open(), mcptrio.connect(server) as client:
        assert server.plugins.plugins["Shop"].failure == "lifespan failed: the shop is shut"
        assert not server.status.ready
        plugin = await server.enable_plugin("Shop")
        assert (plugin.state, shop.open) == ("quarantined", 0)
        shop.is_there = True
        plugin = await server.enable_plugin("Shop")
        assert (plugin.state, plugin.failure, shop.open) == ("running", None, 1)
        assert server.status.ready
        assert await said(client, "sell") == "open"
        assert await server.enable_plugin("Shop") is plugin
        assert shop.open == 1
    assert shop.open == 0


async def test_calls_in_flight_are_cancelled_after_the_drain_timeout(autojump_clock: trio.testing.MockClock) -> None:
    shop = Shop()
    server = Server(plugins=[shop, OtherPlugin()])
    async with server.open(), mcptrio.connect(server) as client:

        async def dawdle() -> None:
            # Every waiting caller gets a response.
            with pytest.raises(MCPError, match="dawdle was ended: the plugin was disabled"):
                await client.call_tool("dawdle")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(dawdle)
            await shop.begun.wait()
            started = trio.current_time()
            await server.disable_plugin("Shop")
            took = trio.current_time() - started
            assert took == pytest.approx(server.settings.timeouts.shutdown, abs=0.1)
            assert shop.open == 0
            assert server.supervisor.in_flight == 0
            assert await said(client, "wave") == "hello"
            with pytest.raises(MCPError, match="no such tool"):
                await client.call_tool("sell")


class Till:
    """Sends a form to the client, and records whether its caller and its lifespan are still active."""

    def __init__(self) -> None:
        self.left: list[str] = []

    @hookimpl
    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        yield
        self.left.append("lifespan")

    @tool
    async def pay(self, ctx: Context) -> str:
        try:
            return str(await ctx.elicit("Pay?", bool))
        finally:
            self.left.append("handler")


async def test_handlers_waiting_for_an_answer_end_before_their_lifespan_exits() -> None:
    till = Till()
    server = Server(plugins=[till, OtherPlugin()])
    parked: list[int] = []

    async def disable(_: object) -> dict[str, bool]:
        parked.append(len(server.status.parked))
        await server.disable_plugin("Till")
        parked.append(len(server.status.parked))
        return {"value": True}

    handlers = Handlers(elicit=disable)
    async with server.open(), mcptrio.connect(server, revision="2026-07-28", handlers=handlers) as client:
        with pytest.raises(MCPError, match="no such tool: `pay`"):
            await client.call_tool("pay")
    assert parked == [1, 0]
    assert till.left == ["handler", "lifespan"]


class Sulky:
    """A plugin whose lifespan raises at exit."""

    @hookimpl
    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        yield
        raise RuntimeError("not without me")


async def test_plugin_whose_lifespan_fails_at_exit_is_disabled() -> None:
    server = Server(plugins=[Sulky(), OtherPlugin()])
    async with server.open():
        plugin = await server.disable_plugin("Sulky")
        assert (plugin.state, plugin.failure) == ("disabled", "lifespan failed: not without me")
        assert server.status.ready


class Discreet:
    """A plugin that registers a new secret at each start."""

    def __init__(self) -> None:
        self.number = 0

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        secret = f"secret {self.number};"
        self.number += 1
        server.add_redaction(lambda text: text.replace(secret, "*"))


async def test_redactions_of_a_restarted_plugin_are_bounded() -> None:
    server = Server(plugins=[Discreet()])
    before = len(server.catalog.logging.redactions)
    async with server.open():
        for _ in range(20):
            await server.disable_plugin("Discreet")
            await server.enable_plugin("Discreet")
        assert len(server.catalog.logging.redactions) == before + 7
        assert server.catalog.logging.redact("secret 20; secret 13; secret 12;") == "* * secret 12;"


class Thief:
    @tool
    async def steal(self, ctx: Context) -> list[bool]:
        server = ctx.server
        return [
            server.remove_tool("wave"),
            server.remove_resource("shelf://one"),
            server.remove_resource("shelf://{name}"),
            server.remove_prompt("plead"),
            server.remove_completion("prompt", "plead", "name"),
        ]

    @tool
    async def leave(self, ctx: Context) -> list[bool]:
        return [ctx.server.remove_tool("steal"), ctx.server.remove_tool("steal")]


class Shelf:
    @resource("shelf://one")
    async def one(self) -> str:
        return "1"

    @resource("shelf://{name}")
    async def any_other(self, name: str) -> str:
        return name

    @prompt
    async def plead(self, name: str) -> str:
        return name

    @completion("prompt", "plead", "name")
    async def names(self, value: str) -> list[str]:
        return ["ann"]


async def test_plugin_cannot_remove_tools_of_another_plugin() -> None:
    server = Server(plugins=[OtherPlugin(), Shelf(), Thief()])
    async with server.open(), mcptrio.connect(server) as client:
        assert (await client.call_tool("steal")).structured_content == [False] * 5
        assert (await client.call_tool("leave")).structured_content == [True, False]
        assert [tool.name async for tool in client.tools()] == ["wave", "leave"]
        assert await said(client, "wave") == "hello"
        assert [each.uri async for each in client.resources()] == ["shelf://one"]


async def test_error_names_the_unknown_plugin() -> None:
    server = Server(plugins=[Shop()])
    async with server.open():
        for change in (server.enable_plugin, server.disable_plugin):
            with pytest.raises(ConfigError, match="there is no plugin `Shoe`; expected one of Shop"):
                await change("Shoe")


async def test_plugin_disabled_before_the_server_opens_stays_disabled() -> None:
    shop = Shop()
    server = Server(plugins=[shop])
    await server.disable_plugin("Shop")
    async with server.open(), mcptrio.connect(server) as client:
        assert shop.open == 0
        await server.enable_plugin("Shop")
        assert shop.open == 1
        assert await said(client, "sell") == "open"


class Slow:
    """A plugin whose lifespan yields when the test allows it."""

    def __init__(self) -> None:
        self.is_opening = trio.Event()
        self.may_open = trio.Event()
        self.events: list[str] = []

    @hookimpl
    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        self.events.append("opening")
        self.is_opening.set()
        try:
            await self.may_open.wait()
            yield
        finally:
            self.events.append("left")


@pytest.mark.parametrize("is_just_open", [False, True], ids=["still opening", "just open"])
async def test_server_stops_while_a_plugin_starts(is_just_open: bool) -> None:
    slow = Slow()
    server = Server(plugins=[slow, OtherPlugin()])
    await server.disable_plugin("Slow")
    with trio.fail_after(30):
        async with trio.open_nursery() as outside:
            async with server.open():
                outside.start_soon(server.enable_plugin, "Slow")
                await slow.is_opening.wait()
                if is_just_open:
                    slow.may_open.set()
    assert slow.events == ["opening", "left"]


async def test_plugin_removed_while_the_server_opens_is_not_started() -> None:
    slow, other = Slow(), Shop()
    server = Server(plugins=[slow, other])
    with trio.fail_after(30):
        async with trio.open_nursery() as outside:

            async def disable() -> None:
                await slow.is_opening.wait()
                slow.may_open.set()
                await server.disable_plugin("Shop")

            outside.start_soon(disable)
            async with server.open():
                await trio.testing.wait_all_tasks_blocked()
                assert server.plugins.plugins["Shop"].state == "disabled"
                assert other.open == 0


class Sleeper(Slow):
    """A plugin with one entry of each kind, which must not be used before its lifespan has yielded."""

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        async def around(request: object, proceed: Callable[[], Awaitable[object]]) -> object:
            self.events.append("around")
            return await proceed()

        async def ask() -> dict[str, object]:
            return {"asked": True}

        async def hear() -> None:
            self.events.append("heard")

        def judge(component: object, principal: object) -> bool:
            self.events.append("judged")
            return True

        server.add_middleware(around)
        server.add_method(ask, "example/ask")
        server.add_method(hear, "example/hear", notification=True)
        server.add_authorizer(judge)

    @tool
    async def sleep(self) -> str:
        return "slept"

    @resource("bed://one")
    async def bed(self) -> str:
        return "made"

    @prompt
    async def lull(self) -> str:
        return "hush"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_plugin_offers_nothing_before_its_lifespan_has_yielded(revision: str) -> None:
    sleeper = Sleeper()
    server = Server(plugins=[sleeper, OtherPlugin(), Shelf()])
    await server.disable_plugin("Sleeper")
    async with (
        server.open(),
        mcptrio.connect(server, revision=revision) as client,
        client.subscribe(tools=True) as changes,
        trio.open_nursery() as nursery,
    ):
        await client.ping()
        nursery.start_soon(server.enable_plugin, "Sleeper")
        with trio.fail_after(30):
            await sleeper.is_opening.wait()
            assert [tool.name async for tool in client.tools()] == ["wave"]
            assert [each.uri async for each in client.resources()] == ["shelf://one"]
            assert [each.name async for each in client.prompts()] == ["plead"]
            assert await said(client, "wave") == "hello"
            with pytest.raises(MCPError, match="no such tool"):
                await client.call_tool("sleep")
            with pytest.raises(MCPError, match="no such method"):
                await client.request("example/ask")
            await client.notify("example/hear")
            await client.ping()
            assert sleeper.events == ["opening"]
            sleeper.may_open.set()
            await anext(changes)
            assert {tool.name async for tool in client.tools()} == {"wave", "sleep"}
            assert await said(client, "sleep") == "slept"
            assert (await client.request("example/ask"))["asked"] is True
            assert {"around", "judged"} <= set(sleeper.events)


async def test_plugin_whose_lifespan_does_not_yield_does_not_block_others(
    autojump_clock: trio.testing.MockClock,
) -> None:
    slow = Slow()
    server = Server(plugins=[slow, OtherPlugin()], settings=ServerSettings(timeouts=Timeouts(start=7)))
    async with server.open(), mcptrio.connect(server) as client:
        assert trio.current_time() == pytest.approx(7)
        plugin = server.plugins.plugins["Slow"]
        assert (plugin.state, plugin.failure) == (
            "quarantined",
            "lifespan failed: it did not yield within 7 s (timeouts.start)",
        )
        assert slow.events == ["opening", "left"]
        assert await said(client, "wave") == "hello"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.enable_plugin, "Slow")
            await trio.sleep(1)
            await server.disable_plugin("OtherPlugin")
            await server.enable_plugin("OtherPlugin")
            assert trio.current_time() == pytest.approx(8)
        assert trio.current_time() == pytest.approx(14)
        assert plugin.state == "quarantined"
        slow.may_open.set()
        assert (await server.enable_plugin("Slow")).state == "running"


async def test_plugin_disabled_during_its_start_is_not_awaited(
    autojump_clock: trio.testing.MockClock,
) -> None:
    slow = Slow()
    server = Server(plugins=[slow, OtherPlugin()])
    async with trio.open_nursery() as outside:

        async def disable() -> None:
            await slow.is_opening.wait()
            assert (await server.disable_plugin("Slow")).state == "disabled"

        outside.start_soon(disable)
        async with server.open(), mcptrio.connect(server) as client:
            assert await said(client, "wave") == "hello"
    assert trio.current_time() == pytest.approx(0)
    assert slow.events == ["opening", "left"]


class Quitter(Shop):
    """A plugin that disables itself from one of its own tools."""

    server: Server

    @tool
    async def quit(self) -> str:
        await self.server.disable_plugin("Quitter")
        raise AssertionError("unreachable")


async def test_tool_can_disable_its_own_plugin(autojump_clock: trio.testing.MockClock) -> None:
    quitter = Quitter()
    server = quitter.server = Server(plugins=[quitter, OtherPlugin()])
    async with server.open(), mcptrio.connect(server) as client:
        with pytest.raises(MCPError, match="quit was ended: the plugin was disabled"):
            await client.call_tool("quit")
        plugin = await server.disable_plugin("Quitter")
        assert (plugin.state, quitter.open) == ("disabled", 0)
        assert (await server.enable_plugin("Quitter")).state == "running"
        assert (quitter.open, await said(client, "sell")) == (1, "open")


async def test_disabling_continues_when_its_caller_is_cancelled(autojump_clock: trio.testing.MockClock) -> None:
    shop = Shop()
    server = Server(plugins=[shop, OtherPlugin()])
    async with server.open(), mcptrio.connect(server) as client, trio.open_nursery() as nursery:

        async def dawdle() -> None:
            with pytest.raises(MCPError, match="the plugin was disabled"):
                await client.call_tool("dawdle")

        nursery.start_soon(dawdle)
        await shop.begun.wait()
        with trio.move_on_after(1) as scope:
            await server.disable_plugin("Shop")
        assert scope.cancelled_caught
        assert shop.open == 1
        # A second call waits for the disabling that the first has begun.
        await server.disable_plugin("Shop")
        assert shop.open == 0
        assert trio.current_time() == pytest.approx(5, abs=0.1)
