"""The same tools on the official Python SDK: ``python echo_mcp.py stdio``, or ``http PORT``.

Over stdio it has only the echo tool, like the other servers. The variable ``BENCHMARK_TOOLS`` is the number of further
tools.
"""

from __future__ import annotations

import os
import sys

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp_types import SubscriptionsListenRequestParams

__all__ = ["burst", "echo", "memo", "server", "touch"]

_bus = InMemorySubscriptionBus()
server = MCPServer("echo", log_level="WARNING", subscriptions=_bus)


@server.tool(structured_output=False)
async def echo(text: str) -> str:
    """Return the text."""
    return text


async def burst(count: int, ctx: Context) -> str:
    """Send this number of progress notifications, then answer."""
    server.resource("memo://today")(memo)
    for number in range(1, count + 1):
        await ctx.report_progress(number)
    return "done"


async def touch(ctx: Context) -> str:
    """Notify all subscribers that the memo has changed."""
    await ctx.notify_resource_updated("memo://today")
    return "touched"


async def memo() -> str:
    """The watched resource."""
    return "memo"


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    server.tool(structured_output=False)(burst)
    server.tool(structured_output=False)(touch)
    server.resource("memo://today")(memo)
    for number in range(int(os.environ.get("BENCHMARK_TOOLS", "0"))):
        server.tool(name=f"other_{number}", structured_output=False)(echo)
    # The SDK refuses the 1,025th stream, and has no public setting for this limit.
    listen = ListenHandler(_bus, max_subscriptions=20_000)
    server._lowlevel_server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, listen)
    server.run("streamable-http", port=int(sys.argv[2]), max_sessions=None)
