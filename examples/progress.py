"""A tool that takes time: progress, cancellation, child tasks, a deadline.

Run it: mcptrio serve --stdio --plugin examples/progress.py
"""

from __future__ import annotations

import hashlib
import math

import trio

from mcptrio import Context, ToolError, tool

__all__ = ["checksum", "count", "gather"]


@tool(read_only=True, timeout=60)
async def count(ctx: Context, to: int, pause: float = 0.1) -> int:
    """Count up, with a pause after each step. If it is cancelled, it stops at once."""
    async for _ in ctx.track(range(to)):
        await trio.sleep(pause)
    return to


@tool(read_only=True, timeout=math.inf)
async def gather(ctx: Context, seconds: list[float], timeout: float = 5.0) -> list[str]:
    """Wait for several delays at the same time, and report which of them end before the timeout."""
    outcomes = ["too slow"] * len(seconds)
    done = 0

    async def wait(position: int) -> None:
        nonlocal done
        await trio.sleep(seconds[position])
        outcomes[position] = "done"
        done += 1
        await ctx.report_progress(done, len(seconds), f"number {position} is done")

    with trio.move_on_after(timeout):
        async with trio.open_nursery() as nursery:
            for position in range(len(seconds)):
                nursery.start_soon(wait, position)
    return outcomes


# A function without async runs in a thread. Two calls run at a time; further ones wait.
@tool(read_only=True, concurrency=2)
def checksum(text: str, rounds: int = 1) -> str:
    """Hash a text repeatedly."""
    if rounds < 1:
        raise ToolError(f"expected at least 1 round, got {rounds}")
    digest = text.encode()
    for _ in range(rounds):
        trio.from_thread.check_cancelled()
        digest = hashlib.sha256(digest).digest()
    return digest.hex()
