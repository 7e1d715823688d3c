"""A server whose tools are tasks of FastMCP, over stdio, with its broker in memory.

A test starts it as a process with the packages of tests/coming_from/fastmcp.txt. It uses only the public API. A task
of FastMCP cannot wait for an answer: the tool returns its question, and runs again with the answer.

Source: fastmcp-tasks 4.1.4.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension

__all__: list[str] = []

TASK = TaskConfig(mode="required", poll_interval=timedelta(seconds=0.2))

server = FastMCP("site")
server.add_extension(TasksExtension(url="memory://"))


@server.tool(task=TASK)
async def dig(seconds: float) -> str:
    """Dig."""
    await asyncio.sleep(seconds)
    return "dug"


@server.tool(task=TASK)
async def ask(ctx: Context) -> Any:
    """Ask for a name."""
    if ctx.input_responses is None:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        params = types.ElicitRequestFormParams(message="Who?", requested_schema=schema)
        return types.InputRequiredResult(input_requests={"who": types.ElicitRequest(params=params)})
    answer = ctx.input_responses["who"]
    return f"Hello, {answer.content['name']}"


@server.tool(task=TASK)
async def break_off() -> str:
    """Fail."""
    raise ToolError("no site")


server.run(transport="stdio", show_banner=False)
