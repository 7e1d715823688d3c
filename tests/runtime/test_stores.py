"""A store that fails costs what was to be stored, and nothing else."""

from __future__ import annotations

import logging

import pytest
import trio

from mcptrio import Server
from mcptrio.abc import StoredEvent
from mcptrio.stores.memory import MemoryEventStore, MemorySessionStore
from mcptrio.transports.http.app import HTTPApp
from tests.runtime.asgi import Reply, exchange, post

__all__: list[str] = []


class FullStore(MemoryEventStore):
    async def append(self, session: str, stream: str, data: bytes, *, last: bool = False) -> StoredEvent:
        raise OSError("disk full")


async def hold() -> str:
    """Says something."""
    return "held"


async def test_a_store_that_cannot_append_ends_its_stream_and_not_the_server(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()
    server.add_tool(hold)
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    }
    async with server.open(), trio.open_nursery() as nursery:
        app = HTTPApp(server.supervisor, sessions=MemorySessionStore(), events=FullStore())
        await nursery.start(app.run)
        answer = await post(app, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
        session = answer.headers["mcp-session-id"]
        await post(app, {"jsonrpc": "2.0", "method": "notifications/initialized"}, mcp_session_id=session)
        stream = Reply()
        nursery.start_soon(exchange, app, "GET", {"mcp-session-id": session}, b"", stream)
        await trio.sleep(1)
        with caplog.at_level(logging.CRITICAL, "mcptrio"):
            server.add_tool(hold, name="other")
            await trio.sleep(1)
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        listed = await post(app, call, mcp_session_id=session)
        nursery.cancel_scope.cancel()

    assert stream.ended.is_set()
    assert [tool["name"] for tool in listed.messages[0]["result"]["tools"]] == ["hold", "other"]
