"""Calls of FastMCP's client: ``python client_fastmcp.py SECONDS IN_FLIGHT REVISION URL|COMMAND...``."""

from __future__ import annotations

import asyncio
import sys
import time

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

__all__ = ["measure"]


async def measure(seconds: float, in_flight: int, target: list[str]) -> float:
    """Return the calls a second with ``in_flight`` concurrent calls."""
    count = 0

    async def call(client: Client, deadline: float) -> None:
        nonlocal count
        while time.perf_counter() < deadline:
            result = await client.call_tool("echo", {"text": "hello"})
            assert not result.is_error
            count += 1

    async def load(client: Client, seconds: float) -> float:
        nonlocal count
        count = 0
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(in_flight):
                group.create_task(call(client, began + seconds))
        return count / (time.perf_counter() - began)

    where = (
        StreamableHttpTransport(target[0])
        if target[0].startswith("http")
        else StdioTransport(command=target[0], args=target[1:])
    )
    async with Client(where) as client:
        await load(client, seconds / 4)
        return await load(client, seconds)


print(asyncio.run(measure(float(sys.argv[1]), int(sys.argv[2]), sys.argv[4:])))
