"""Tests of a plugin with the testing kit."""

from __future__ import annotations

from mcptrio import Client, Context, tool
from mcptrio.testing import Case, Script, ServerSpec, open_served

__all__ = ["main", "test_order"]


class Bakery:
    @tool
    async def order(self, ctx: Context) -> str:
        """Order bread."""
        flour = await ctx.elicit("Which bread?", str)
        return f"bread of {flour.content}" if flour.content is not None else "nothing ordered"


async def test_order(mcp_client: Client, mcp_script: Script) -> None:
    mcp_script.elicit({"value": "rye"}).decline()
    result = await mcp_client.call_tool("order")
    assert result.text == "bread of rye"
    result = await mcp_client.call_tool("order")
    assert result.text == "nothing ordered"


async def main() -> None:
    script = Script()
    spec = ServerSpec(plugins=[Bakery()])
    async with (
        open_served(spec, Case(transport="memory", revision="2025-11-25")) as served,
        served.connect(handlers=script.handlers()) as client,
    ):
        await test_order(client, script)
    script.check()
