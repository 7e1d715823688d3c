"""A server over HTTP inside a Trio application."""

from __future__ import annotations

from typing import Any

from mcptrio import Server, connect
from mcptrio.serving import HTTPOptions, over_http

__all__ = ["main"]


class Counter:
    def __init__(self) -> None:
        self.value = 0

    async def read(self) -> int:
        return self.value


async def main() -> None:
    counter = Counter()
    server = Server("counter")
    server.add_tool(counter.read, read_only=True)
    async with over_http(server, port=0, options=HTTPOptions(path="/counter")) as urls:
        counter.value = 3
        async with connect(urls[0]) as client:
            result = await client.call_tool("read")
            content: dict[str, Any] | None = result.structured_content
            assert result.text == "3", content
