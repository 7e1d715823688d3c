"""Tools that change the server's lists, so that clients are notified.

Each call uses a unique name and restores the list, so that concurrent calls do not interfere.
"""

from __future__ import annotations

import secrets

from mcptrio import Context, tool

__all__ = ["test_trigger_prompt_change", "test_trigger_tool_change"]


@tool(read_only=True)
async def test_trigger_tool_change(ctx: Context) -> str:
    """Add a tool and remove it again; subscribers are notified of the changed list."""
    name = f"temporary_tool_{secrets.token_hex(4)}"
    ctx.server.add_tool(_temporary_tool, name=name)
    ctx.server.remove_tool(name)
    return "The list of tools has changed twice"


@tool(read_only=True)
async def test_trigger_prompt_change(ctx: Context) -> str:
    """Add a prompt and remove it again; subscribers are notified of the changed list."""
    name = f"temporary_prompt_{secrets.token_hex(4)}"
    ctx.server.add_prompt(_temporary_prompt, name=name)
    ctx.server.remove_prompt(name)
    return "The list of prompts has changed twice"


async def _temporary_tool() -> str:
    """Exist for a moment."""
    return "You were quick."


async def _temporary_prompt() -> str:
    """Exist for a moment."""
    return "You were quick."
