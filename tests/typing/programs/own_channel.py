"""A custom transport: any Trio channel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

import trio

from mcptrio import Server, connect, hookimpl
from mcptrio.abc import Engine
from mcptrio.serving import adapt_channel

__all__ = ["main", "transports"]

Ends: TypeAlias = "tuple[trio.MemorySendChannel[bytes], trio.MemoryReceiveChannel[bytes]]"


class Pipe(trio.abc.Channel[bytes]):
    """Two memory channels, one for each direction."""

    def __init__(self, out: trio.MemorySendChannel[bytes], into: trio.MemoryReceiveChannel[bytes]) -> None:
        self._out = out
        self._into = into

    async def send(self, value: bytes) -> None:
        await self._out.send(value)

    async def receive(self) -> bytes:
        return await self._into.receive()

    async def aclose(self) -> None:
        await self._out.aclose()
        await self._into.aclose()


async def serve(pipe: Pipe, engine: Engine, *, stopping: trio.Event, task_status: trio.TaskStatus[list[str]]) -> None:
    task_status.started(["pipe"])
    await engine.serve(adapt_channel(pipe, form="bytes", name="pipe"))


@hookimpl
def transports() -> dict[str, Callable[..., Awaitable[None]]]:
    there: Ends = trio.open_memory_channel[bytes](0)
    back: Ends = trio.open_memory_channel[bytes](0)
    return {"pipe": partial(serve, Pipe(there[0], back[1]))}


async def ring() -> str:
    return "who is it?"


async def main() -> None:
    there: Ends = trio.open_memory_channel[bytes](0)
    back: Ends = trio.open_memory_channel[bytes](0)
    server = Server()
    server.add_tool(ring)
    async with server.open() as running, trio.open_nursery() as nursery:
        nursery.start_soon(running.serve, adapt_channel(Pipe(there[0], back[1]), form="bytes"))
        async with connect(adapt_channel(Pipe(back[0], there[1]), form="bytes")) as client:
            result = await client.call_tool("ring")
            assert result.text == "who is it?"
        nursery.cancel_scope.cancel()
