"""Stopping a server over HTTP while load balancers still send it requests."""

from __future__ import annotations

from functools import partial

import httpx2
import trio
import trio.testing

from mcptrio import Server
from mcptrio.serving import HTTPLimits, HTTPOptions, serve_http

__all__: list[str] = []


async def test_server_serves_on_while_it_says_that_it_is_not_ready() -> None:
    shutdown = trio.Event()
    options = HTTPOptions(limits=HTTPLimits(shutdown_delay=600.0))
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
