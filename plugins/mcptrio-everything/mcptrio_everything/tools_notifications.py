"""Tools that send notifications while they run: progress and log messages; and one that ends its stream early."""

from __future__ import annotations

import trio

from mcptrio import Context, tool

__all__ = ["test_logging_tool", "test_reconnection", "test_tool_with_logging", "test_tool_with_progress"]

_STEP_SECONDS = 0.05
"""Seconds between two notifications, as the conformance suite requires."""


@tool(read_only=True)
async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress three times: 0, 50 and 100 of 100."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, total=100, message=f"Completed step {done} of 100")
        await trio.sleep(_STEP_SECONDS)
    return "Tool with progress executed successfully"


@tool(read_only=True)
async def test_tool_with_logging(ctx: Context) -> str:
    """Log three messages at level info while running."""
    await ctx.info("Tool execution started")
    await trio.sleep(_STEP_SECONDS)
    await ctx.info("Tool processing data")
    await trio.sleep(_STEP_SECONDS)
    await ctx.info("Tool execution completed")
    return "Tool with logging executed successfully"


@tool(read_only=True)
async def test_logging_tool(ctx: Context) -> str:
    """Log once; a client of 2026-07-28 sees it only if its request names a log level."""
    await ctx.info("test_logging_tool ran")
    return "Logged once"


@tool(read_only=True)
async def test_reconnection(ctx: Context) -> str:
    """End the HTTP stream early; the result waits for the client to resume it (2025-11-25)."""
    ctx.release_stream(retry_ms=500)
    await trio.sleep(0.1)
    return "Reconnection test completed successfully"
