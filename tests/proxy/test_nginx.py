"""Every feature over HTTP works behind nginx with the configuration of docs/deployment.md."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from attrs import define, field

from mcptrio import Context, Server, tool
from mcptrio.serve.http import serve_http
from mcptrio.serving import ServerLimits, ServerSettings
from tests.error_codes import METHOD_NOT_FOUND
from tests.http.raw_websocket import Refused, Socket, upgrade
from tests.interaction.client import Peer
from tests.interaction.wires import HTTPWire, SSEWire, WebSocketWire
from tests.proxy.nginx import UPSTREAM, documented, proxying

__all__: list[str] = []

HANDSHAKE, MODERN = "2025-11-25", "2026-07-28"
WAIT_TIMEOUT = 60.0
"""Seconds; only a failing test waits this long."""


@define
class Events:
    """What happened in the handlers."""

    go: trio.Event = field(factory=trio.Event)
    hanging: trio.Event = field(factory=trio.Event)
    cancelled: trio.Event = field(factory=trio.Event)


@define
class ServerBehindNginx:
    """A server behind nginx.

    Attributes:
        port: The port of nginx.
    """

    port: int
    events: Events
    nursery: trio.Nursery
    server: Server

    async def peer(self, revision: str, wire: Any = None, **options: Any) -> Peer:
        peer = Peer(revision, wire or HTTPWire(self.port), self.nursery, **options)
        await self.nursery.start(peer.run)
        await peer.begin()
        return peer


@asynccontextmanager
async def behind_nginx(folder: Path) -> AsyncIterator[ServerBehindNginx]:
    events = Events()

    @tool
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    @tool
    async def report(ctx: Context) -> str:
        """Report, wait for permission, and report again."""
        await ctx.report_progress(1)
        await events.go.wait()
        await ctx.report_progress(2)
        return "reported"

    @tool
    async def hang() -> str:
        """Wait for ever."""
        events.hanging.set()
        try:
            await trio.sleep_forever()
        finally:
            events.cancelled.set()

    tools = SimpleNamespace(echo=echo, report=report, hang=hang)
    # Larger than the buffers of nginx.
    limits = ServerLimits(result_text=4_000_000)
    server = Server("behind", plugins=[tools], settings=ServerSettings(limits=limits))
    shutdown = trio.Event()
    async with trio.open_nursery() as nursery:
        urls = await nursery.start(partial(serve_http, server, port=0, shutdown=shutdown))
        with proxying(int(urls[0].split(":")[2].split("/")[0]), folder) as port:
            async with trio.open_nursery() as clients:
                yield ServerBehindNginx(port, events, clients, server)
                clients.cancel_scope.cancel()
            with trio.fail_after(WAIT_TIMEOUT):
                while server.status.in_flight:  # noqa: ASYNC110 - no event reports it
                    await trio.sleep(0.01)
        shutdown.set()


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
async def test_calls_behind_nginx_return_their_results(revision: str, tmp_path: Path) -> None:
    async with behind_nginx(tmp_path) as behind:
        peer = await behind.peer(revision)

        assert await peer.text("echo", {"text": "grüß dich"}) == "grüß dich"
        assert await peer.text("echo", {"text": "x" * 3_000_000}) == "x" * 3_000_000


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
async def test_progress_is_not_buffered_by_nginx(revision: str, tmp_path: Path) -> None:
    """The first report arrives while the handler still waits."""
    async with behind_nginx(tmp_path) as behind:
        peer = await behind.peer(revision)
        call = await peer.start_call("report", meta={"progressToken": 7})
        first = await peer.until("notifications/progress")
        assert call.answer is None
        behind.events.go.set()
        result = await call.result()

    assert first["params"]["progress"] == 1
    assert result["content"][0]["text"] == "reported"


async def test_closed_response_cancels_the_call(tmp_path: Path) -> None:
    """2026-07-28, "Cancellation": nginx passes the client's disconnect on."""
    async with behind_nginx(tmp_path) as behind:
        peer = await behind.peer(MODERN)
        call = await peer.start_call("hang")
        with trio.fail_after(WAIT_TIMEOUT):
            await behind.events.hanging.wait()
            await call.disconnect()
            await behind.events.cancelled.wait()


async def test_broken_stream_is_resumed_through_nginx(tmp_path: Path) -> None:
    """2025-11-25, "Resumability and Redelivery": messages sent meanwhile are not lost."""
    async with behind_nginx(tmp_path) as behind:
        peer = await behind.peer(HANDSHAKE)
        call = await peer.start_call("report", meta={"progressToken": 7})
        assert call.exchange is not None
        await peer.until("notifications/progress")
        await call.disconnect()
        behind.events.go.set()
        exchange = await peer.get(last_event_id=call.exchange.event_ids[-1])
        answer = await peer.until(lambda message: message.get("id") == call.id)

    assert exchange.status == 200
    assert [note["progress"] for note in peer.notes("notifications/progress")] == [1, 2]
    assert answer["result"]["content"][0]["text"] == "reported"


async def test_session_stream_is_not_buffered_by_nginx(tmp_path: Path) -> None:
    async with behind_nginx(tmp_path) as behind:
        peer = await behind.peer(HANDSHAKE)
        with trio.fail_after(WAIT_TIMEOUT):
            await peer.watch("tools")  # the head of the response has arrived, and nothing else
            ended = await peer.delete()

    assert ended.status == 204


async def test_http_with_sse_works_through_nginx(tmp_path: Path) -> None:
    """2024-11-05."""
    async with behind_nginx(tmp_path) as behind:
        wire = SSEWire(behind.port)
        await wire.open()
        peer = await behind.peer("2024-11-05", wire)
        call = await peer.start_call("report", meta={"progressToken": 7})
        await peer.until("notifications/progress")
        behind.events.go.set()
        result = await call.result()
        await peer.leave()

    assert wire.endpoint.startswith("/messages")
    assert result["content"][0]["text"] == "reported"


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
async def test_websocket_works_through_nginx(revision: str, tmp_path: Path) -> None:
    async with behind_nginx(tmp_path) as behind:
        peer = await behind.peer(revision, WebSocketWire(await Socket.open(behind.port)))
        call = await peer.start_call("report", meta={"progressToken": 7})
        await peer.until("notifications/progress")
        behind.events.go.set()
        assert (await call.result())["content"][0]["text"] == "reported"
        await peer.start_call("hang")
        with trio.fail_after(WAIT_TIMEOUT):
            await behind.events.hanging.wait()
            await peer.leave()
            await behind.events.cancelled.wait()


async def test_refusals_reach_the_client_through_nginx(tmp_path: Path) -> None:
    """Requests of other origins and for unknown methods are refused."""
    async with behind_nginx(tmp_path) as behind:
        peer = await behind.peer(MODERN)
        strange = await peer.start("tools/list", headers={"origin": "https://evil.example"})
        assert strange.exchange is not None
        await strange.exchange.ended.wait()
        host = await peer.start("tools/list", headers={"host": "evil.example"})
        assert host.exchange is not None
        await host.exchange.ended.wait()
        with pytest.raises(Refused) as refused:
            await Socket.open(behind.port, upgrade(behind.port, "/ws", "Origin: https://evil.example"))
        error = await peer.error("no/such")

    assert (strange.exchange.status, host.exchange.status, refused.value.status) == (403, 421, 403)
    assert error["code"] == METHOD_NOT_FOUND


def test_every_http_path_has_an_nginx_location() -> None:
    assert documented().count(UPSTREAM) == 2
