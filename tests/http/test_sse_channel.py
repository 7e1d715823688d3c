"""HTTP+SSE of 2024-11-05 as a channel, with a server written by hand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define, field

from mcptrio.abc import MessageChannel
from mcptrio.errors import ConnectionClosed, RequestFailed
from mcptrio.http.client.legacy_sse import SSEChannel, open_sse_channel
from mcptrio.protocol.messages import ErrorResponse, Incoming, Malformed, Notification, Request, Response
from mcptrio.protocol.sse import encode
from mcptrio.serving import MessageLimits
from tests.error_codes import INTERNAL_ERROR, INVALID_PARAMS

from .web import Handler, ReceivedRequest, Web, Wire, eventually, serving

__all__: list[str] = []


@define
class OldServer:
    """A server of 2024-11-05: one stream, on which POSTs are answered."""

    endpoint: str = "/messages?session=1"
    status: int = 202
    wire: Wire | None = None
    posted: list[Any] = field(factory=list)
    hold: trio.Event | None = None
    """If set, POSTs are answered after this event is set."""

    async def handle(self, seen: ReceivedRequest, wire: Wire) -> None:
        if seen.method == "GET":
            self.wire = wire
            await wire.stream()
            await wire.chunk(encode(self.endpoint.encode(), event="endpoint"))
            await wire.wait_closed()
            return
        self.posted.append(seen.message)
        if self.status != 202:
            await wire.reply("no thanks", self.status)
            return
        if self.hold is not None:
            await self.hold.wait()
        if isinstance(seen.message, dict) and seen.message.get("method") == "echo":
            await self.tell({"jsonrpc": "2.0", "id": seen.message["id"], "result": seen.message["params"]})
        await wire.reply(b"Accepted", 202, content_type="text/plain")

    async def tell(self, value: Any) -> None:
        assert self.wire is not None
        await self.wire.event(value, event="message")


@asynccontextmanager
async def opened(handler: Handler, path: str = "/sse", **options: Any) -> AsyncIterator[tuple[SSEChannel, Web]]:
    with trio.fail_after(60):
        async with serving(handler) as web:
            async with open_sse_channel(f"http://127.0.0.1:{web.port}{path}", **options) as channel:
                yield channel, web


async def receive(channel: SSEChannel, many: int) -> list[Incoming]:
    received: list[Incoming] = []
    while len(received) < many:
        received += await channel.receive()
    return received


async def test_messages_are_sent_and_received() -> None:
    old = OldServer()
    async with opened(old.handle) as (channel, web):
        port: MessageChannel = channel
        assert port.name == f"http://127.0.0.1:{web.port}/sse"
        await channel.send([Request(1, "echo", {"a": 1}), Notification("notifications/initialized")])
        assert await channel.receive() == [Response(1, {"a": 1})]
        await old.tell({"jsonrpc": "2.0", "method": "notifications/x"})
        await old.tell({"jsonrpc": "2.0", "id": "s", "method": "ping"})
        assert await receive(channel, 2) == [Notification("notifications/x"), Request("s", "ping")]
        await channel.send([Response("s", {}), [Notification("a"), Notification("b")]])

        get, *posts = web.seen
        assert get.headers["accept"] == "text/event-stream"
        assert [post.target for post in posts] == ["/messages?session=1"] * 4
        assert all(post.headers["content-type"] == "application/json" for post in posts)
        assert not any(name.startswith("mcp-") for seen in web.seen for name in seen.headers)
        assert [each["method"] for each in old.posted[-1]] == ["a", "b"]
        assert web.connections == 2


async def test_messages_in_the_chunk_of_the_endpoint_event_are_received() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.stream()
        note = json.dumps({"jsonrpc": "2.0", "method": "notifications/x"}).encode()
        await wire.chunk(
            b": hello\n\n" + encode(b"/m", event="endpoint") + encode(note, event="message") + encode(b"5")
        )
        await wire.wait_closed()

    async with opened(handle) as (channel, _):
        first, second = await receive(channel, 2)

        assert first == Notification("notifications/x")
        assert isinstance(second, Malformed)


@pytest.mark.parametrize("endpoint", ["messages", "http://127.0.0.1:{port}/a/messages", "/a/messages"])
async def test_relative_endpoint_is_resolved_against_the_stream_url(endpoint: str) -> None:
    old = OldServer()

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        old.endpoint = endpoint.format(port=seen.headers["host"].partition(":")[2])
        await old.handle(seen, wire)

    async with opened(handle, "/a/sse?key=1") as (channel, web):
        await channel.send([Notification("a")])

        assert [seen.target for seen in web.seen] == ["/a/sse?key=1", "/a/messages"]


@pytest.mark.parametrize("endpoint", ["http://evil.example/m", "//evil.example/m", "https://127.0.0.1/m", "ftp:x"])
async def test_endpoint_of_another_origin_is_refused(endpoint: str) -> None:
    async with serving(OldServer(endpoint).handle) as web:
        with pytest.raises(RequestFailed, match=r"endpoint: (url: )?expected"):
            async with open_sse_channel(f"http://127.0.0.1:{web.port}/sse"):
                pass
        await eventually(lambda: not web.open)


@pytest.mark.parametrize(
    ("status", "headers", "body", "text"),
    [
        (405, {}, None, "HTTP 405"),
        (404, {}, "nothing", "HTTP 404: .*nothing"),
        (302, {"location": "/there"}, None, "redirects to '/there'"),
        (200, {}, {"a": 1}, "expected text/event-stream, got 'application/json'"),
        (200, {"content_type": "text/event-stream"}, b"data: x\n\n", "ended before its endpoint event"),
    ],
)
async def test_url_without_a_legacy_sse_stream_is_refused(
    status: int, headers: dict[str, str], body: Any, text: str
) -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.reply(body, status, **headers)

    async with serving(handle) as web:
        with pytest.raises(RequestFailed, match=text) as caught:
            async with open_sse_channel(web.url):
                pass
    assert caught.value.status == status


async def test_waiting_for_the_endpoint_can_be_cancelled() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.stream()
        await wire.wait_closed()

    async with serving(handle) as web:
        with trio.move_on_after(0.1):
            async with open_sse_channel(web.url):
                pass
        await eventually(lambda: not web.open)


async def test_end_of_the_stream_ends_the_channel() -> None:
    old = OldServer()
    async with opened(old.handle) as (channel, _):
        await old.tell({"jsonrpc": "2.0", "method": "last"})
        assert old.wire is not None
        await old.wire.end()

        assert await channel.receive() == [Notification("last")]
        for _ in range(2):
            with pytest.raises(trio.EndOfChannel):
                await channel.receive()
        with pytest.raises(ConnectionClosed, match="has closed its stream"):
            await channel.send([Notification("a")])


async def test_broken_stream_raises_connection_closed() -> None:
    old = OldServer()
    async with opened(old.handle) as (channel, _):
        assert old.wire is not None
        old.wire.hang_up()

        for _ in range(2):
            with pytest.raises(ConnectionClosed, match="cut off"):
                await channel.receive()
        with pytest.raises(ConnectionClosed, match="cut off"):
            await channel.send([Notification("a")])


async def test_event_over_the_size_limit_closes_the_channel() -> None:
    old = OldServer()
    async with opened(old.handle, limits=MessageLimits(bytes=1000)) as (channel, _):
        await old.tell({"jsonrpc": "2.0", "method": "x" * 2000})

        with pytest.raises(ConnectionClosed, match="event of more than 1000 bytes"):
            await channel.receive()


async def test_refused_request_gets_an_error_response(caplog: pytest.LogCaptureFixture) -> None:
    """Other requests are not affected."""
    old = OldServer(status=500)
    async with opened(old.handle) as (channel, _):
        await channel.send([Request(1, "echo", {}), Notification("n"), [Request(2, "a"), Notification("b")]])
        first, second = await receive(channel, 2)
        assert first == ErrorResponse(1, INTERNAL_ERROR, 'HTTP 500: "no thanks"')
        assert isinstance(second, ErrorResponse)
        assert second.id == 2
        old.status = 202
        await channel.send([Request(3, "echo", {})])
        assert await channel.receive() == [Response(3, {})]

    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2


async def test_error_in_a_refusal_is_the_response() -> None:
    old = OldServer()

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        if seen.method == "GET":
            await old.handle(seen, wire)
        else:
            await wire.reply({"jsonrpc": "2.0", "error": {"code": INVALID_PARAMS, "message": "no", "data": 5}}, 400)

    async with opened(handle) as (channel, _):
        await channel.send([Request(1, "x")])
        assert await channel.receive() == [ErrorResponse(1, INVALID_PARAMS, "HTTP 400: no", 5)]


@pytest.mark.parametrize("status", [404, 410])
async def test_404_for_a_post_means_a_lost_session(status: int) -> None:
    old = OldServer(status=status)
    async with opened(old.handle) as (channel, _):
        await channel.send([Notification("n")])
        with pytest.raises(ConnectionClosed, match="has forgotten the session"):
            await channel.receive()
        with pytest.raises(ConnectionClosed, match="has forgotten the session"):
            await channel.send([Notification("n")])


async def test_late_post_response_does_not_delay_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some servers respond to the POST only when they have served the request; it can still be cancelled."""
    monkeypatch.setattr("mcptrio.http.client.legacy_sse.POST_ORDER_TIMEOUT", 0.05)
    old = OldServer(hold=trio.Event())
    async with opened(old.handle) as (channel, _):
        await channel.send([Request(1, "echo", {}), Notification("notifications/cancelled", {"requestId": 1})])
        await eventually(lambda: len(old.posted) == 2)
        assert [each["method"] for each in old.posted] == ["echo", "notifications/cancelled"]
        assert old.hold is not None
        old.hold.set()
        assert await channel.receive() == [Response(1, {})]


async def test_messages_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcptrio.http.client.legacy_sse.POST_ORDER_TIMEOUT", 30)

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        if seen.method == "POST":
            await trio.sleep(0.01)
        await old.handle(seen, wire)

    old = OldServer()
    async with opened(handle) as (channel, _):
        await channel.send([Notification(str(number)) for number in range(30)])

        assert [each["method"] for each in old.posted] == [str(number) for number in range(30)]


async def test_flood_of_messages_waits_for_the_reader() -> None:
    """The client buffers no more than a few reads."""
    sent = 0

    async def flood(seen: ReceivedRequest, wire: Wire) -> None:
        nonlocal sent
        await wire.stream()
        await wire.chunk(encode(b"/m", event="endpoint"))
        note = json.dumps({"jsonrpc": "2.0", "method": "n", "params": {"x": "y" * 50_000}}).encode()
        for _ in range(600):
            await wire.chunk(encode(note))
            sent += 1
        await wire.end()

    async with opened(flood) as (channel, _):
        before = -1
        while sent != before or not sent:
            before = sent
            await trio.sleep(0.2)
        assert 0 < sent < 300
        assert len(await receive(channel, 600)) == 600


async def test_closed_channel_raises_connection_closed() -> None:
    old = OldServer()
    async with opened(old.handle) as (channel, web):
        await channel.aclose()
        await channel.aclose()
        with pytest.raises(ConnectionClosed):
            await channel.receive()
        with pytest.raises(ConnectionClosed):
            await channel.send([Notification("a")])
        await eventually(lambda: not web.open)


async def test_closing_wakes_the_receiver() -> None:
    old = OldServer()

    async def wait() -> None:
        with pytest.raises(ConnectionClosed):
            await channel.receive()

    async with opened(old.handle) as (channel, _), trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.sleep(0.02)
        await channel.aclose()


async def test_credentials_are_sent_with_stream_and_posts() -> None:
    old = OldServer()
    async with serving(old.handle) as web:
        url = f"http://me:pw@127.0.0.1:{web.port}/sse"
        async with open_sse_channel(url, headers={"X-Tenant": "a"}) as channel:
            await channel.send([Notification("a")])

        assert {seen.headers["authorization"] for seen in web.seen} == {"Basic bWU6cHc="}
        assert {seen.headers["x-tenant"] for seen in web.seen} == {"a"}
        assert channel.name == f"http://127.0.0.1:{web.port}/sse"
