"""The same tools on FastMCP: ``python echo_fastmcp.py stdio``, or ``http PORT``.

Over stdio it has only the echo tool, like the other servers. The variable ``BENCHMARK_TOOLS`` is the number of further
tools.
"""

from __future__ import annotations

import os
import sys

from fastmcp import Context, FastMCP

__all__ = ["burst", "echo", "server"]

server = FastMCP("echo")


@server.tool(output_schema=None)
async def echo(text: str) -> str:
    """Return the text."""
    return text


async def burst(count: int, ctx: Context) -> str:
    """Send this number of progress notifications, then answer."""
    for number in range(1, count + 1):
        await ctx.report_progress(number)
    return "done"


if sys.argv[1] == "stdio":
    server.run("stdio", show_banner=False, log_level="WARNING")
else:
    server.tool(output_schema=None)(burst)
    for number in range(int(os.environ.get("BENCHMARK_TOOLS", "0"))):
        server.tool(name=f"other_{number}", output_schema=None)(echo)
    server.run("http", show_banner=False, port=int(sys.argv[2]), log_level="WARNING")
