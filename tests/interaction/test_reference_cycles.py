"""A request leaves no objects that only the garbage collector could free.

Requests with reference cycles would stay in memory until it runs, and it would run very often.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from trio.testing import wait_all_tasks_blocked

from mcptrio import Context, prompt, resource, tool
from tests.interaction.applies import only
from tests.interaction.serving import Serve

__all__: list[str] = []

ELICIT = "elicitation/create"
MANY = 20
NEWEST = ("2025-11-25", "2026-07-28")


@tool
async def echo(text: str) -> str:
    """Text."""
    return text


@tool
async def report(ctx: Context) -> str:
    """Progress."""
    await ctx.report_progress(1, 2)
    return "reported"


@tool
async def ask(ctx: Context) -> str:
    """A question."""
    return str(await ctx.ask("Which?", str))


@resource("memo://today")
async def memo() -> str:
    """A resource."""
    return "nothing"


@prompt
async def plan() -> str:
    """A prompt."""
    return "what now?"


@only(revisions=NEWEST, because="the other revisions have the same references")
async def test_requests_leave_no_garbage(serve: Serve) -> None:
    peer = await serve(echo, report, ask, memo, plan, capabilities={"elicitation": {}}, answers={ELICIT: _answer})
    ways: dict[str, Callable[[], Awaitable[object]]] = {
        "call": lambda: peer.text("echo", {"text": "hello"}),
        "progress": lambda: peer.text("report", meta={"progressToken": "a"}),
        "question": lambda: peer.text("ask"),
        "list": lambda: peer.request("tools/list"),
        "read": lambda: peer.request("resources/read", {"uri": "memo://today"}),
        "prompt": lambda: peer.request("prompts/get", {"name": "plan"}),
        "refusal": lambda: peer.error("no/such/method"),
    }

    assert {name: found for name, way in ways.items() if (found := await garbage_of(way))} == {}


def _answer(params: dict[str, Any]) -> dict[str, Any]:
    return {"action": "accept", "content": {"value": "blue"}}


async def garbage_of(request: Callable[[], Awaitable[object]]) -> Counter[str]:
    """Count the objects of our types that are left, without those that exist once for several requests."""
    # The first requests are parsed, compiled and cached.
    for _ in range(3):
        await request()
    await wait_all_tasks_blocked()
    with collecting() as found:
        for _ in range(MANY):
            await request()
        await wait_all_tasks_blocked()
    return Counter({name: count for name, count in found.items() if count >= MANY})


@contextmanager
def collecting() -> Iterator[Counter[str]]:
    found: Counter[str] = Counter()
    gc.disable()
    # Exclude earlier objects, of which there are many.
    gc.freeze()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found.update(
            f"{type(each).__module__}.{type(each).__qualname__}"
            for each in gc.garbage
            if type(each).__module__.startswith("mcptrio")
        )
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()
