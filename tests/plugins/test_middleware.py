"""Middleware of plugins."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

import mcptrio
from mcptrio import Context, MCPError, PluginSetup, RequestView, Server, ToolError, hookimpl, tool
from mcptrio.protocol.revisions.registry import REVISIONS
from mcptrio.types import CallToolResult, TextContent

__all__: list[str] = []

Proceed = Callable[[], Awaitable[Any]]


class Tools:
    @tool
    async def greet(self, who: str) -> str:
        return f"hello {who}"

    @tool
    async def refuse(self) -> str:
        raise ToolError("not today")

    @tool
    async def ask(self, ctx: Context) -> str:
        return str(await ctx.elicit("Really?", dict[str, str]))


class MiddlewarePlugin:
    """A plugin with one middleware."""

    def __init__(self, function: Callable[[RequestView, Proceed], Awaitable[Any]], order: int = 0) -> None:
        self.function = function
        self.order = order

    @hookimpl
    def setup(self, server: PluginSetup, config: Any) -> None:
        server.add_middleware(self.function, order=self.order)


def text(result: CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.parametrize("revision", REVISIONS)
async def test_middleware_receives_every_request_with_its_subject(revision: str) -> None:
    seen: list[RequestView] = []

    async def watch(request: RequestView, proceed: Proceed) -> Any:
        seen.append(request)
        return await proceed()

    server = Server(plugins=[Tools(), MiddlewarePlugin(watch)])
    async with server.open(), mcptrio.connect(server, revision=revision) as client:
        assert text(await client.call_tool("greet", {"who": "you"})) == "hello you"
        [call] = [request for request in seen if request.method == "tools/call"]
        assert (call.name, call.arguments, call.plugin, call.principal) == ("greet", {"who": "you"}, "Tools", None)
        assert (call.session_id is None) == (revision == "2026-07-28")
        assert call.client_info is not None
        await client.ping()
        [listed] = [tool.name async for tool in client.tools() if tool.name == "greet"]
        assert listed == "greet"
        methods = [request.method for request in seen]
        assert "tools/list" in methods
        assert ("initialize" if revision != "2026-07-28" else "server/discover") in methods


async def test_middleware_runs_in_its_configured_order() -> None:
    passed: list[str] = []

    def named(name: str) -> Callable[[RequestView, Proceed], Awaitable[Any]]:
        async def middleware(request: RequestView, proceed: Proceed) -> Any:
            if request.method == "tools/call":
                passed.append(f"{name} in")
            try:
                return await proceed()
            finally:
                if request.method == "tools/call":
                    passed.append(f"{name} out")

        return middleware

    server = Server(
        plugins=[
            Tools(),
            MiddlewarePlugin(named("a"), 1),
            MiddlewarePlugin(named("b")),
            MiddlewarePlugin(named("c"), 1),
        ][:2]
    )
    server.catalog.middleware.add(named("b"), server.catalog.own, 0)
    server.catalog.middleware.add(named("c"), server.catalog.own, 1)
    async with server.open(), mcptrio.connect(server) as client:
        await client.call_tool("greet", {"who": "you"})
    assert passed == ["b in", "a in", "c in", "c out", "a out", "b out"]


async def test_middleware_can_replace_a_result_and_refuse_a_request() -> None:
    async def change(request: RequestView, proceed: Proceed) -> Any:
        if request.name == "greet":
            return CallToolResult(content=(TextContent(text="goodbye"),))
        if request.name == "refuse":
            raise MCPError("nobody may", code=-32050, data={"why": "rules"})
        return await proceed()

    server = Server(plugins=[Tools(), MiddlewarePlugin(change)])
    async with server.open(), mcptrio.connect(server) as client:
        assert text(await client.call_tool("greet", {"who": "you"})) == "goodbye"
        with pytest.raises(MCPError, match="nobody may") as raised:
            await client.call_tool("refuse")
        assert (raised.value.code, raised.value.data) == (-32050, {"why": "rules"})


async def test_errors_of_handlers_pass_through_middleware() -> None:
    async def through(request: RequestView, proceed: Proceed) -> Any:
        return await proceed()

    server = Server(plugins=[Tools(), MiddlewarePlugin(through)])
    async with server.open(), mcptrio.connect(server) as client:
        assert (await client.call_tool("refuse")).is_error
        with pytest.raises(MCPError, match="no such tool: `nothing`"):
            await client.call_tool("nothing")
        with pytest.raises(MCPError, match="no such method"):
            await client.request("acme/unknown")


@pytest.mark.parametrize("kind", ["raises", "nothing", "twice", "before", "exits"])
async def test_broken_middleware_is_logged_by_name_and_refuses(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    async def broken(request: RequestView, proceed: Proceed) -> Any:
        if request.method != "tools/call":
            return await proceed()
        if kind == "before":
            raise RuntimeError("secret of mine")
        if kind == "exits":
            raise SystemExit(3)
        result = await proceed()
        if kind == "raises":
            raise KeyError("secret of mine")
        if kind == "twice":
            await proceed()
        return None if kind == "nothing" else result

    server = Server(plugins=[Tools(), MiddlewarePlugin(broken)])
    async with server.open(), mcptrio.connect(server) as client:
        with pytest.raises(MCPError, match="internal error in tools/call") as raised:
            await client.call_tool("greet", {"who": "you"})
        assert "secret" not in str(raised.value)
        assert "greet" in [tool.name async for tool in client.tools()]
    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert "broken of MiddlewarePlugin" in record.getMessage()


async def test_cancellation_passes_through_middleware(autojump_clock: trio.testing.MockClock) -> None:
    left: list[str] = []

    async def slow(request: RequestView, proceed: Proceed) -> Any:
        try:
            if request.method == "tools/call":
                await trio.sleep_forever()
            return await proceed()
        finally:
            left.append(request.method)

    server = Server(plugins=[Tools(), MiddlewarePlugin(slow)])
    async with server.open(), mcptrio.connect(server) as client:
        with trio.move_on_after(1) as scope:
            await client.call_tool("greet", {"who": "you"})
        assert scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        assert left[-1] == "tools/call"


async def test_middleware_is_removed_with_its_plugin() -> None:
    async def never(request: RequestView, proceed: Proceed) -> Any:
        if request.method == "tools/call":
            raise MCPError("never")
        return await proceed()

    server = Server(plugins=[Tools(), MiddlewarePlugin(never)])
    async with server.open(), mcptrio.connect(server) as client:
        with pytest.raises(MCPError, match="never"):
            await client.call_tool("greet", {"who": "you"})
        await server.disable_plugin("MiddlewarePlugin")
        assert text(await client.call_tool("greet", {"who": "you"})) == "hello you"


def test_middleware_that_is_not_a_function_is_refused() -> None:
    server = Server(plugins=[MiddlewarePlugin(3)])  # type: ignore[arg-type]
    assert "middleware: expected an async function, got int" in str(server.plugins.plugins["MiddlewarePlugin"].failure)
