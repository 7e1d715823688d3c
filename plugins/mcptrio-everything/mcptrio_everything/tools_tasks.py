"""Tools whose calls may become tasks, with results, errors and questions after the response to the call.

Source: MCP extension io.modelcontextprotocol/tasks; the scenarios ``tasks-*`` of the official suite.
"""

from __future__ import annotations

from typing import Any

import trio

from mcptrio import Context, Elicit, MCPError, ToolError, tool

__all__ = [
    "confirm_delete",
    "failing_job",
    "greet",
    "multi_input",
    "protocol_error_job",
    "slow_compute",
    "test_tool_with_task",
]

_CONFIRM: dict[str, Any] = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}
_NAME: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
_POLL_SECONDS = 0.2


@tool(read_only=True)
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


@tool(read_only=True, task="optional", poll_interval=_POLL_SECONDS)
async def slow_compute(ctx: Context, seconds: float, label: str = "") -> str:
    """Wait, then return a text.

    Args:
        seconds: How long to wait.
        label: A part of the text.
    """
    await ctx.task.begin()
    await trio.sleep(seconds)
    return f"computed {label} in {seconds:g} s"


@tool(read_only=True, task="required", poll_interval=_POLL_SECONDS)
async def failing_job() -> str:
    """Fail as a tool does, so that the model reads the reason."""
    await trio.sleep(0.2)
    raise ToolError("the job failed")


@tool(read_only=True, task="required", poll_interval=_POLL_SECONDS)
async def protocol_error_job() -> str:
    """Fail with an error of the protocol."""
    raise MCPError("the job cannot be run")


@tool(destructive=False, task="optional", poll_interval=_POLL_SECONDS)
async def confirm_delete(ctx: Context, filename: str) -> str:
    """Ask before something is deleted. Nothing is.

    Args:
        filename: The name in the question.
    """
    await ctx.task.begin()
    answer = await ctx.ask(f"Delete {filename}?", _CONFIRM)
    return f"{filename} was {'deleted' if answer['confirm'] else 'kept'}"


@tool(read_only=True, task="optional", poll_interval=_POLL_SECONDS)
async def multi_input(ctx: Context) -> str:
    """Ask two questions at once."""
    await ctx.task.begin()
    first, second = await ctx.ask_all(Elicit("Who is first?", _NAME), Elicit("Who is second?", _NAME))
    return f"{first['name']}, then {second['name']}"


@tool(read_only=True, task="optional", poll_interval=_POLL_SECONDS)
async def test_tool_with_task(ctx: Context) -> str:
    """Ask the user's name in the call, then greet in a task."""
    answer = await ctx.ask("What is your name?", _NAME, key="user_name")
    await ctx.task.begin()
    return f"Hello, {answer['name']}!"
