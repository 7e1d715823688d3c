"""A plugin whose calls the tests of recordings record."""

from __future__ import annotations

from mcptrio import Context, hookimpl, resource, tool
from mcptrio.plugins.setup import PluginSetup

__all__ = ["beds", "enter", "setup", "sow", "water"]


@hookimpl
def setup(server: PluginSetup) -> None:
    server.add_redaction(lambda text: text.replace("under the third stone", "[hidden]"))


@tool
async def water(bed: str, litres: int = 2) -> str:
    """Water a bed."""
    return f"{bed}: {litres} litres"


@tool
async def sow(ctx: Context, bed: str) -> str:
    """Sow a bed."""
    await ctx.report_progress(1, 2, "the bed is ready")
    seed = await ctx.ask(f"What goes into {bed}?", str)
    return f"{seed} in {bed}"


@tool
async def enter(password: str) -> str:
    """Enter the garden."""
    return f"welcome; Authorization: Bearer {password}-and-more; the key is under the third stone"


@resource("garden://beds")
async def beds() -> str:
    """The beds."""
    return "east, west"
