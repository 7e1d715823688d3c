"""A function that leaves a nursery or a scope open harms nobody but itself."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

import mcptrio
from mcptrio import Context, Server, TextContent, tool
from mcptrio.client.client import Client

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


class Neighbour:
    @tool
    async def sleep(self, seconds: float) -> str:
        await trio.sleep(seconds)
        return "slept"


async def said(client: Client, name: str, **arguments: object) -> str:
    [block] = (await client.call_tool(name, arguments)).content
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_what_is_left_open_is_closed(
    revision: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    careless = Careless()
    server = Server(plugins=[careless, Neighbour()])
    async with server.open(), mcptrio.connect(server, revision=revision) as client:
        for name, what in (("leave_nursery", "a nursery"), ("leave_scope", "a cancel scope")):
            assert await said(client, name) == f"error executing tool {name}"
            assert f"it has left {what} open" in caplog.text
        assert await said(client, "leave_both_and_fail") == "error executing tool leave_both_and_fail"
        assert "KeyError: 'and fail'" in caplog.text
        # The deadline that was left behind is nobody else's.
        assert await said(client, "sleep", seconds=20) == "slept"
        with trio.move_on_after(1):
            await client.call_tool("leave_and_wait")
        await trio.sleep(2)
        assert careless.ended == 3
        assert await said(client, "sleep", seconds=1) == "slept"
    assert {each.name for each in caplog.records if each.levelno >= logging.ERROR} == {"mcptrio.tools"}
