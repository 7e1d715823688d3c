"""A server with a tool, a resource, a template with completion and a prompt."""

from __future__ import annotations

from typing import Literal, assert_type

from mcptrio import Blob, Server, ToolError, completion, connect, prompt, resource, tool
from mcptrio.types import CallToolResult, GetPromptResult, ReadResourceResult

__all__ = ["main"]


@tool(read_only=True)
async def area(width: float, length: float = 1.0, unit: Literal["m", "ft"] = "m") -> float:
    """Compute the area of a bed."""
    if width <= 0:
        raise ToolError("expected a positive width")
    return width * length if unit == "m" else width * length * 0.0929


@resource("garden://map", mime_type="image/png")
async def draw() -> Blob:
    """Draw the garden."""
    return Blob(b"\x89PNG", mime_type="image/png")


@resource("garden://beds/{bed}")
async def describe(bed: str) -> str:
    """Describe one bed."""
    return f"the {bed} bed"


@completion("resource", "garden://beds/{bed}", "bed")
async def beds(value: str) -> list[str]:
    return [bed for bed in ("north", "south") if bed.startswith(value)]


@prompt
def plan(season: str) -> str:
    """Plan a season."""
    return f"Plan the {season}."


async def main() -> None:
    server = Server("garden", version="1.0")
    server.add_tool(area)
    server.add_resource(draw, "garden://map")
    server.add_resource(describe, "garden://beds/{bed}")
    server.add_prompt(plan)
    async with server.open(), connect(server) as client:
        result = await client.call_tool("area", {"width": 2, "length": 3})
        assert_type(result, CallToolResult)
        assert_type(result.text, str)
        assert result.text == "6.0"
        read = await client.read_resource("garden://beds/north")
        assert_type(read, ReadResourceResult)
        assert read.text == "the north bed"
        got = await client.get_prompt("plan", {"season": "spring"})
        assert_type(got, GetPromptResult)
        assert got.text == "Plan the spring."
    # A decorated function can still be called.
    assert_type(await area(2, 3), float)
    assert_type(await beds("n"), list[str])
