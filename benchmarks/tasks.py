"""How much tasks cost: tasks created and finished a second, the memory of a waiting one, and a call that is answered.

    python -m benchmarks.tasks memory sqlite:/tmp/bench.sqlite redis://127.0.0.1:6379

One process serves itself over memory channels. Direct answers are compared in alternating rounds: a tool that may make
tasks for a client that has declared the extension, and one that makes none for a client that has not. The fastest round
of each counts, because other work of the machine only adds time. It prints the table for ``RESULTS.md``.
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from math import inf
from typing import Any

import trio

import mcptrio
from benchmarks.machine import describe_machine
from mcptrio import Client, Context, Server, tool
from mcptrio.abc import MessageChannel
from mcptrio.protocol.messages import Request, Response
from mcptrio.protocol.model.tasks import TASKS_EXTENSION
from mcptrio.serving import ServerSettings
from mcptrio.stores import StoreSettings, open_stores
from mcptrio.transports.memory import memory_channel_pair

__all__ = ["main"]

CONCURRENT = 128
WAITING = 1_000
CALLS = 500
ROUNDS = 40


@tool(task="required", poll_interval=0.05)
async def finish() -> str:
    """End at once."""
    return "done"


@tool(task="required")
async def wait(ctx: Context) -> str:
    """Wait for an answer."""
    return str(await ctx.ask("Who?", str))


@tool
async def plain() -> str:
    """Answer at once."""
    return "done"


@tool(task="optional")
async def optional() -> str:
    """Answer at once, although it could be a task."""
    return "done"


@tool
async def plain_with_context(ctx: Context) -> str:
    """Answer at once."""
    return "done"


@tool(task="optional")
async def optional_with_context(ctx: Context) -> str:
    """Answer at once, although it could be a task."""
    return "done"


TOOLS = (finish, wait, plain, optional, plain_with_context, optional_with_context)


@asynccontextmanager
async def served(url: str) -> AsyncIterator[tuple[Server, Client]]:
    async with open_stores(
        url, StoreSettings(max_tasks=1_000_000, tasks_per_owner=1_000_000, prefix="bench")
    ) as stores:
        server = Server("bench", settings=ServerSettings(stores=stores))
        for function in TOOLS:
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


async def microseconds(channel: MessageChannel, name: str, capabilities: Mapping[str, Any]) -> float:
    envelope = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }
    params = {"name": name, "arguments": {}, "_meta": envelope}
    # Processor time, which other work of the machine does not change.
    began = time.process_time()
    for number in range(CALLS):
        await channel.send([Request(id=number, method="tools/call", params=params)])
        [answer] = await channel.receive()
        assert isinstance(answer, Response), answer
    return (time.process_time() - began) / CALLS * 1e6


async def answered() -> dict[str, float]:
    """Return the µs of a call that is answered at once, without and with tasks."""
    best: dict[str, float] = dict.fromkeys(("plain", "optional", "plain_with_context", "optional_with_context"), inf)
    async with served("memory") as (server, _), trio.open_nursery() as nursery:
        ours, theirs = memory_channel_pair()
        nursery.start_soon(server.supervisor.serve, theirs)
        names = list(best)
        for number in range(ROUNDS):
            for name in names if number % 2 else reversed(names):
                capabilities: dict[str, Any] = (
                    {"extensions": {TASKS_EXTENSION: {}}} if name.startswith("optional") else {}
                )
                best[name] = min(best[name], await microseconds(ours, name, capabilities))
        nursery.cancel_scope.cancel()
    return best


async def measure(url: str, seconds: float) -> float:
    async with served(url) as (_, client):
        return await rate(client, seconds)


async def measure_memory() -> float:
    async with served("memory") as (server, client):
        return await memory(server, client)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("urls", nargs="*", default=["memory"])
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    rows = [
        (f"tasks created and finished with {url.partition(':')[0]}, tasks/s", trio.run(measure, url, given.seconds))
        for url in given.urls
    ]
    rows.append(("memory of a task that waits for an answer, KiB", trio.run(measure_memory)))
    best = trio.run(answered)
    for end, what in (("", "a call"), ("_with_context", "a call with a `Context`")):
        plain, optional = best[f"plain{end}"], best[f"optional{end}"]
        rows += [(f"{what}, µs", plain), (f"{what} that could become a task, µs", optional)]
        rows.append((f"{what} that could become a task ÷ one that could not", optional / plain))
    print(describe_machine())
    print("\n|  | mcptrio |\n| --- | ---: |")
    for row, figure in rows:
        print(f"| {row} | {figure:,.{0 if figure >= 100 else 2}f} |")


if __name__ == "__main__":
    main()
