"""A client that starts two servers, follows the progress of a call, cancels it, and answers questions of a server.

Run it: python examples/client.py

The servers are two of the examples in this folder, each in its own process.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import trio

import mcptrio
from mcptrio.client import Form, Handlers
from mcptrio.types import TextContent

__all__ = ["main"]

HERE = Path(__file__).resolve().parent


def server(example: str) -> mcptrio.Command:
    """One of the other examples, over its standard input and output."""
    plugin = str(HERE / f"{example}.py")
    return mcptrio.Command(args=(sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", plugin))


async def fill_in(form: Form) -> dict[str, Any]:
    """Answer a form; fields with a default are filled in."""
    print(f"{form.server} asks: {form.message}")
    return {"guests": 4} if form.fields[0].name == "guests" else {"value": "Ada"}


async def main() -> None:
    """Use two servers at the same time. When the block ends, both processes have ended."""
    async with (
        mcptrio.connect(server("progress")) as slow,
        mcptrio.connect(server("elicit"), handlers=Handlers(elicit=fill_in)) as polite,
    ):
        print(f"speaking {slow.revision}; tools:", *[tool.name async for tool in slow.tools()])

        async with slow.start_tool("count", {"to": 1000}) as call:
            async for progress in call:
                print(f"{progress.progress:g} of {progress.total:g}")
                if progress.progress >= 3:
                    break
        print("left early, and cancelled the call")

        for tool in await polite.tools().all():
            result = await polite.call_tool(tool.name)
            print(*[block.text for block in result.content if isinstance(block, TextContent)])


if __name__ == "__main__":
    trio.run(main)
