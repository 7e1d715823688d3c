"""The mounted server of these tests: run as ``mcptrio serve --stdio --plugin mounted_plugin.py``, or imported.

It keeps no state, because servers of several tests may import it.
"""

from __future__ import annotations

import base64
import ctypes
import os
import signal
from pathlib import Path
from typing import Any, Literal

import attrs
import trio

from mcptrio import Context, ElicitURL, MCPError, Sample, ToolError, prompt, resource, tool
from mcptrio.types import CallToolResult, ImageContent, ResourceLink, TextContent, Tool

__all__: list[str] = []


@attrs.frozen
class Pair:
    left: int
    right: str


@tool(title="Two things", read_only=True, meta={"com.example/kind": "pair"})
async def pair(left: int = 1) -> Pair:
    """Give two things."""
    return Pair(left, "right")


@tool
async def media() -> CallToolResult:
    """Every kind of content."""
    return CallToolResult(
        content=(
            TextContent(text="text"),
            ImageContent(data=base64.b64encode(bytes(range(256))).decode(), mime_type="image/png"),
            ResourceLink(uri="bytes://all", name="bytes"),
        ),
        meta={"com.example/seen": True},
    )


@tool(name="odd.name")
async def odd() -> str:
    return "odd"


@tool
async def fail() -> str:
    raise ToolError("no luck")


@tool
async def refuse() -> str:
    raise MCPError("not today", code=-32050, data={"when": [1, 2]})


@tool
async def steps(ctx: Context, count: int) -> str:
    for number in range(1, count + 1):
        await ctx.report_progress(number, count)
    await ctx.warning("all done", logger="steps")
    return "done"


def note_call(log: str) -> int:
    """Returns how many there have been."""
    with Path(log).open("a+") as file:
        file.write("called\n")
        file.seek(0)
        return len(file.readlines())


@tool
async def order(ctx: Context, log: str = "") -> str:
    """Ask for a colour, then for a number."""
    if log:
        note_call(log)
    colour = await ctx.elicit("Which colour?", ["red", "blue"])
    count = await ctx.elicit("How many?", int)
    return f"{colour.content} {count.content}"


@tool
async def everything(ctx: Context) -> str:
    """Ask a page, a model with a tool, and for the roots."""
    page = await ctx.elicit_url("Sign in, please", "https://example.com/in")
    look = Tool(name="look", input_schema={"type": "object"})
    sampled = await ctx.sample("Hello", tools=[look], max_tokens=7, system_prompt="Be brief.")
    roots = await ctx.list_roots()
    texts = [block.text for block in sampled.content if isinstance(block, TextContent)]
    return f"{page.action} {sampled.model} {texts[0]} {roots[0].uri}"


@tool
async def together(ctx: Context) -> str:
    """Ask two things in one round."""
    _, sampled = await ctx.ask_all(ElicitURL("Sign in, please", "https://example.com/in", "one"), Sample("Hello"))
    return f"accept {sampled.model}"


@tool
async def visit(ctx: Context, log: str) -> str:
    if note_call(log) == 1:
        raise ctx.url_required("Sign in first", "https://example.com/first", id="page-1")
    return "visited"


@tool
async def visited(ctx: Context) -> str:
    ctx.elicitation_complete("page-1")
    return "ok"


@tool
async def hang(mark: str) -> str:
    """Wait until cancelled, or until a file next to the mark exists."""
    Path(mark).with_suffix(".began").touch()
    is_there = Path(mark).exists
    try:
        while not is_there():  # noqa: ASYNC110 - another process makes the file
            await trio.sleep(0.01)
    except trio.Cancelled:
        Path(mark).with_suffix(".cancelled").touch()
        raise
    return "went on"


@tool
async def pid() -> int:
    return os.getpid()


@tool
async def die(how: Literal["kill", "segfault", "exit"]) -> str:
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "segfault":
        ctypes.string_at(0)
    os._exit(3)


async def grown() -> str:
    return "grown"


@tool
async def grow(ctx: Context) -> str:
    ctx.server.add_tool(grown, name="grown")
    return "ok"


@tool
async def shrink(ctx: Context) -> str:
    return str(ctx.server.remove_tool("grown"))


@resource("count://up", mime_type="text/plain")
async def count() -> str:
    return "up"


@tool
async def rise(ctx: Context) -> str:
    """Only says that it has."""
    ctx.notify_resource_updated("count://up")
    return "ok"


@resource("bytes://all", mime_type="application/x-all")
async def all_bytes() -> bytes:
    return bytes(range(256))


@resource("note://{name}")
async def note(name: Literal["anna", "bert"]) -> str:
    return f"about {name}"


@resource("asked://colour")
async def asked(ctx: Context) -> str:
    answer = await ctx.elicit("Which colour?", ["red", "blue"])
    return f"it is {answer.content}"


@prompt(title="A greeting")
async def greet(who: Literal["anna", "bert"], how: str = "nicely") -> str:
    """Greet somebody."""
    return f"Greet {who} {how}"


@tool
async def environment(names: list[str]) -> dict[str, Any]:
    return {name: os.environ.get(name) for name in names}
