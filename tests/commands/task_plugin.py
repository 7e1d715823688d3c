"""A plugin for the tests of tasks at the command line: tools that run until a test ends them."""

from __future__ import annotations

from pathlib import Path

import trio

from mcptrio import Context, MCPError, tool

__all__ = ["ask", "build", "dig", "fail"]


async def _until(name: str) -> None:
    while not await trio.Path(name).exists():  # noqa: ASYNC110 - another process creates it
        await trio.sleep(0.05)


@tool(task="required", poll_interval=0.1)
async def dig(ctx: Context, until: str) -> str:
    """Dig until a file exists."""
    await ctx.report_progress(1, 4, "stones")
    try:
        await _until(until)
    except trio.Cancelled:
        Path(f"{until}.cancelled").touch()  # noqa: ASYNC240 - a cancelled task cannot await
        raise
    return "dug"


@tool(task="optional", poll_interval=0.1)
async def build() -> str:
    """End at once."""
    return "built"


@tool(task="required", poll_interval=0.1)
async def fail() -> str:
    """Fail as the protocol does."""
    raise MCPError("no site")


@tool(task="required", poll_interval=0.1)
async def ask(ctx: Context) -> str:
    """Ask for a name."""
    return f"Hello, {await ctx.ask('Who is there?', str)}"
