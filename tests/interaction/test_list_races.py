"""Lists that are changed from threads and other tasks while they are read page by page."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterator

import pytest
import trio

from mcptrio import Client, Context, Server, connect, tool
from mcptrio.serving import ServerSettings

__all__: list[str] = []

FIXED = 12
"""Entries of each list that are never changed."""
CHANGERS = 3
ROUNDS = 5


@pytest.fixture
def hasty() -> Iterator[None]:
    """Switch threads every microsecond, which provokes races."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


async def nothing() -> str:
    return ""


async def variable(name: str) -> str:
    return name


def fill(server: Server) -> None:
    for number in range(FIXED):
        server.add_tool(nothing, name=f"fixed-{number:02}")
        server.add_prompt(nothing, name=f"fixed-{number:02}")
        server.add_resource(nothing, f"fixed://{number:02}", name=f"fixed-{number:02}")
        server.add_resource(variable, f"fixed{number}://{{name}}", name=f"fixed-{number:02}")


def change(server: Server, name: str) -> None:
    """Add an entry to each list and remove it."""
    server.add_tool(nothing, name=name)
    server.add_prompt(nothing, name=name)
    server.add_resource(nothing, f"own://{name}", name=name)
    server.add_resource(variable, f"{name}://{{name}}", name=name)
    assert server.remove_tool(name)
    assert server.remove_prompt(name)
    assert server.remove_resource(f"own://{name}")
    assert server.remove_resource(f"{name}://{{name}}")


async def read(client: Client) -> None:
    for listing in (client.tools, client.prompts, client.resources, client.resource_templates):
        names = [item.name for item in await listing().all()]
        assert [name for name in names if name.startswith("fixed")] == [f"fixed-{number:02}" for number in range(FIXED)]


@pytest.mark.usefixtures("hasty")
async def test_lists_are_complete_while_threads_change_them() -> None:
    server = Server(settings=ServerSettings(page_size=5))
    fill(server)
    finished = threading.Event()

    def keep_changing(changer: int) -> None:
        turn = 0
        while not finished.is_set():
            turn += 1
            # Some names are reused, others are new each time.
            change(server, f"c{changer}-{turn if turn % 3 else 0}")

    with trio.fail_after(60):
        async with server.open(), connect(server) as new, connect(server, revision="2025-11-25") as old:
            async with trio.open_nursery() as nursery:
                for changer in range(CHANGERS):
                    nursery.start_soon(trio.to_thread.run_sync, keep_changing, changer)
                try:
                    for _ in range(ROUNDS):
                        await read(new)
                        await read(old)
                        assert (await old.read_resource("fixed3://x")).contents[0].uri == "fixed3://x"
                finally:
                    finished.set()
            for listing in (old.tools, old.prompts, old.resources, old.resource_templates):
                assert len(await listing().all()) == FIXED


async def test_lists_are_complete_while_tasks_change_them() -> None:
    server = Server(settings=ServerSettings(page_size=5))
    fill(server)
    with trio.fail_after(60):
        async with server.open(), connect(server) as new, connect(server, revision="2025-11-25") as old:

            async def keep_changing(changer: int) -> None:
                while True:
                    change(server, f"c{changer}")
                    await trio.sleep(0.002)

            async with trio.open_nursery() as nursery:
                for changer in range(CHANGERS):
                    nursery.start_soon(keep_changing, changer)
                await read(new)
                await read(old)
                nursery.cancel_scope.cancel()


async def test_name_freed_by_a_thread_wakes_the_waiting_task() -> None:
    """A mount waits in the event loop for names that are taken."""
    server = Server()
    server.add_tool(nothing, name="taken")
    woken = trio.Event()

    async def wait() -> None:
        await server.catalog.tools.registry.wait_freed()
        woken.set()

    with trio.fail_after(60):
        async with server.open(), trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            assert await trio.to_thread.run_sync(server.remove_tool, "taken")
            await woken.wait()


class Restless:
    """A plugin whose tool adds tools until adding is refused."""

    @tool
    def restless(self, ctx: Context) -> str:
        for number in itertools.count():
            try:
                ctx.server.add_tool(nothing, name=f"new-{number}")
            except ValueError:
                return "refused"
        raise AssertionError


@pytest.mark.usefixtures("hasty")
async def test_thread_of_a_disabled_plugin_leaves_no_tool() -> None:
    server = Server(plugins=[Restless()])
    with trio.fail_after(60):
        async with server.open(), connect(server) as client:
            for _ in range(8):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(client.call_tool, "restless")
                    while not server.status.threads.busy:
                        await trio.lowlevel.checkpoint()
                    await trio.sleep(0.005)
                    await server.disable_plugin("Restless")
                assert not await client.tools().all()
                await server.enable_plugin("Restless")
