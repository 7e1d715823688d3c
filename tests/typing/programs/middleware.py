"""Middleware around every request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcptrio import MCPError, PluginSetup, RequestView, Server, connect, hookimpl

__all__ = ["Office", "main"]


class Office:
    """Refuses some calls, and counts the others."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def around(self, request: RequestView, proceed: Callable[[], Awaitable[Any]]) -> Any:
        if request.method == "tools/call" and request.name == "close":
            raise MCPError("the office is open until six")
        result = await proceed()
        self.seen.append(request.method)
        return result

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        server.add_middleware(self.around, order=10)


async def ring() -> str:
    return "who is it?"


async def main() -> None:
    office = Office()
    server = Server(plugins=[office])
    server.add_tool(ring)
    server.add_tool(ring, name="close")
    async with server.open(), connect(server) as client:
        await client.call_tool("ring")
        try:
            await client.call_tool("close")
            refusal = ""
        except MCPError as error:
            refusal = str(error)
        assert "until six" in refusal
    assert office.seen.count("tools/call") == 1
