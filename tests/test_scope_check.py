"""A function that leaves a nursery or a scope open affects only itself."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import httpx2
import pytest
import trio
import trio.testing

import mcptrio
from mcptrio import Context, MCPError, PluginSetup, Server, completion, hookimpl, resource, tool
from mcptrio.capabilities.middleware import RequestView
from mcptrio.client.client import Client
from mcptrio.serve.http import serve_http
from mcptrio.types import TextContent

__all__: list[str] = []


class Careless:
    def __init__(self) -> None:
        self.ended = 0

    async def child(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self.ended += 1

    @tool
    async def leave_nursery(self) -> str:
        nursery = await trio.open_nursery().__aenter__()
        nursery.start_soon(self.child)
        return "left"

    @tool
    async def leave_scope(self, ctx: Context) -> str:
        trio.CancelScope(deadline=trio.current_time() + 5).__enter__()
        return "left"

    @tool
    async def leave_both_and_fail(self) -> str:
        trio.CancelScope().__enter__()
        nursery = await trio.open_nursery().__aenter__()
        nursery.start_soon(self.child)
        raise KeyError("and fail")

    @tool
    async def leave_and_wait(self) -> str:
        nursery = await trio.open_nursery().__aenter__()
        nursery.start_soon(self.child)
        await trio.sleep_forever()
        return ""


class OtherPlugin:
    @tool
    async def sleep(self, seconds: float) -> str:
        await trio.sleep(seconds)
        return "slept"


async def said(client: Client, name: str, **arguments: object) -> str:
    [block] = (await client.call_tool(name, arguments)).content
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_scopes_left_open_by_a_tool_are_closed(
    revision: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    careless = Careless()
    server = Server(plugins=[careless, OtherPlugin()])
    async with server.open(), mcptrio.connect(server, revision=revision) as client:
        for name, what in (("leave_nursery", "a nursery"), ("leave_scope", "a cancel scope")):
            assert f"error executing tool {name}:" in await said(client, name)
            assert f"{what} was still open when the function returned" in caplog.text
        assert "error executing tool leave_both_and_fail:" in await said(client, "leave_both_and_fail")
        assert "KeyError: 'and fail'" in caplog.text
        # The deadline left behind affects no other call.
        assert await said(client, "sleep", seconds=20) == "slept"
        with trio.move_on_after(1):
            await client.call_tool("leave_and_wait")
        await trio.sleep(2)
        assert careless.ended == 3
        assert await said(client, "sleep", seconds=1) == "slept"
    assert {each.name for each in caplog.records if each.levelno >= logging.ERROR} == {"mcptrio.tools"}


class CarelessAround:
    """The same mistakes in the other places that run an author's code."""

    @tool
    async def stream(self) -> AsyncIterator[str]:
        trio.CancelScope(deadline=trio.current_time() + 5).__enter__()
        yield "left"

    @tool
    async def stream_in_a_scope(self) -> AsyncIterator[str]:
        with trio.move_on_after(60):
            yield "one"
            yield "two"

    @tool
    async def stream_nursery(self) -> AsyncIterator[str]:
        nursery = await trio.open_nursery().__aenter__()
        nursery.start_soon(trio.sleep_forever)
        yield "left"

    @resource("careless://{name}")
    async def read(self, name: str) -> AsyncIterator[str]:
        trio.CancelScope().__enter__()
        yield name

    @completion("resource", "careless://{name}", "name")
    async def complete(self, value: str) -> AsyncIterator[str]:
        trio.CancelScope().__enter__()
        yield "name"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_scopes_left_open_by_generators_are_closed(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Server(plugins=[CarelessAround(), OtherPlugin()])
    async with server.open(), mcptrio.connect(server, revision=revision) as client:
        for name in ("stream", "stream_nursery"):
            assert f"error executing tool {name}:" in await said(client, name)
        assert "was still open when the function returned" in caplog.text
        assert len((await client.call_tool("stream_in_a_scope")).content) == 2
        with pytest.raises(MCPError):
            await client.read_resource("careless://x")
        with pytest.raises(MCPError):
            await client.complete("resource", "careless://{name}", "name", "n")
        assert await said(client, "sleep", seconds=0) == "slept"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_scopes_left_open_by_middleware_are_closed(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    class Around:
        careless = True

        @hookimpl
        def setup(self, server: PluginSetup) -> None:
            server.add_middleware(self.around)

        async def around(self, request: RequestView, proceed: Callable[[], Awaitable[object]]) -> object:
            if request.method == "tools/call" and self.careless:
                trio.CancelScope(deadline=trio.current_time() + 5).__enter__()
            return await proceed()

    around = Around()
    server = Server(plugins=[around, OtherPlugin()])
    async with server.open(), mcptrio.connect(server, revision=revision) as client:
        for _ in range(3):
            with pytest.raises(MCPError, match="internal error"):
                await client.call_tool("sleep", {"seconds": 0})
        around.careless = False
        assert await said(client, "sleep", seconds=0) == "slept"
    assert "a cancel scope was still open" in caplog.text


async def test_scopes_left_open_by_a_route_are_closed(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        trio.CancelScope(deadline=trio.current_time() + 0.01).__enter__()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    class Routes:
        @hookimpl
        def setup(self, server: PluginSetup) -> None:
            server.add_route("/careless", app)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery, httpx2.AsyncClient() as http:
            serve = partial(serve_http, Server(plugins=[Routes(), OtherPlugin()]), port=0)
            [url] = await nursery.start(serve)
            for _ in range(3):
                assert (await http.get(url.replace("/mcp", "/careless"))).status_code == 204
            async with mcptrio.connect(url) as client:
                assert await said(client, "sleep", seconds=0.05) == "slept"
            nursery.cancel_scope.cancel()
    assert "a cancel scope was still open" in caplog.text
