"""A host with several servers, and a user who approves."""

from __future__ import annotations

from typing import assert_type

from mcptrio import Host, Server
from mcptrio.errors import NotApproved
from mcptrio.host import ApprovalRequest, Decision, HostTool

__all__ = ["approve", "main"]


async def area(width: float, length: float) -> float:
    return width * length


async def approve(request: ApprovalRequest) -> bool | Decision:
    if request.server == "allotment":
        return Decision(allowed=False, reason="not this one")
    return True


def make() -> Server:
    server = Server()
    server.add_tool(area)
    return server


async def main() -> None:
    garden, allotment = make(), make()
    async with garden.open(), allotment.open():
        async with Host({"garden": garden, "allotment": allotment}, approve=approve) as host:
            tools = await host.tools().all()
            for tool in tools.items:
                assert_type(tool, HostTool)
            assert sorted(tool.name for tool in tools.items) == ["allotment_area", "garden_area"]
            result = await host.call_tool("garden_area", {"width": 2, "length": 3})
            assert result.text == "6.0"
            try:
                await host.call_tool("allotment_area", {"width": 2, "length": 3})
                refusal = ""
            except NotApproved as error:
                refusal = str(error)
            assert "not this one" in refusal
