"""How much tasks cost: tasks created and finished a second, the memory of a waiting one, and a call that is answered.

    python -m benchmarks.tasks memory sqlite:/tmp/bench.sqlite redis://127.0.0.1:6379

One process serves itself over memory channels. ``CONTRIBUTING.md`` says how figures are compared.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

import mcptrio
from benchmarks.machine import describe_machine
from mcptrio import Client, Context, Server, tool
from mcptrio.serving import ServerSettings
from mcptrio.stores import StoreSettings, open_stores

__all__ = ["main"]

CONCURRENT = 128
WAITING = 1_000
CALLS = 3_000
ROUNDS = 5


@tool(task="required", poll_interval=0.05)
async def finish() -> str:
    """End at once."""
    return "done"


@tool(task="required")
async def wait(ctx: Context) -> str:
    """Wait for an answer."""
    return str(await ctx.ask("Who?", str))


@tool
async def plain(ctx: Context) -> str:
    """Answer at once."""
    return "done"


@tool(task="optional")
async def optional(ctx: Context) -> str:
    """Answer at once, although it could be a task."""
    return "done"


@asynccontextmanager
async def served(url: str) -> AsyncIterator[tuple[Server, Client]]:
    async with open_stores(
        url, StoreSettings(max_tasks=1_000_000, tasks_per_owner=1_000_000, prefix="bench")
    ) as stores:
        server = Server("bench", settings=ServerSettings(stores=stores))
        for function in (finish, wait, plain, optional):
            server.add_tool(function)
        async with mcptrio.connect(server, revision="2026-07-28") as client:
            yield server, client


async def rate(client: Client, seconds: float) -> float:
    """Return the tasks that are created, finished and read a second."""
    count, end = 0, time.perf_counter() + seconds

    async def call() -> None:
        nonlocal count
        while time.perf_counter() < end:
            await client.call_tool("finish")
            count += 1

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(CONCURRENT):
            nursery.start_soon(call)
    return count / (time.perf_counter() - began)


async def memory(server: Server, client: Client) -> float:
    """Return the KiB of one task that waits for an answer."""
    params = {"name": "wait", "arguments": {}}
    await client.request("tools/call", params)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(WAITING):
        await client.request("tools/call", params)
    while not all(task.label == "wait" for task in server.status.tasks):  # noqa: ASYNC110 - nothing announces it
        await trio.sleep(0.05)
    await trio.sleep(1)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used / WAITING / 1024


async def microseconds(client: Client, name: str) -> float:
    began = time.perf_counter()
    for _ in range(CALLS):
        await client.call_tool(name)
    return (time.perf_counter() - began) / CALLS * 1e6


async def measure(url: str, seconds: float) -> None:
    async with served(url) as (_, client):
        print(f"{url:<40} {await rate(client, seconds):8.0f} tasks/s")


async def measure_process() -> None:
    async with served("memory") as (_, client):
        pairs = [(await microseconds(client, "plain"), await microseconds(client, "optional")) for _ in range(ROUNDS)]
        ratio = statistics.median(optional / plain for plain, optional in pairs)
        print(f"a call that is answered at once, µs      {min(plain for plain, _ in pairs):8.1f}")
        print(f"the same if it could be a task, ratio    {ratio:8.2f}")
    async with served("memory") as (server, client):
        print(f"a task that waits for an answer, KiB     {await memory(server, client):8.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("urls", nargs="*", default=["memory"])
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    print(describe_machine())
    for url in given.urls:
        trio.run(measure, url, given.seconds)
    trio.run(measure_process)


if __name__ == "__main__":
    main()
