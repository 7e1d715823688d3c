"""Plugins that come, go and come again while the server is open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

import mcptrio
from mcptrio import ConfigError, Context, MCPError, Server, hookimpl, tool
from mcptrio.plugins.plugin import State
from mcptrio.protocol.revisions.registry import REVISIONS

__all__: list[str] = []


class Shop:
    """A plugin that needs something that is not always there."""

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


class Neighbour:
    @tool
    async def wave(self) -> str:
        return "hello"


async def said(client: mcptrio.Client, tool: str) -> str:
    [block] = (await client.call_tool(tool)).content
    assert isinstance(block, mcptrio.TextContent)
    return block.text


@pytest.mark.parametrize("revision", REVISIONS)
async def test_clients_are_told_that_a_plugin_has_come_or_gone(revision: str) -> None:
    server = Server(plugins=[Shop(), Neighbour()])
    async with (
        server.open(),
        mcptrio.connect(server, revision=revision) as client,
        client.subscribe(tools=True) as changes,
    ):
        # Once it answers, it has heard that the client is there.
        await client.ping()
        with trio.fail_after(5):
            await server.disable_plugin("Shop")
            await anext(changes)
            assert [tool.name async for tool in client.tools()] == ["wave"]
            await server.enable_plugin("Shop")
            await anext(changes)
            while [tool.name async for tool in client.tools()] != ["wave", "sell", "dawdle"]:
                await anext(changes)
            assert await said(client, "sell") == "open"


async def test_plugin_in_quarantine_is_tried_again() -> None:
    shop = Shop()
    shop.is_there = False
    server = Server(plugins=[shop, Neighbour()])
    async with server.open(), mcptrio.connect(server) as client:
        assert server.plugins.plugins["Shop"].fault == "lifespan failed: the shop is shut"
        assert not server.health()["ready"]
        plugin = await server.enable_plugin("Shop")
        assert (plugin.state, shop.open) == (State.QUARANTINED, 0)
        shop.is_there = True
        plugin = await server.enable_plugin("Shop")
        assert (plugin.state, plugin.fault, shop.open) == (State.RUNNING, None, 1)
        assert server.health()["ready"]
        assert await said(client, "sell") == "open"
        assert await server.enable_plugin("Shop") is plugin
        assert shop.open == 1
    assert shop.open == 0


async def test_calls_in_flight_have_their_time_and_then_end(autojump_clock: trio.testing.MockClock) -> None:
    shop = Shop()
    server = Server(plugins=[shop, Neighbour()])
    async with server.open(), mcptrio.connect(server) as client:
        ended: list[float] = []

        async def dawdle() -> None:
            with trio.move_on_after(60):
                await client.call_tool("dawdle")
            ended.append(trio.current_time())

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
            nursery.cancel_scope.cancel()


async def test_plugin_that_is_not_there_is_named() -> None:
    server = Server(plugins=[Shop()])
    async with server.open():
        for change in (server.enable_plugin, server.disable_plugin):
            with pytest.raises(ConfigError, match="there is no plugin 'Shoe'; expected one of Shop"):
                await change("Shoe")


async def test_plugin_disabled_before_the_server_is_open_stays_so() -> None:
    shop = Shop()
    server = Server(plugins=[shop])
    await server.disable_plugin("Shop")
    async with server.open(), mcptrio.connect(server) as client:
        assert shop.open == 0
        await server.enable_plugin("Shop")
        assert shop.open == 1
        assert await said(client, "sell") == "open"
