"""Stopping a server: while load balancers still send it requests, and at the end of the block that serves it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import httpx2
import pytest
import trio
import trio.testing

from mcptrio import Server, connect
from mcptrio.abc import Engine
from mcptrio.serve.http import serve_http
from mcptrio.serving import (
    HTTPOptions,
    over_http,
    over_streams,
    over_transport,
)

__all__: list[str] = []


async def test_server_still_serves_while_it_reports_not_ready() -> None:
    shutdown = trio.Event()
    options = HTTPOptions(shutdown_delay=600.0)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery, httpx2.AsyncClient() as http:
            serve = partial(serve_http, Server("stopping"), port=0, options=options, shutdown=shutdown)
            [url] = await nursery.start(serve)
            base = url.removesuffix("/mcp")
            assert (await http.get(f"{base}/readyz")).status_code == 200
            shutdown.set()
            await trio.testing.wait_all_tasks_blocked()
            ready = await http.get(f"{base}/readyz")
            assert (ready.status_code, ready.json()["ready"]) == (503, False)
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
            served = await http.post(url, json=message, headers={"accept": "application/json, text/event-stream"})
            assert served.status_code == 200
            nursery.cancel_scope.cancel()


async def test_server_stops_at_once_without_a_delay() -> None:
    shutdown = trio.Event()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(serve_http, Server("stopping"), port=0, shutdown=shutdown))
            shutdown.set()


async def test_end_of_the_block_shuts_the_server_down() -> None:
    entered, go_on = trio.Event(), trio.Event()
    done: list[str] = []

    async def work() -> str:
        entered.set()
        await go_on.wait()
        return "done"

    async def call(url: str) -> None:
        async with connect(url) as client:
            done.append((await client.call_tool("work")).text)

    server = Server("worker")
    server.add_tool(work)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            async with over_http(server, port=0) as [url]:
                nursery.start_soon(call, url)
                await entered.wait()
                go_on.set()
    assert done == ["done"]
    assert not server.is_open


@pytest.mark.parametrize("over", [partial(over_http, port=0), partial(over_streams, addresses="127.0.0.1:0")])
async def test_exception_of_the_block_is_raised_and_ends_the_server(over: Callable[..., Any]) -> None:
    server = Server("short")

    async def block() -> None:
        async with over(server) as where:
            assert server.is_open
            assert len(where) == 1
            raise LookupError("of the block")

    with trio.fail_after(60), pytest.raises(LookupError, match="of the block"):
        await block()
    assert not server.is_open


async def test_transport_that_fails_ends_the_block() -> None:
    async def fails(engine: Engine, *, stopping: trio.Event, task_status: trio.TaskStatus[list[str]]) -> None:
        task_status.started(["there"])
        raise OSError("the pigeon was eaten")

    async def block() -> None:
        async with over_transport(Server("one"), fails):
            await trio.sleep_forever()

    with trio.fail_after(60), pytest.raises(OSError, match="the pigeon was eaten"):
        await block()
