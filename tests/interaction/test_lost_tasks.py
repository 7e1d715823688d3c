"""Tasks whose clients never get their id: the server cancels them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from mcptrio import Context, RequestView, hookimpl, tool
from mcptrio.plugins.setup import PluginSetup
from mcptrio.serving import Timeouts
from tests.interaction.applies import MODERN, only
from tests.interaction.serving import Serve
from tests.interaction.test_tasks import CAPABLE, NAME, ONLY, ended

__all__: list[str] = []


class Counter:
    """A plugin whose tools ask, and whose middleware keeps the results of calls back."""

    def __init__(self) -> None:
        self.reached = trio.Event()
        self.keeps_back = True
        self.asking = trio.Event()
        self.ended = trio.Event()

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        server.add_middleware(self.keep_back)

    async def keep_back(self, request: RequestView, proceed: Callable[[], Awaitable[Any]]) -> Any:
        result = await proceed()
        if request.method == "tools/call" and self.keeps_back:
            self.reached.set()
            await trio.sleep_forever()
        return result

    @tool(task="required", concurrency=1)
    async def serve_next(self, ctx: Context) -> str:
        """Serve one client after the other."""
        return await self._ask(ctx)

    @tool(task="optional", concurrency=1, ttl=3600)
    async def serve_now(self, ctx: Context) -> str:
        """Serve one client after the other, at once if possible."""
        await ctx.task.begin()
        return await self._ask(ctx)

    async def _ask(self, ctx: Context) -> str:
        if not self.keeps_back:
            return "served"
        self.asking.set()
        try:
            await ctx.ask("Who?", NAME)
            raise AssertionError("nobody answers")
        finally:
            self.ended.set()


@only(revisions=MODERN, because=ONLY)
@pytest.mark.parametrize("name", ["serve_next", "serve_now"])
async def test_task_is_cancelled_if_its_client_leaves_before_it_gets_the_id(serve: Serve, name: str) -> None:
    counter = Counter()
    # Without the cancellation, the question would hold the only place for an hour.
    times = Timeouts(input=3600, request=7200)
    peer = await serve(plugins=[counter], capabilities=CAPABLE, timeouts=times)

    call = await peer.start("tools/call", {"name": name, "arguments": {}})
    with peer.deadline():
        await counter.reached.wait()
        await counter.asking.wait()
    await call.cancel()
    with peer.deadline():
        await counter.ended.wait()
    counter.keeps_back = False
    created = await peer.call(name)
    state = await ended(peer, created["taskId"])

    assert state["status"] == "completed"
    assert state["result"]["content"][0]["text"] == "served"


@only(revisions=MODERN, because=ONLY)
async def test_task_of_a_call_that_ends_with_an_error_is_cancelled(serve: Serve) -> None:
    counter = Counter()
    peer = await serve(plugins=[counter], capabilities=CAPABLE, timeouts=Timeouts(request=0.5, idle=0.5))

    error = await peer.error("tools/call", {"name": "serve_now", "arguments": {}})

    assert "timed out" in error["message"]
    with peer.deadline():
        await counter.ended.wait()
