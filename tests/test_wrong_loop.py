"""Entry points that are called without Trio raise an error of one sentence, before a resource is opened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import mcptrio
from mcptrio import Host, Server
from mcptrio.serving import over_http, over_streams, serve_stdio

__all__: list[str] = []


async def connect_to_url() -> None:
    async with mcptrio.connect("http://127.0.0.1:9/mcp"):
        pass


async def connect_to_server() -> None:
    async with mcptrio.connect(Server()):
        pass


async def open_server() -> None:
    async with Server().open():
        pass


async def open_over_http() -> None:
    async with over_http(Server()):
        pass


async def open_over_streams() -> None:
    async with over_streams(Server(), "127.0.0.1:0"):
        pass


async def open_host() -> None:
    approve: Any = None
    async with Host({}, approve=approve):
        pass


@pytest.mark.parametrize(
    ("call", "page"),
    [
        (connect_to_url, "client"),
        (connect_to_server, "client"),
        (open_server, "deployment"),
        (open_host, "client"),
        (lambda: serve_stdio(Server()), "deployment"),
        (open_over_http, "deployment"),
        (open_over_streams, "deployment"),
    ],
)
def test_entry_point_under_asyncio_names_the_page_to_read(call: Callable[[], Awaitable[None]], page: str) -> None:
    async def main() -> None:
        await call()

    with pytest.raises(RuntimeError, match=r"must be called in a Trio task, started by trio\.run") as raised:
        asyncio.run(main())
    assert f"docs/{page}.md#in-an-asyncio-application" in str(raised.value)


async def test_failing_assert_in_an_open_server_is_raised_unwrapped() -> None:
    with pytest.raises(AssertionError, match="wrong"):
        async with Server().open(), mcptrio.connect(Server()):
            raise AssertionError("wrong")
