"""Tools that change the server's lists, so that clients are notified.

Each uses its own name and restores the lists, so that concurrent calls do not interfere.
"""

from __future__ import annotations

import secrets

from mcptrio import Context, tool

__all__ = ["test_trigger_prompt_change", "test_trigger_tool_change"]


@tool(read_only=True)
async def test_trigger_tool_change(ctx: Context) -> str:
    """Add a tool and remove it again; subscribers are notified of the changed list."""
    name = f"passing_tool_{secrets.token_hex(4)}"
    ctx.server.add_tool(_passing_tool, name=name)
    ctx.server.remove_tool(name)
    return "The list of tools has changed twice"


@tool(read_only=True)
async def test_trigger_prompt_change(ctx: Context) -> str:
    """Add a prompt and remove it again; subscribers are notified of the changed list."""
    name = f"passing_prompt_{secrets.token_hex(4)}"
    ctx.server.add_prompt(_passing_prompt, name=name)
    ctx.server.remove_prompt(name)
    return "The list of prompts has changed twice"


async def _passing_tool() -> str:
    """Be there for a moment."""
    return "You were quick."


async def _passing_prompt() -> str:
    """Be there for a moment."""
    return "You were quick."
