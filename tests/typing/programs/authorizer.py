"""An authorizer that shows some tools to some principals."""

from __future__ import annotations

from mcptrio import PluginSetup, Server, connect, hookimpl
from mcptrio.abc import Principal
from mcptrio.serving import Component

__all__ = ["Doors", "main"]


class Doors:
    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        server.add_authorizer(self.may)

    def may(self, component: Component, principal: Principal | None) -> bool:
        if component.kind != "tool":
            return True
        return component.name == "knock" or (principal is not None and "admin" in principal.scopes)


async def knock() -> str:
    return "come in"


async def main() -> None:
    server = Server(plugins=[Doors()])
    server.add_tool(knock)
    server.add_tool(knock, name="unlock")
    async with server.open(), connect(server) as client:
        assert [tool.name for tool in (await client.tools().all())] == ["knock"]
