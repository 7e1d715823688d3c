"""The tools that send notifications, for mcptrio: ``mcptrio serve --plugin streams_mcptrio.py``.

``report_progress`` sends 20 a second at most, so the burst is sent as notifications of the plugin's own, which are not
thinned. The messages are the same.
"""

from __future__ import annotations

from mcptrio import Context, resource, tool

__all__ = ["burst", "memo", "touch"]


@tool
async def burst(ctx: Context, count: int) -> str:
    """Send this number of progress notifications, then answer."""
    token = ctx.meta["progressToken"]
    for number in range(1, count + 1):
        await ctx.notify("notifications/progress", {"progressToken": token, "progress": number})
    return "done"


@tool
async def touch(ctx: Context) -> str:
    """Notify all subscribers that the memo has changed."""
    ctx.notify_resource_updated("memo://today")
    return "touched"


@resource("memo://today")
async def memo() -> str:
    """The watched resource."""
    return "memo"
