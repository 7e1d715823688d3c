"""A tool that keeps its request in flight: ``mcptrio serve --plugin hold_mcptrio.py``."""

from __future__ import annotations

import trio

from mcptrio import Context, tool

__all__ = ["hold"]


@tool(timeout=3600)
async def hold(ctx: Context) -> str:
    """Wait until the client disconnects."""
    await ctx.report_progress(1, 2)
    await trio.sleep_forever()
    return ""
