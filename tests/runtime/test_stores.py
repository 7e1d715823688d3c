"""A failing store loses only the values that were about to be stored."""

from __future__ import annotations

import json
import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

from mcptrio import Context, Server
from mcptrio.abc import StoredEvent
from mcptrio.errors import StoreFailed
from mcptrio.http.server.app import HTTPApp
from mcptrio.serving import HTTPLimits
from mcptrio.stores.memory import MemoryEventStore, MemorySessionStore
from mcptrio.stores.sqlite import SQLiteBounds, open_sqlite_stores
from tests.processes import HELLO
from tests.runtime.asgi import Reply, exchange, post

__all__: list[str] = []


class FullStore(MemoryEventStore):
    async def append(
        self, session: str, stream: str, *data: bytes, last: bool = False, will: bytes | None = None
    ) -> StoredEvent:
        raise OSError("disk full")


async def hold() -> str:
    """Says something."""
    return "held"


async def test_store_that_cannot_append_ends_its_stream_only(
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


async def test_unwritable_store_file_fails_only_writes_until_it_is_writable(tmp_path: Path) -> None:
    """New sessions are refused, a call whose response is lost gets an error, and the rest continues."""
    file = tmp_path / "kept.db"
    go = trio.Event()

    async def wait() -> str:
        """Waits."""
        await go.wait()
        return "waited"

    server = Server()
    server.add_tool(wait)
    with trio.fail_after(60):
        async with (
            open_sqlite_stores(file, SQLiteBounds(busy_timeout=0.05)) as stores,
            server.open(),
            trio.open_nursery() as nursery,
        ):
            limits = HTTPLimits(stream_delay=0.01)
            app = HTTPApp(server.supervisor, sessions=stores.sessions, events=stores.events, limits=limits)
            await nursery.start(app.run)
            hello = {**HELLO, "id": 1}
            session = (await post(app, hello)).headers["mcp-session-id"]
            await post(app, {"jsonrpc": "2.0", "method": "notifications/initialized"}, mcp_session_id=session)
            stream = Reply()
            call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "wait"}}
            headers = {"mcp-session-id": session}
            nursery.start_soon(exchange, app, "POST", headers, json.dumps(call).encode(), stream)
            await stream.began.wait()
            with closing(sqlite3.connect(file, isolation_level=None)) as other:
                primed: list[tuple[str]] = []
                while not primed:
                    await trio.sleep(0.01)
                    primed = other.execute("SELECT name FROM streams WHERE next = 1").fetchall()
                [[name]] = primed
                other.execute("BEGIN IMMEDIATE")
                refused = await post(app, hello)
                listed = await post(app, {"jsonrpc": "2.0", "id": 3, "method": "tools/list"}, mcp_session_id=session)
                go.set()
                await stream.ended.wait()
                other.execute("ROLLBACK")
            resumed = Reply()
            nursery.start_soon(exchange, app, "GET", {**headers, "last-event-id": f"{name}/0"}, b"", resumed)
            await resumed.ended.wait()
            again = await post(app, hello)
            nursery.cancel_scope.cancel()

    assert (refused.status, refused.headers["retry-after"], refused.messages[0]["id"]) == (503, "5", 1)
    assert str(tmp_path) not in json.dumps(refused.messages)
    assert listed.messages[0]["result"]["tools"][0]["name"] == "wait"
    assert stream.messages == []
    assert [message["id"] for message in resumed.messages] == [2]
    assert "whether the request was carried out is not known" in resumed.messages[0]["error"]["message"]
    assert again.status == 200


async def test_stream_that_another_replica_has_completed_ends_without_an_error(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A replica that stood still is taken for ended, and its calls are then cancelled here."""

    async def wait() -> str:
        """Waits."""
        await trio.sleep_forever()
        return ""

    server = Server()
    server.add_tool(wait)
    events = MemoryEventStore()
    async with server.open(), trio.open_nursery() as nursery:
        limits = HTTPLimits(stream_delay=0.01)
        app = HTTPApp(server.supervisor, sessions=MemorySessionStore(), events=events, limits=limits)
        await nursery.start(app.run)
        session = (await post(app, {**HELLO, "id": 1})).headers["mcp-session-id"]
        await post(app, {"jsonrpc": "2.0", "method": "notifications/initialized"}, mcp_session_id=session)
        reply = Reply()
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "wait"}}
        headers = {"mcp-session-id": session}
        nursery.start_soon(exchange, app, "POST", headers, json.dumps(call).encode(), reply)
        await trio.sleep(1)
        await events.settle(session, reply.ids[0].rpartition("/")[0])
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
        await post(app, cancelled, mcp_session_id=session)
        await reply.ended.wait()
        resumed = Reply()
        await exchange(app, "GET", {**headers, "last-event-id": reply.ids[-1]}, b"", resumed)
        nursery.cancel_scope.cancel()

    assert [message["id"] for message in resumed.messages] == [2]
    assert "whether the request was carried out is not known" in resumed.messages[0]["error"]["message"]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


class SlowStore(MemoryEventStore):
    """A store whose reads after a cursor can be made to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = False
        self.go = trio.Event()

    async def after(self, session: str, event_id: str) -> tuple[str, list[StoredEvent], bool] | None:
        if self.waits:
            self.waits = False
            await self.go.wait()
        return await super().after(session, event_id)


async def test_reader_that_was_replaced_during_a_slow_read_takes_no_event_from_its_successor(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def report(ctx: Context) -> str:
        """Reports, and waits."""
        await ctx.info("begun")
        await trio.sleep(10)
        await ctx.info("continued")
        await trio.sleep_forever()
        return ""

    server = Server()
    server.add_tool(report)
    events = SlowStore()
    async with server.open(), trio.open_nursery() as nursery:
        app = HTTPApp(server.supervisor, sessions=MemorySessionStore(), events=events)
        await nursery.start(app.run)
        session = (await post(app, {**HELLO, "id": 1})).headers["mcp-session-id"]
        headers = {"mcp-session-id": session}
        await post(app, {"jsonrpc": "2.0", "method": "notifications/initialized"}, mcp_session_id=session)
        level = {"jsonrpc": "2.0", "id": 2, "method": "logging/setLevel", "params": {"level": "info"}}
        await post(app, level, mcp_session_id=session)
        call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "report"}}
        lost = Reply()
        nursery.start_soon(exchange, app, "POST", headers, json.dumps(call).encode(), lost)
        await trio.sleep(5)
        events.waits = True
        await trio.sleep(10)
        resumed = Reply(reading=trio.Event())
        assert resumed.reading is not None
        nursery.start_soon(exchange, app, "GET", {**headers, "last-event-id": lost.ids[-1]}, b"", resumed)
        await trio.sleep(1)
        events.go.set()
        await trio.sleep(1)
        resumed.reading.set()
        await trio.sleep(1)
        nursery.cancel_scope.cancel()

    assert [message["params"]["data"] for message in resumed.messages] == ["continued"]


async def test_call_whose_stream_cannot_be_stored_gets_an_error(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that got nothing might send its request again, and would then cancel only one of two calls."""

    async def report(ctx: Context) -> str:
        """Reports, and waits."""
        await ctx.notify("notifications/progress", {"progressToken": 1, "progress": 1})
        await trio.sleep_forever()
        return ""

    class FullEvents(MemoryEventStore):
        async def append(
            self, session: str, stream: str, *data: bytes, last: bool = False, will: bytes | None = None
        ) -> StoredEvent:
            raise StoreFailed("the engine is full")

    server = Server()
    server.add_tool(report)
    async with server.open(), trio.open_nursery() as nursery:
        app = HTTPApp(server.supervisor, sessions=MemorySessionStore(), events=FullEvents())
        await nursery.start(app.run)
        session = (await post(app, {**HELLO, "id": 1})).headers["mcp-session-id"]
        await post(app, {"jsonrpc": "2.0", "method": "notifications/initialized"}, mcp_session_id=session)
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "report"}}
        with caplog.at_level(logging.CRITICAL, "mcptrio"):
            reply = await post(app, call, mcp_session_id=session)
        nursery.cancel_scope.cancel()

    assert [message["id"] for message in reply.messages] == [2]
    assert "whether the request was carried out is not known" in reply.messages[0]["error"]["message"]


class ForgetfulStore(MemoryEventStore):
    """A store that fails to drop a session at the first attempt."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts: list[str] = []

    async def drop(self, session: str) -> None:
        self.attempts.append(session)
        if len(self.attempts) == 1:
            raise StoreFailed("locked")
        await super().drop(session)


async def test_events_of_an_expired_session_that_could_not_be_dropped_are_dropped_later(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server, events = Server(), ForgetfulStore()
    async with server.open(), trio.open_nursery() as nursery:
        app = HTTPApp(server.supervisor, sessions=MemorySessionStore(idle_timeout=30), events=events)
        await nursery.start(app.run)
        sessions = [(await post(app, {**HELLO, "id": id})).headers["mcp-session-id"] for id in (1, 2)]
        await trio.sleep(60)
        nursery.cancel_scope.cancel()

    assert events.attempts == [sessions[0], *sessions]
