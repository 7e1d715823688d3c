"""Tasks over a mount: the mount follows those of its server, and a slow call of any server becomes a task of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from mcptrio import Client, Context, MCPError, Mount, Server, connect, tool
from mcptrio.client import Form, Handlers, Progress
from mcptrio.errors import TaskCancelled
from mcptrio.serving import MountOptions, ServerSettings, Timeouts
from tests.mounting.mounted import WAITING, command, mounted, text

__all__: list[str] = []

TASKS = "io.modelcontextprotocol/tasks"
NEW, OLD = "2026-07-28", "2025-11-25"


class Site:
    """The plugin of the mounted server."""

    def __init__(self) -> None:
        self.go_on = trio.Event()
        self.ended: list[str] = []

    @tool(task="required", poll_interval=1)
    async def dig(self, ctx: Context) -> str:
        """A task of the mounted server."""
        return await self._work(ctx, "stones", "dug")

    @tool
    async def walk(self, ctx: Context) -> str:
        """A call of the mounted server."""
        return await self._work(ctx, "steps", "walked")

    @tool(task="required", poll_interval=1)
    async def ask(self, ctx: Context) -> str:
        """Ask twice in a task."""
        return " ".join([await ctx.ask("Who?", str), await ctx.ask("Who?", str)])

    @tool(task="required", poll_interval=1)
    async def break_off(self) -> str:
        """Fail as the protocol does."""
        raise MCPError("no site", data={"site": 3})

    async def _work(self, ctx: Context, what: str, result: str) -> str:
        await ctx.report_progress(1, 4, what)
        try:
            with trio.move_on_after(10) as scope:
                await self.go_on.wait()
            if scope.cancelled_caught:
                await ctx.report_progress(2, 4, what)
            await self.go_on.wait()
        except trio.Cancelled:
            self.ended.append(ctx.cancel_reason or "")
            raise
        return result


@asynccontextmanager
async def at(
    site: Site, *, revision: str | None = None, task: Any = "optional", upstream: str | None = None
) -> AsyncIterator[Client]:
    """Yield a client of a server that mounts another one in this process."""
    names = iter(["Ada", "Eve"])

    async def fill_in(form: Form) -> Any:
        return {"value": next(names)}

    inner = Server(plugins=[site])
    options = MountOptions(task=task, revision=upstream)
    async with inner.open():
        mount = Mount(inner, name="up", options=options)
        outer = Server(plugins=[mount], settings=ServerSettings(timeouts=Timeouts(task_after=5)))
        async with outer.open(), connect(outer, revision=revision, handlers=Handlers(elicit=fill_in)) as client:
            yield client


@pytest.mark.parametrize("upstream", [OLD, NEW])
@pytest.mark.parametrize("revision", [OLD, NEW])
@pytest.mark.parametrize("seconds", [2, 40])
async def test_task_of_a_mounted_server_is_followed(
    upstream: str, revision: str, seconds: float, autojump_clock: MockClock
) -> None:
    """In the newest revision, the call is a task of the outer server at once. In the other, no client asks for one."""
    site, seen, created = Site(), list[Progress](), list[str]()
    async with at(site, revision=revision, upstream=upstream) as client, trio.open_nursery() as nursery:

        async def dig() -> None:
            result = await client.call_tool(
                "up_dig", progress=seen.append, created=lambda task: created.append(task.id)
            )
            assert result.text == "dug"

        nursery.start_soon(dig)
        await trio.sleep(seconds)
        site.go_on.set()

    assert [each.message for each in seen] == ["stones (1 of 4)", "stones (2 of 4)"][: 1 if seconds < 10 else 2]
    assert len(created) == (revision == NEW)


@pytest.mark.parametrize("upstream", [OLD, NEW])
async def test_slow_call_of_any_mounted_server_becomes_a_task(upstream: str, autojump_clock: MockClock) -> None:
    site = Site()
    async with at(site, upstream=upstream) as client:
        async with client.start_tool("up_walk") as call:
            id = await call.detach()
        assert id is not None
        state = await client.task(id).state()
        site.go_on.set()

        assert state.status == "working"
        assert (await client.task(id).result()).text == "walked"


@pytest.mark.parametrize("upstream", [OLD, NEW])
async def test_status_of_the_inner_task_is_that_of_the_outer_one(upstream: str, autojump_clock: MockClock) -> None:
    site = Site()
    async with at(site, upstream=upstream) as client, client.start_tool("up_dig") as call:
        id = await call.detach()
        assert id is not None
        await trio.sleep(30)
        state = await client.task(id).state()
        site.go_on.set()

        assert (state.status, state.message) == ("working", "stones (2 of 4)")
        assert (await client.task(id).result()).text == "dug"


@pytest.mark.parametrize("upstream", [OLD, NEW])
@pytest.mark.parametrize("revision", [OLD, NEW])
async def test_questions_of_the_inner_task_reach_the_client(
    upstream: str, revision: str, autojump_clock: MockClock
) -> None:
    async with at(Site(), revision=revision, upstream=upstream) as client:
        assert await text(client, "up_ask") == "Ada Eve"


@pytest.mark.parametrize("upstream", [OLD, NEW])
async def test_failure_of_the_inner_task_is_passed_on(upstream: str, autojump_clock: MockClock) -> None:
    async with at(Site(), upstream=upstream) as client:
        with pytest.raises(MCPError, match="no site") as caught:
            await client.call_tool("up_break_off")

    assert caught.value.data == {"site": 3}


@pytest.mark.parametrize("upstream", [OLD, NEW])
@pytest.mark.parametrize("name", ["up_dig", "up_walk"])
@pytest.mark.parametrize("seconds", [2, 30])
async def test_cancellation_of_the_outer_call_ends_the_inner_one(
    upstream: str, name: str, seconds: float, autojump_clock: MockClock
) -> None:
    site = Site()
    async with at(site, upstream=upstream) as client:
        with trio.move_on_after(seconds):
            await client.call_tool(name)
        # Until the cancellation has reached the inner server.
        await trio.sleep(20)

        assert len(site.ended) == 1


@pytest.mark.parametrize("upstream", [OLD, NEW])
async def test_cancelled_inner_task_ends_the_outer_one(upstream: str, autojump_clock: MockClock) -> None:
    site = Site()
    async with at(site, upstream=upstream) as client, client.start_tool("up_dig") as call:
        id = await call.detach()
        assert id is not None
        await client.task(id).cancel()
        with pytest.raises(TaskCancelled):
            await client.task(id).result()
        await trio.sleep(20)

        assert site.ended == ["the client has cancelled the task"]


async def test_mount_without_tasks_offers_calls(autojump_clock: MockClock) -> None:
    site, created = Site(), list[Any]()
    async with at(site, task="never") as client, trio.open_nursery() as nursery:
        assert TASKS not in (client.capabilities.extensions or {})

        async def dig() -> None:
            assert (await client.call_tool("up_dig", created=created.append)).text == "dug"

        nursery.start_soon(dig)
        await trio.sleep(30)
        site.go_on.set()
    assert created == []


async def test_tasks_of_a_mounted_process_are_followed(tmp_path: Path) -> None:
    plugin = tmp_path / "slow.py"
    plugin.write_text(
        "import trio\nfrom mcptrio import tool\n\n"
        "@tool(task='required', poll_interval=0.1)\nasync def dig() -> str:\n"
        "    'Dig.'\n    await trio.sleep(0.3)\n    return 'dug'\n"
    )
    async with mounted(command(plugin), options=WAITING) as (client, _, _):
        assert await text(client, "up_dig") == "dug"
