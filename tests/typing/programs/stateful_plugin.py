"""A plugin whose tools share a state, as an object."""

from __future__ import annotations

from mcptrio import Context, ResourceNotFound, Server, completion, connect, resource, tool

__all__ = ["Notes", "main"]


class Notes:
    """Notes in memory."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    @tool(read_only=False, destructive=False)
    async def write(self, ctx: Context, name: str, text: str) -> int:
        """Write a note."""
        self._texts[name] = text
        ctx.notify_resource_updated(f"notes:///{name}")
        return len(self._texts)

    @resource("notes:///{name}")
    async def read(self, name: str) -> str:
        """Return one note."""
        if name not in self._texts:
            raise ResourceNotFound(f"notes:///{name}")
        return self._texts[name]

    @completion("resource", "notes:///{name}", "name")
    async def names(self) -> list[str]:
        return sorted(self._texts)


async def main() -> None:
    server = Server(plugins=[Notes()])
    async with server.open(), connect(server) as client:
        await client.call_tool("write", {"name": "anna", "text": "sow peas"})
        read = await client.read_resource("notes:///anna")
        assert read.text == "sow peas"
        try:
            await client.read_resource("notes:///ben")
            uri = None
        except ResourceNotFound as missing:
            uri = missing.uri
        assert uri == "notes:///ben"
