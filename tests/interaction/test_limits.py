"""Limits: requests over a limit get clear errors, and the others continue."""

from __future__ import annotations

import pytest
import trio
from attrs import asdict, define, field

from mcptrio import Server, connect, tool
from mcptrio.errors import Overloaded, RequestFailed
from mcptrio.serving import ServerLimits, memory_channel_pair
from mcptrio.types import CallToolResult
from tests.error_codes import INTERNAL_ERROR
from tests.interaction.applies import HANDSHAKE, only
from tests.interaction.client import INFO, Call
from tests.interaction.serving import Serve


@define
class Hold:
    """Tools that wait until they are released."""

    release: trio.Event = field(factory=trio.Event)

    @tool
    async def hold(self) -> str:
        """Wait."""
        await self.release.wait()
        return "let go"


async def _refused(call: Call, limit: str) -> None:
    error = await call.error()

    assert error["code"] == INTERNAL_ERROR
    assert limit in error["message"]
    assert error["data"]["retryAfter"] > 0
    if call.exchange is not None:
        assert call.exchange.status == 503
        assert int(call.exchange.headers["retry-after"]) >= 1


async def test_requests_over_the_session_limit_are_refused(serve: Serve) -> None:
    hold = Hold()
    peer = await serve(plugins=[hold], limits=ServerLimits(requests_per_session=2))
    calls = [await peer.start_call("hold") for _ in range(2)]
    await peer.eventually(lambda: serve.server.status.in_flight == 2)

    if peer.handshake or not peer.http:
        await _refused(await peer.start("tools/list"), "2 are in flight in this session")
    hold.release.set()

    for call in calls:
        await call.result()
    assert (await peer.request("tools/list"))["tools"]


async def test_requests_over_the_server_limit_are_refused(serve: Serve) -> None:
    hold = Hold()
    peer = await serve(plugins=[hold], limits=ServerLimits(requests=2))
    other = await serve.connect()
    calls = [await each.start_call("hold") for each in (peer, other)]
    await peer.eventually(lambda: serve.server.status.in_flight == 2)

    await _refused(await peer.start("tools/list"), "2 are in flight on this server")
    hold.release.set()

    for call in calls:
        await call.result()
    assert (await peer.request("tools/list"))["tools"]


async def test_rate_limit_error_differs_from_a_busy_server(serve: Serve) -> None:
    peer = await serve(plugins=[Hold()], config={"Hold": {"rate": 0.01}})
    first = await peer.start_call("hold")
    await peer.eventually(lambda: serve.server.status.in_flight == 1)
    second = await peer.start_call("hold")
    error = await second.error()

    assert error["data"]["reason"] == "rateLimited"
    assert 0 < error["data"]["retryAfter"] <= 100
    if second.exchange is not None:
        assert second.exchange.status == 429
        assert int(second.exchange.headers["retry-after"]) >= 1
    await first.cancel()


@only(revisions=HANDSHAKE, transports=["http"], because="elsewhere the session is the channel itself")
async def test_sessions_over_the_limit_are_refused_over_http(serve: Serve) -> None:
    hold = Hold()
    await serve.start(plugins=[hold], limits=ServerLimits(sessions=1))
    first = await serve.connect()
    # An idle session would be released for another one.
    call = await first.start_call("hold")
    await first.eventually(lambda: serve.server.status.in_flight == 1)
    second = await serve.connect(begin=False)

    params = {"protocolVersion": second.revision, "capabilities": {}, "clientInfo": INFO}
    await _refused(await second.start("initialize", params), "1 are open")
    hold.release.set()
    await call.result()

    await second.begin()
    assert (await second.request("tools/list"))["tools"]


@only(transports=["memory"], because="over HTTP the session is refused; over a channel, the channel")
async def test_channels_over_the_limit_are_refused(serve: Serve) -> None:
    peer = await serve(plugins=[Hold()], limits=ServerLimits(sessions=1))
    _, theirs = memory_channel_pair()

    with pytest.raises(Overloaded, match="1 are open"):
        await serve.runnings[-1].serve(theirs)

    assert (await peer.request("tools/list"))["tools"]


@only(transports=["memory", "stdio"], because="over HTTP each answer has its own stream")
async def test_client_that_floods_without_reading_is_blocked(serve: Serve) -> None:
    peer = await serve(plugins=[Hold()], limits=ServerLimits(outbox=10, requests_per_session=5000))

    calls = [await peer.start("tools/list") for _ in range(500)]

    for call in calls:
        await call.result()


def test_every_limit_has_a_default() -> None:
    bounds = asdict(ServerLimits())

    assert len(bounds) >= 10
    assert all(value > 0 for value in bounds.values())


async def test_result_nested_too_deeply_fails_its_call_only() -> None:
    class Deep:
        @tool
        async def nest(self, levels: int) -> CallToolResult:
            value: dict[str, object] = {}
            for _ in range(levels):
                value = {"in": value}
            return CallToolResult(content=(), structured_content=value)

    server = Server(plugins=[Deep()])
    async with server.open(), connect(server) as client:
        with trio.fail_after(30):
            # Deeper than the server accepts, but not too deep for the client.
            result = await client.call_tool("nest", {"levels": 100})
            assert "in" in str(result.structured_content)
            with pytest.raises(RequestFailed, match="nested too deeply: the limit is 128 levels"):
                await client.call_tool("nest", {"levels": 200})
            await client.call_tool("nest", {"levels": 1})


async def test_memory_of_requests_in_flight_is_bounded(serve: Serve) -> None:
    """Ended requests release their share."""
    hold = Hold()
    peer = await serve(plugins=[hold], limits=ServerLimits(held_bytes=100_000))
    fat = {"name": "hold", "arguments": {}, "more": "x" * 60_000}
    call = await peer.start("tools/call", fat)
    await peer.eventually(lambda: serve.server.status.in_flight == 1)

    await _refused(await peer.start("tools/call", fat), "too much memory")
    assert (await peer.request("tools/list"))["tools"]
    hold.release.set()
    await call.result()

    await (await peer.start("tools/call", fat)).result()
