"""The size of a plugin's tools in a model's context.

The tests of the shipped plugins call it, each with the number that its definitions may have.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import orjson
import trio

from mcptrio import Server, connect

__all__ = ["definition_tokens"]


async def definition_tokens(plugin: ModuleType | type, **config: Any) -> int:
    """Return the tokens of all names, descriptions and input schemas: their bytes divided by four."""
    server = Server(plugins=[plugin], config={plugin.__name__: config})
    with trio.fail_after(60):
        async with connect(server) as client:
            tools = await client.tools().all()
    assert tools
    parts = [part for tool in tools for part in (tool.name.encode(), (tool.description or "").encode())]
    return sum(map(len, [*parts, *(orjson.dumps(tool.input_schema) for tool in tools)])) // 4
