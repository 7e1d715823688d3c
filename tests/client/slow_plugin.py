"""A plugin whose tools take time, and callbacks for their calls.

Used by the tests of calls and of their deadlines.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from mcptrio import Context, tool
from mcptrio.client import Progress
from mcptrio.protocol.messages import Request
from mcptrio.types import CallToolResult, TextContent
from tests.client.scripted import text

__all__ = ["Slow", "answer_with", "never_called", "text_of"]


def text_of(result: CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


class Slow:
    """A plugin whose tools take time."""

    def __init__(self) -> None:
        self.started = trio.Event()
        self.ended: list[str] = []

    @tool
    async def wait(self) -> str:
        """Wait forever."""
        self.started.set()
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            self.ended.append("cancelled")
            raise

    @tool
    async def count(self, ctx: Context, to: int) -> str:
        """Count, and report progress."""
        for number in range(1, to + 1):
            await ctx.report_progress(number, to, f"number {number}")
            await trio.sleep(1)
        return f"counted to {to}"


async def answer_with(
    next_request: Callable[[str], Awaitable[Request]], answer: Callable[[Request, Any], Awaitable[None]], words: str
) -> None:
    await answer(await next_request("tools/call"), text(words))


def never_called(progress: Progress) -> None:
    raise AssertionError(progress)
