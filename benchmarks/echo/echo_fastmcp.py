"""The same tools on FastMCP: ``python echo_fastmcp.py stdio``, or ``http PORT``.

Over stdio only the echo, as for the others. ``BENCHMARK_TOOLS`` in the environment is how many more there are.
"""

from __future__ import annotations

import os
import sys

from fastmcp import Context, FastMCP

__all__ = ["burst", "echo", "server"]

server = FastMCP("echo")


@server.tool(output_schema=None)
async def echo(text: str) -> str:
    """Give the text back."""
    return text


async def burst(count: int, ctx: Context) -> str:
    """Send as many notifications of progress, then answer."""
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
