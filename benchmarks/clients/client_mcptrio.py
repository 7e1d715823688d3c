"""Calls of mcptrio's client: ``python client_mcptrio.py SECONDS IN_FLIGHT REVISION URL|COMMAND...``."""

from __future__ import annotations

import sys
import time

import trio

import mcptrio

__all__ = ["measure"]


async def measure(seconds: float, in_flight: int, target: list[str]) -> float:
    """Return the calls a second with ``in_flight`` concurrent calls."""
    count = 0

    async def call(client: mcptrio.Client, deadline: float) -> None:
        nonlocal count
        while time.perf_counter() < deadline:
            result = await client.call_tool("echo", {"text": "hello"})
            assert not result.is_error
            count += 1

    async def load(client: mcptrio.Client, seconds: float) -> float:
        nonlocal count
        count = 0
        began = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(in_flight):
                nursery.start_soon(call, client, began + seconds)
        return count / (time.perf_counter() - began)

    where = target[0] if target[0].startswith("http") else target
    async with mcptrio.connect(where, revision=sys.argv[3] if sys.argv[3] != "-" else None) as client:
        await load(client, seconds / 4)
        return await load(client, seconds)


print(trio.run(measure, float(sys.argv[1]), int(sys.argv[2]), sys.argv[4:]))
