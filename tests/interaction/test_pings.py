"""Pings in both directions, and peers that stop answering."""

from __future__ import annotations

import trio

from mcptrio import tool
from mcptrio.serving import Timeouts
from tests.interaction.applies import HANDSHAKE, MODERN, only
from tests.interaction.serving import Serve

MOCK_CLOCK = "only in memory is there a mock clock, which skips the waits"


@tool
async def wait(seconds: float) -> str:
    """Wait."""
    await trio.sleep(seconds)
    return "waited"


@only(revisions=HANDSHAKE, because="2026-07-28 has no ping")
async def test_ping_is_answered_at_any_time(serve: Serve) -> None:
    release = trio.Event()

    @tool
    async def hold() -> str:
        """Wait to be let go."""
        await release.wait()
        return "let go"

    peer = await serve(hold)
    call = await peer.start_call("hold")

    assert await peer.request("ping") == {}
    assert call.answer is None
    release.set()
    await call.result()


@only(revisions=HANDSHAKE, transports=["memory"], because=MOCK_CLOCK)
async def test_client_that_answers_pings_stays_connected(serve: Serve) -> None:
    peer = await serve(wait, ping_interval=10)

    await trio.sleep(101)

    pings = [message for message in peer.received if message.get("method") == "ping"]
    assert 9 <= len(pings) <= 10
    assert len({ping["id"] for ping in pings}) == len(pings)
    assert await peer.request("ping") == {}


@only(revisions=HANDSHAKE, transports=["memory"], because=MOCK_CLOCK)
async def test_client_that_stops_answering_pings_is_disconnected(serve: Serve) -> None:
    peer = await serve(wait, ping_interval=10, timeouts=Timeouts(ping=5))
    peer._handle_request = lambda message: None  # type: ignore[method-assign]

    with trio.fail_after(60):
        await peer.ended.wait()

    assert serve.server.status.sessions == ()
    cancelled = [note["requestId"] for note in peer.notes("notifications/cancelled")]
    assert cancelled == [message["id"] for message in peer.received if message.get("method") == "ping"]


@only(revisions=HANDSHAKE, transports=["memory"], because=MOCK_CLOCK)
async def test_one_unanswered_ping_does_not_disconnect(serve: Serve) -> None:
    peer = await serve(wait, ping_interval=10, timeouts=Timeouts(ping=5))
    silent = True
    answer = peer._handle_request

    def handle_request(message: dict[str, object]) -> None:
        nonlocal silent
        if silent:
            silent = False
        else:
            answer(message)

    peer._handle_request = handle_request  # type: ignore[method-assign]
    await trio.sleep(100)

    assert await peer.request("ping") == {}


@only(revisions=HANDSHAKE[1:], transports=["http"], because="the other transports have one stream for everything")
async def test_session_is_pinged_on_its_get_stream(serve: Serve) -> None:
    peer = await serve(wait, ping_interval=0.05)
    await peer.open_stream()

    first = await peer.until("ping")
    second = await peer.until("ping")

    assert first["id"] != second["id"]


@only(
    revisions=MODERN, transports=["memory", "stdio"], because="over HTTP no connection stays open that could be pinged"
)
async def test_client_without_a_handshake_is_not_pinged(serve: Serve) -> None:
    peer = await serve(wait, ping_interval=0.01)

    await peer.call("wait", {"seconds": 0.05})

    assert [message.get("method") for message in peer.received] == [None]
