"""A plugin with state, settings, a lifespan, progress, a resource template with completion, and a test, in 60 lines.

Run it: mcptrio serve --stdio --plugin examples/garden.py
Test it: pytest examples/garden.py
"""

from collections.abc import AsyncGenerator
from pathlib import Path

import trio
from attrs import frozen

from mcptrio import Client, Context, ResourceNotFound, completion, lifespan, resource, tool


@frozen(kw_only=True)
class Config:
    file: Path | None = None  # [plugins.garden] file = "garden.txt" keeps the beds


class Garden:
    def __init__(self, config: Config) -> None:
        self.file = trio.Path(config.file) if config.file is not None else None
        self.beds: dict[str, int] = {}

    @lifespan
    async def load_and_save(self) -> AsyncGenerator[None]:
        if self.file is not None and await self.file.exists():
            self.beds = dict.fromkeys((await self.file.read_text()).split(), 0)
        yield
        if self.file is not None:
            await self.file.write_text("\n".join(self.beds))

    @tool
    async def water(self, ctx: Context, bed: str, liters: int = 1) -> dict[str, object]:
        """Water a bed, one liter at a time."""
        async for _ in ctx.track(range(liters)):
            self.beds[bed] = self.beds.get(bed, 0) + 1
        return {"bed": bed, "liters": self.beds[bed]}

    @resource("garden://beds/{bed}")
    async def bed(self, bed: str) -> str:
        """The water that a bed has received."""
        if bed not in self.beds:
            raise ResourceNotFound(f"garden://beds/{bed}")
        return f"{bed}: {self.beds[bed]} l"

    @completion("resource", "garden://beds/{bed}", "bed")
    async def names(self) -> list[str]:
        return list(self.beds)


mcp_plugins = [Garden]


async def test_watered_bed_is_read_and_completed(mcp_client: Client) -> None:
    watered = await mcp_client.call_tool("water", {"bed": "mint", "liters": 2})
    assert watered.structured_content == {"bed": "mint", "liters": 2}
    assert (await mcp_client.read_resource("garden://beds/mint")).text == "mint: 2 l"
    assert "mint" in (await mcp_client.complete("resource", "garden://beds/{bed}", "bed", "m")).values
