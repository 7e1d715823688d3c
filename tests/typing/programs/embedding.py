"""A server over HTTP inside a Trio application."""

from __future__ import annotations

from functools import partial
from typing import Any

import trio

from mcptrio import Server, connect
from mcptrio.serving import HTTPOptions, serve_http

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
    async with trio.open_nursery() as nursery:
        urls: list[str] = await nursery.start(partial(serve_http, server, port=0, options=HTTPOptions(path="/counter")))
        counter.value = 3
        async with connect(urls[0]) as client:
            result = await client.call_tool("read")
            content: dict[str, Any] | None = result.structured_content
            assert result.text == "3", content
        nursery.cancel_scope.cancel()
