"""Another server as a plugin."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import assert_type

from mcptrio import Command, Mount, Server, connect
from mcptrio.serving import MountOptions, MountStatus, ToolPolicy

__all__ = ["main"]


PROGRAM = Path(__file__).with_name("plain_server.py")


async def main() -> None:
    garden = Command(args=(sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", str(PROGRAM)))
    mount = Mount(garden, name="garden", options=MountOptions(tools=ToolPolicy(exclude=("draw*",))))
    server = Server(plugins=[mount])
    async with server.open(), connect(server) as client:
        assert_type(mount.status, MountStatus)
        assert [tool.name for tool in await client.tools().all()] == ["garden_area"]
        result = await client.call_tool("garden_area", {"width": 2, "length": 3})
        assert result.text == "6.0"
