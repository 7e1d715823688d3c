"""The echo tool on the official Python SDK: ``python echo_mcp.py stdio``, or ``http PORT``."""

from __future__ import annotations

import sys

from mcp.server import MCPServer

__all__ = ["echo", "server"]

server = MCPServer("echo", log_level="WARNING")


@server.tool(structured_output=False)
async def echo(text: str) -> str:
    """Give the text back."""
    return text


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", port=int(sys.argv[2]))
