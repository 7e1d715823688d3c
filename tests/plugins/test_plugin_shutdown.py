"""Plugins that stop while requests are within their middleware or their ASGI applications."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
import trio
import trio.testing

import mcptrio
from mcptrio import MCPError, PluginSetup, RequestView, Server, hookimpl, notification, tool
from mcptrio.plugins.middleware.audit_log import AuditLog, AuditLogConfig
from mcptrio.protocol.revisions.registry import REVISIONS
from mcptrio.serve.http import serve_http
from mcptrio.serving import (
    ServerSettings,
    Timeouts,
)
from mcptrio.types import TextContent

__all__: list[str] = []

WAIT_TIMEOUT = 60.0


class Guard:
    """Checks after each request whether its lifespan is still open."""

    def __init__(self) -> None:
        self.is_open = False
        self.left: list[tuple[str, bool]] = []

    @hookimpl
    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        self.is_open = True
        yield
        self.is_open = False

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        # Runs inside the middleware of Slow.
        server.add_middleware(self.guard, order=10)

    async def guard(self, request: RequestView, proceed: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await proceed()
        finally:
            self.left.append((request.method, self.is_open))


class Worker:
    def __init__(self) -> None:
        self.begun, self.gate = trio.Event(), trio.Event()

    @tool
    async def work(self) -> str:
        self.begun.set()
        await self.gate.wait()
        return "done"

    server: Server

    @tool
    async def dismiss(self) -> str:
        await self.server.disable_plugin("Guard")
        return "dismissed"


async def said(client: mcptrio.Client, tool: str) -> str:
    [block] = (await client.call_tool(tool)).content
    assert isinstance(block, TextContent)
    return block.text


async def disable(server: Server, name: str, gone: trio.Event) -> None:
    await server.disable_plugin(name)
    gone.set()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_request_inside_middleware_ends_before_the_lifespan_exits(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    guard, worker, gone = Guard(), Worker(), trio.Event()
    server = Server(plugins=[guard, worker])
    async with server.open(), mcptrio.connect(server, revision=revision) as client, trio.open_nursery() as nursery:
        guard.left.clear()

        async def work() -> None:
            assert await said(client, "work") == "done"

        nursery.start_soon(work)
        await worker.begun.wait()
        nursery.start_soon(disable, server, "Guard", gone)
        await trio.sleep(1)
        # The call counts as one request, although the code of two plugins runs.
        assert (guard.is_open, gone.is_set(), server.supervisor.in_flight, len(server.supervisor.works)) == (
            True,
            False,
            1,
            1,
        )
        worker.gate.set()
        await gone.wait()
        assert (guard.left, guard.is_open) == ([("tools/call", True)], False)
        assert trio.current_time() == pytest.approx(1, abs=0.1)


class Slow:
    """Delays requests before they reach the middleware of Guard."""

    def __init__(self) -> None:
        self.begun, self.gate = trio.Event(), trio.Event()

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        server.add_middleware(self.wait)

    async def wait(self, request: RequestView, proceed: Callable[[], Awaitable[Any]]) -> Any:
        if request.name == "work":
            self.begun.set()
            await self.gate.wait()
        return await proceed()


async def test_request_that_has_not_reached_the_middleware_is_awaited(autojump_clock: trio.testing.MockClock) -> None:
    guard, worker, slow, gone = Guard(), Worker(), Slow(), trio.Event()
    worker.gate.set()
    server = Server(plugins=[guard, worker, slow])
    async with server.open(), mcptrio.connect(server) as client, trio.open_nursery() as nursery:
        guard.left.clear()
        nursery.start_soon(said, client, "work")
        await slow.begun.wait()
        nursery.start_soon(disable, server, "Guard", gone)
        await trio.sleep(1)
        slow.gate.set()
        await gone.wait()
        assert guard.left == [("tools/call", True)]


async def test_request_inside_middleware_is_cancelled_after_the_timeout(
    autojump_clock: trio.testing.MockClock,
) -> None:
    guard, worker = Guard(), Worker()
    server = Server(plugins=[guard, worker], settings=ServerSettings(timeouts=Timeouts(shutdown=3)))
    async with server.open(), mcptrio.connect(server) as client, trio.open_nursery() as nursery:
        guard.left.clear()

        async def work() -> None:
            with pytest.raises(MCPError, match="tools/call was ended: the plugin was disabled"):
                await client.call_tool("work")

        nursery.start_soon(work)
        await worker.begun.wait()
        await server.disable_plugin("Guard")
        assert trio.current_time() == pytest.approx(3, abs=0.1)
        assert (guard.left, guard.is_open) == ([("tools/call", True)], False)


async def test_streams_inside_middleware_end_at_once(autojump_clock: trio.testing.MockClock) -> None:
    guard, worker = Guard(), Worker()
    server = Server(plugins=[guard, worker])
    async with server.open(), mcptrio.connect(server) as client:
        async with client.subscribe(tools=True) as changes:
            await client.ping()
            await server.disable_plugin("Guard")
            assert trio.current_time() == pytest.approx(0)
            assert ("subscriptions/listen", True) in guard.left
            # The client listens again, without that middleware.
            await server.disable_plugin("Worker")
            await anext(changes)
            assert await client.tools().all() == ()


async def test_request_can_disable_the_plugin_whose_middleware_wraps_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    guard, worker = Guard(), Worker()
    server = worker.server = Server(plugins=[guard, worker])
    async with server.open(), mcptrio.connect(server) as client:
        assert await said(client, "dismiss") == "dismissed"
        assert (guard.is_open, trio.current_time()) == (False, pytest.approx(0))


async def test_call_in_flight_is_recorded_when_the_audit_log_is_disabled(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    worker, gone = Worker(), trio.Event()
    log = AuditLog(AuditLogConfig(path=tmp_path / "audit.jsonl"))
    server = Server(plugins=[log, worker])
    async with server.open(), mcptrio.connect(server) as client, trio.open_nursery() as nursery:
        nursery.start_soon(said, client, "work")
        await worker.begun.wait()
        nursery.start_soon(disable, server, "AuditLog", gone)
        await trio.sleep(1)
        worker.gate.set()
        await gone.wait()
    [record] = (tmp_path / "audit.jsonl").read_bytes().splitlines()
    assert orjson.loads(record)["name"] == "work"


class Listener:
    """Handles a notification without end."""

    def __init__(self) -> None:
        self.begun, self.ended = trio.Event(), trio.Event()

    @notification("example/hear")
    async def hear(self) -> None:
        self.begun.set()
        try:
            await trio.sleep_forever()
        finally:
            self.ended.set()


async def test_notification_handler_is_cancelled_after_the_timeout(
    autojump_clock: trio.testing.MockClock,
) -> None:
    listener = Listener()
    server = Server(plugins=[listener], settings=ServerSettings(timeouts=Timeouts(shutdown=3)))
    async with server.open(), mcptrio.connect(server) as client:
        await client.notify("example/hear")
        await listener.begun.wait()
        await server.disable_plugin("Listener")
        assert listener.ended.is_set()
        assert trio.current_time() == pytest.approx(3, abs=0.1)
        await client.ping()


class Pages:
    """An application that uses a resource of its lifespan."""

    def __init__(self) -> None:
        self.is_open = False
        self.begun, self.gate = trio.Event(), trio.Event()
        self.ended = ""

    @hookimpl
    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        self.is_open = True
        yield
        self.is_open = False

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        server.add_route("/pages", self.serve)

    async def serve(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            self.begun.set()
            await self.gate.wait()
            self.ended = "served"
            await send({"type": "http.response.start", "status": 204 if self.is_open else 500, "headers": []})
            await send({"type": "http.response.body"})
        except trio.Cancelled:
            self.ended = "cancelled"
            raise


@asynccontextmanager
async def paged(
    pages: Pages, *, shutdown: float
) -> AsyncIterator[tuple[Server, trio.Nursery, Callable[[], Awaitable[httpx2.Response]]]]:
    server = Server(plugins=[pages], settings=ServerSettings(timeouts=Timeouts(shutdown=shutdown)))
    with trio.fail_after(WAIT_TIMEOUT):
        async with trio.open_nursery() as nursery, httpx2.AsyncClient() as http:
            [url] = await nursery.start(partial(serve_http, server, port=0))
            yield server, nursery, partial(http.get, url.replace("/mcp", "/pages"))
            nursery.cancel_scope.cancel()


async def test_request_to_a_plugin_application_ends_before_the_lifespan_exits() -> None:
    pages, gone = Pages(), trio.Event()
    statuses: list[int] = []
    async with paged(pages, shutdown=WAIT_TIMEOUT) as (server, nursery, get):

        async def look() -> None:
            statuses.append((await get()).status_code)

        async with trio.open_nursery() as looking:
            looking.start_soon(look)
            await pages.begun.wait()
            nursery.start_soon(disable, server, "Pages", gone)
            await trio.testing.wait_all_tasks_blocked()
            assert pages.is_open
            pages.gate.set()
        await gone.wait()
        assert (await get()).status_code == 404
    assert statuses == [204]


async def test_request_to_a_plugin_application_is_cancelled_after_the_timeout() -> None:
    pages = Pages()
    statuses: list[int] = []
    async with paged(pages, shutdown=0.1) as (server, _, get), trio.open_nursery() as looking:

        async def look() -> None:
            statuses.append((await get()).status_code)

        looking.start_soon(look)
        await pages.begun.wait()
        await server.disable_plugin("Pages")
        assert (pages.ended, pages.is_open) == ("cancelled", False)
    assert statuses == [500]
