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
    "call",
    [
        connect_to_url,
        connect_to_server,
        open_server,
        open_host,
        lambda: serve_stdio(Server()),
        open_over_http,
        open_over_streams,
    ],
)
def test_entry_point_under_asyncio_says_how_to_run_trio(call: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await call()

    with pytest.raises(RuntimeError, match=r"must be called in a Trio task, started by trio\.run") as raised:
        asyncio.run(main())
    assert str(raised.value).endswith("an asyncio program runs Trio in a thread: asyncio.to_thread(trio.run, main)")


async def test_failing_assert_in_an_open_server_is_raised_unwrapped() -> None:
    with pytest.raises(AssertionError, match="wrong"):
        async with Server().open(), mcptrio.connect(Server()):
            raise AssertionError("wrong")
