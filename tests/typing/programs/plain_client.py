"""A client: lists, calls, progress, subscriptions and errors."""

from __future__ import annotations

from typing import assert_type

import trio

from mcptrio import Client, Context, RequestTimeout, Server, connect
from mcptrio.client import Change, Progress
from mcptrio.types import Tool

__all__ = ["main", "use"]


async def water(ctx: Context, beds: int) -> str:
    async for _ in ctx.track(range(beds)):
        await trio.lowlevel.checkpoint()
    return f"watered {beds}"


async def sleep() -> None:
    await trio.sleep_forever()


async def use(client: Client) -> list[float]:
    received: list[float] = []

    def hear(report: Progress) -> None:
        received.append(report.progress)

    async for tool in client.tools():
        assert_type(tool, Tool)
    result = await client.call_tool("water", {"beds": 2}, progress=hear)
    assert not result.is_error
    async with client.start_tool("water", {"beds": 3}) as call:
        async for report in call:
            assert_type(report, Progress)
    try:
        await client.call_tool("sleep", timeout=0.01)
    except RequestTimeout as error:
        assert_type(error.seconds, float)
    async with client.subscribe(tools=True) as changes:
        with trio.move_on_after(0):
            async for change in changes:
                assert_type(change, Change)
    return received


async def main() -> None:
    server = Server()
    server.add_tool(water)
    server.add_tool(sleep)
    async with server.open(), connect(server) as client:
        await use(client)
