"""The echo tool on FastMCP: ``python echo_fastmcp.py stdio``, or ``http PORT``."""

from __future__ import annotations

import sys

from fastmcp import FastMCP

__all__ = ["echo", "server"]

server = FastMCP("echo")


@server.tool(output_schema=None)
async def echo(text: str) -> str:
    """Give the text back."""
    return text


if sys.argv[1] == "stdio":
    server.run("stdio", show_banner=False, log_level="WARNING")
else:
    server.run("http", show_banner=False, port=int(sys.argv[2]), log_level="WARNING")
