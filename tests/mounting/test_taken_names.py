"""Names that two mounted servers have: the first keeps its own, and the second's is offered once it is free."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
from attrs import evolve

from mcptrio import Client, Mount, Server, connect, tool
from mcptrio.plugins.settings import PluginTables
from tests.mounting.mounted import WAIT_TIMEOUT, WAITING, eventually, text

__all__: list[str] = []

NEW, OLD = "2026-07-28", "2025-11-25"


def upstream(name: str) -> Server:
    """A server with the same names as the other one, whose results contain its own name."""
    server = Server(name)

    async def same() -> str:
        return name

    async def whose(word: str) -> str:
        return f"{name} {word}"

    server.add_tool(same, name="same")
    server.add_prompt(whose, name="whose")
    server.add_completion([name], "prompt", "whose", "word")
    server.add_resource(same, "same://thing")
    server.add_resource(whose, "same://things/{word}")
    server.add_completion([name], "resource", "same://things/{word}", "word")
    return server


@asynccontextmanager
async def two_mounted(revision: str) -> AsyncIterator[tuple[Client, Server, Server, Mount]]:
    """Yield a client of a server with two mounts, the server, ``first``, and the mount ``second``."""
    targets = [upstream("first"), upstream("second")]
    with trio.fail_after(WAIT_TIMEOUT):
        async with AsyncExitStack() as stack:
            for target in targets:
                await stack.enter_async_context(target.open())
            options = evolve(WAITING, prefix="")
            mounts = [Mount(each, name=each.info.name, options=options) for each in targets]
            server = Server(plugins=mounts)
            await stack.enter_async_context(server.open())
            client = await stack.enter_async_context(connect(server, revision=revision))
            yield client, server, targets[0], mounts[1]


async def offered(client: Client) -> list[object]:
    """Return the results of the tool, the prompt, the completion and both resources."""
    called = await client.call_tool("same")
    got = await client.get_prompt("whose", {"word": "word"})
    ref = {"type": "ref/prompt", "name": "whose"}
    completed = await client.request("completion/complete", {"ref": ref, "argument": {"name": "word", "value": ""}})
    read = [(await client.read_resource(f"same://{each}")).contents[0] for each in ("thing", "things/word")]
    return [
        called.content[0].text,  # type: ignore[union-attr]
        got.messages[0].content.text,  # type: ignore[union-attr]
        completed.completion.values[0],
        *(each.text for each in read),  # type: ignore[union-attr]
    ]


FIRST = ["first", "first word", "first", "first", "first word"]
SECOND = ["second", "second word", "second", "second", "second word"]
EVERYTHING = {"tools": 1, "prompts": 1, "resources": 1, "templates": 1}


@pytest.mark.parametrize("revision", [NEW, OLD])
async def test_name_is_offered_when_the_first_server_drops_it(revision: str) -> None:
    async with two_mounted(revision) as (client, _, first, mount):
        assert (await offered(client), mount.status.offers) == (FIRST, {})
        async with client.subscribe(tools=True) as changes:
            await client.ping()
            first.remove_tool("same")
            first.remove_prompt("whose")
            first.remove_resource("same://thing")
            first.remove_resource("same://things/{word}")
            await anext(changes)
        await eventually(lambda: mount.status.offers == EVERYTHING)
        assert await offered(client) == SECOND


async def test_name_is_offered_when_the_plugin_that_has_it_is_disabled() -> None:
    async with two_mounted(NEW) as (client, server, _, mount):
        await server.disable_plugin("first")
        await eventually(lambda: mount.status.offers == EVERYTHING)
        assert await offered(client) == SECOND


class Owner:
    """A plugin that has the name of a mounted server's tool, and is slow to end."""

    def __init__(self) -> None:
        self.begun, self.gate = trio.Event(), trio.Event()

    @tool
    async def same(self) -> str:
        self.begun.set()
        await self.gate.wait()
        return "owner"


async def test_names_of_a_restarting_plugin_are_reserved_for_it() -> None:
    target, owner = upstream("target"), Owner()
    with trio.fail_after(WAIT_TIMEOUT):
        async with target.open(), trio.open_nursery() as nursery:
            mount = Mount(target, name="target", options=evolve(WAITING, prefix=""))
            server = Server(plugins=[owner, mount], config=PluginTables(environ={}))
            async with server.open(), connect(server) as client:
                nursery.start_soon(client.call_tool, "same")
                await owner.begun.wait()
                settings = PluginTables(tables={"Owner": {"a": 1}}, environ={})
                nursery.start_soon(server.renew_plugins, settings, lambda plugin: plugin.distribution is None)
                await eventually(lambda: server.plugins.plugins["Owner"].state == "disabled")
                # Another name becomes free meanwhile.
                target.remove_resource("same://thing")
                await eventually(lambda: "resources" not in mount.status.offers)
                owner.gate.set()
                await eventually(lambda: server.plugins.plugins["Owner"].state == "running")
                assert await text(client, "same") == "owner"
