"""Operations are cancelled at any moment, over every kind of link, and the client keeps check_calls.

Each run tries a few moments of each. `MCPTRIO_CANCELLATIONS=10000 pytest tests/client/test_cancellation.py` tries that
many.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from mcptrio import Client, Command, Context, MCPTrioError, Mount, Server, connect, tool
from mcptrio.client import Form, Handlers
from mcptrio.serve.http import serve_http
from mcptrio.serve.stream import serve_stream
from mcptrio.serving import (
    MountOptions,
    memory_channel_pair,
)
from mcptrio.types import TextContent
from tests.interaction.applies import HANDSHAKE, MODERN

__all__: list[str] = []

COUNT = int(os.environ.get("MCPTRIO_CANCELLATIONS", "8"))
OLD, NEW = HANDSHAKE[-1], MODERN[-1]

PLUGIN = '''
import trio
from mcptrio import Context, resource, tool

@tool
async def echo(value: str) -> str:
    """Return the value, after a moment."""
    await trio.lowlevel.checkpoint()
    return value

@tool
async def ask(ctx: Context) -> str:
    """Ask for a word."""
    answer = await ctx.elicit("A word?", str)
    return str(answer)

@resource("memo://one")
async def memo() -> str:
    """Return a memo."""
    return "text"
'''


@tool
async def echo(value: str) -> str:
    """Return the value, after a moment."""
    await trio.lowlevel.checkpoint()
    return value


@tool
async def ask(ctx: Context) -> str:
    """Ask for a word."""
    answer = await ctx.elicit("A word?", str)
    return str(answer)


async def memo() -> str:
    """Return a memo."""
    return "text"


def offering() -> Server:
    server = Server("cancelled")
    server.add_tool(echo)
    server.add_tool(ask)
    server.add_resource(memo, uri="memo://one")
    return server


class Moments:
    """Cancels a scope after a number of turns of the event loop.

    A task counts the turns, so every await of the operation is reached.
    """

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.scope = trio.CancelScope()

    async def run(self) -> None:
        for _ in range(self.turns):
            await trio.lowlevel.checkpoint()
        self.scope.cancel()


async def cancelled_after(turns: int, operation: Callable[[], Awaitable[object]]) -> bool:
    """Return whether the operation completed before it was cancelled."""
    moments = Moments(turns)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(moments.run)
        with moments.scope:
            await operation()
        nursery.cancel_scope.cancel()
    return not moments.scope.cancelled_caught


async def fill_in(form: Form) -> dict[str, Any]:
    return {"value": "word"}


async def listen(client: Client) -> None:
    async with client.subscribe(["memo://one"], tools=True) as changes:
        async for _ in changes:
            break


OPERATIONS: dict[str, Callable[[Client], Awaitable[object]]] = {
    "call": lambda client: client.call_tool("echo", {"value": "x"}),
    "elicitation": lambda client: client.call_tool("ask"),
    "list": lambda client: client.tools().all(),
    "read": lambda client: client.read_resource("memo://one"),
    "subscription": listen,
}


@asynccontextmanager
async def over_memory(folder: Path, revision: str) -> AsyncIterator[Client]:
    ours, theirs = memory_channel_pair()
    server = offering()
    async with server.open() as running, trio.open_nursery() as nursery:
        nursery.start_soon(running.serve, theirs)
        async with connect(ours, revision=revision, handlers=Handlers(elicit=fill_in)) as client:
            yield client
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def over_stdio(folder: Path, revision: str) -> AsyncIterator[Client]:
    (folder / "offering.py").write_text(PLUGIN)
    async with connect(command(folder), revision=revision, handlers=Handlers(elicit=fill_in)) as client:
        yield client


@asynccontextmanager
async def over_unix(folder: Path, revision: str) -> AsyncIterator[Client]:
    async with trio.open_nursery() as nursery:
        [url] = await nursery.start(partial(serve_stream, offering(), f"unix:{folder / 'socket'}"))
        async with connect(url, revision=revision, handlers=Handlers(elicit=fill_in)) as client:
            yield client
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def over_http(folder: Path, revision: str, *, websocket: bool = False) -> AsyncIterator[Client]:
    async with trio.open_nursery() as nursery:
        [url, *_] = await nursery.start(partial(serve_http, offering(), port=0))
        if websocket:
            url = url.replace("http:", "ws:").removesuffix("/mcp") + "/ws"
        async with connect(url, revision=revision, handlers=Handlers(elicit=fill_in)) as client:
            yield client
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def through_a_mount(folder: Path, revision: str) -> AsyncIterator[Client]:
    (folder / "offering.py").write_text(PLUGIN)
    server = Server(plugins=[Mount(command(folder), name="mounted", options=MountOptions(prefix=""))])
    ours, theirs = memory_channel_pair()
    async with server.open() as running, trio.open_nursery() as nursery:
        nursery.start_soon(running.serve, theirs)
        async with connect(ours, revision=revision, handlers=Handlers(elicit=fill_in)) as client:
            yield client
        nursery.cancel_scope.cancel()


def command(folder: Path) -> Command:
    return Command(args=[sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin=offering.py"], cwd=folder)


LINKS: dict[str, Any] = {
    "memory": over_memory,
    "stdio": over_stdio,
    "unix": over_unix,
    "websocket": partial(over_http, websocket=True),
    "http": over_http,
    "mount": through_a_mount,
}


@pytest.mark.parametrize("revision", [OLD, NEW])
@pytest.mark.parametrize("link", LINKS)
async def test_client_works_after_operations_cancelled_at_any_moment(link: str, revision: str, tmp_path: Path) -> None:
    moments = random.Random(7)
    with trio.fail_after(60 + COUNT):
        async with LINKS[link](tmp_path, revision) as client:
            await check_calls(client)
            for operation in OPERATIONS.values():
                for number in range(COUNT):
                    # The first turns one by one, later ones at random: an operation on a socket waits for hundreds of
                    # turns.
                    turns = number if number < 6 else int(2 ** moments.uniform(2, 9))
                    await cancelled_after(turns, partial(operation, client))
                    if COUNT < 100 or number % 10 == 0:
                        await check_calls(client)
            await check_calls(client)


async def check_calls(client: Client) -> None:
    with trio.fail_after(30):
        result = await client.call_tool("echo", {"value": "still here"})
    assert result.content == (TextContent(text="still here"),)


async def test_interleaved_calls_through_a_mount_get_their_own_results(tmp_path: Path) -> None:
    answers: list[str] = []
    failed: list[MCPTrioError] = []

    async def call(client: Client, number: int) -> None:
        try:
            result = await client.call_tool("echo", {"value": str(number)})
        except MCPTrioError as error:
            failed.append(error)
            return
        assert result.content == (TextContent(text=str(number)),)
        answers.append(str(number))

    count = 10_000 if COUNT >= 10_000 else 400
    with trio.fail_after(60 + COUNT):
        async with through_a_mount(tmp_path, NEW) as client, trio.open_nursery() as nursery:
            room = trio.CapacityLimiter(200)

            async def call_in_turn(number: int) -> None:
                async with room:
                    await call(client, number)

            for number in range(count):
                nursery.start_soon(call_in_turn, number)

    assert failed == []
    assert sorted(map(int, answers)) == list(range(count))
