"""Measures how long a client waits for the result of a call whose replica was killed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import trio

from tests.replicas.engines import Engine
from tests.replicas.processes import replica
from tests.replicas.raw_http import Broken, Reply, request

__all__ = ["seconds_to_recover"]

_HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
_WAIT_TIMEOUT = 60.0


async def seconds_to_recover(folder: Path, engine: Engine, ports: Sequence[int]) -> float:
    """Kill a replica during a call, and return the seconds until another one has answered the call."""
    with ExitStack() as stack:
        both = [replica(folder, number, port, engine.url, engine.settings) for number, port in enumerate(ports)]
        for each in both:
            each.start()
            stack.callback(each.end)
        for each in both:
            assert await each.until_ready()
        with trio.fail_after(_WAIT_TIMEOUT):
            headers = {**_HEADERS, "Mcp-Session-Id": await _open(ports[0])}
            call: dict[str, Any] = {"name": "hold", "arguments": {"token": "t"}}
            message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
            async with request(ports[0], "POST", headers, message) as reply:
                last = await _next_id(reply)
                killed = trio.current_time()
                await both[0].kill()
            while True:
                try:
                    async with request(ports[1], "GET", {**headers, "Last-Event-ID": last}) as reply:
                        while (event := await reply.event()) is not None:
                            if event.data and "error" in json.loads(event.data):
                                return trio.current_time() - killed
                except Broken:
                    await trio.sleep(0.1)


async def _open(port: int) -> str:
    client = {"name": "recovery", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    async with request(port, "POST", _HEADERS, message) as reply:
        await reply.read()
        session = reply.headers["mcp-session-id"]
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    async with request(port, "POST", {**_HEADERS, "Mcp-Session-Id": session}, ready) as reply:
        assert reply.status == 202
    return session


async def _next_id(reply: Reply) -> str:
    while True:
        event = await reply.event()
        assert event is not None
        if event.id:
            return event.id
