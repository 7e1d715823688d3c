"""The endpoint within another ASGI application: mounted below a prefix, with its lifespan."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from hypercorn.middleware.dispatcher import TrioDispatcherMiddleware
from quart_trio import QuartTrio

from mcptrio import Server, hookimpl
from mcptrio.http.engine.server import serve_asgi as serve
from mcptrio.serving import HTTPOptions, ServerSettings, asgi_app
from tests.interaction.client import Peer
from tests.interaction.wires import Exchange, HTTPWire

__all__: list[str] = []

WAIT_TIMEOUT = 60.0
"""Seconds; only a failing test waits this long."""


class Plugin:
    def __init__(self, failure: str | None = None) -> None:
        self.failure = failure
        self.happened: list[str] = []

    @hookimpl
    def lifespan(self) -> AbstractAsyncContextManager[None]:
        @asynccontextmanager
        async def living() -> AsyncIterator[None]:
            if self.failure:
                raise ValueError(self.failure)
            self.happened.append("opened")
            yield
            self.happened.append("closed")

        return living()


async def status_of(nursery: trio.Nursery, port: int, path: str) -> int | None:
    exchange = Exchange()
    nursery.start_soon(HTTPWire(port, path).run, exchange, "GET", {}, b"", lambda *_: None)
    await exchange.ended.wait()
    return exchange.status


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_endpoint_is_served_below_a_prefix_of_another_application(revision: str) -> None:
    """The prefix is removed from the path, and both applications receive the lifespan."""
    quart = QuartTrio(__name__)
    quart.get("/own")(lambda: "own")
    plugin = Plugin()
    server = Server(plugins=[plugin])
    server.add_tool(lambda: "pong", name="ping")
    app: Any = TrioDispatcherMiddleware({"/ai/mcp": asgi_app(server, HTTPOptions(path="")), "/": quart})  # type: ignore[dict-item]
    shutdown = trio.Event()
    with trio.fail_after(WAIT_TIMEOUT):
        async with trio.open_nursery() as nursery:
            [url] = await nursery.start(partial(serve, app, bind="127.0.0.1:0", shutdown=shutdown))
            port = int(url.rpartition(":")[2])
            assert plugin.happened == ["opened"]
            peer = Peer(revision=revision, wire=HTTPWire(port, "/ai/mcp"), nursery=nursery)
            await peer.begin()
            assert await peer.text("ping") == "pong"
            assert await status_of(nursery, port, "/own") == 200
            assert await status_of(nursery, port, "/ai/mcp/readyz") == 200
            shutdown.set()
    assert plugin.happened == ["opened", "closed"]


async def test_strict_server_that_cannot_open_fails_the_application_around_it() -> None:
    app = asgi_app(Server(plugins=[Plugin(failure="no database")], settings=ServerSettings(strict=True)))
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "lifespan.startup"}

    with trio.fail_after(WAIT_TIMEOUT):
        await app({"type": "lifespan"}, receive, send)

    assert [message["type"] for message in sent] == ["lifespan.startup.failed"]
    assert "no database" in sent[0]["message"]
