"""Outgoing requests: answered, timed out, cancelled; afterwards all tables are empty."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from attrs import define
from trio.testing import MockClock

from mcptrio.errors import ConnectionClosed, MCPError, MethodNotFound
from mcptrio.outbox import Outbox
from mcptrio.protocol.connection import Connection
from mcptrio.protocol.events import Peer, ResponseReceived
from mcptrio.protocol.messages import ErrorResponse, Message, Notification, Request, Response
from mcptrio.protocol.model.lifecycle import PingParams
from mcptrio.protocol.revisions.registry import LATEST, LATEST_HANDSHAKE
from mcptrio.runtime.outgoing import CANCEL_NOTICE_TIMEOUT, Outgoing
from mcptrio.serving import Timeouts

__all__: list[str] = []


@define(eq=False)
class Conversation:
    peer: Peer
    connection: Connection
    outgoing: Outgoing
    outbox: Outbox

    @classmethod
    def begin(cls, size: int = 10) -> Conversation:
        peer = Peer(revision=LATEST_HANDSHAKE)
        connection = Connection(serves=lambda capability: True, peer=peer, initialized=True)
        return cls(peer, connection, Outgoing(connection, Timeouts(input=10)), Outbox(size))

    async def ping(self, **options: Any) -> dict[str, Any]:
        return await self.outgoing.request("ping", PingParams(), peer=self.peer, sink=self.outbox, **options)

    def receive(self, message: Message) -> None:
        event = self.connection.receive(message)
        if isinstance(event, ResponseReceived):
            self.outgoing.settle(event)

    async def taken(self) -> Any:
        (message,) = await self.outbox.take()
        return message

    def assert_nothing_left(self) -> None:
        assert self.connection.pending == {}
        assert self.outgoing.status == ()


@pytest.fixture
async def talk() -> Conversation:
    return Conversation.begin()


async def test_result_of_an_outgoing_request_is_returned(talk: Conversation, autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        results: list[dict[str, Any]] = []

        async def ask() -> None:
            results.append(await talk.ping())

        nursery.start_soon(ask)
        request = await talk.taken()
        assert talk.outgoing.status[0].method == "ping"
        talk.receive(Response(request.id, {"a": 1}))
    assert results == [{"a": 1}]
    talk.assert_nothing_left()


async def test_error_response_of_the_peer_is_raised(talk: Conversation, autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            with pytest.raises(MCPError) as raised:
                await talk.ping()
            assert (raised.value.code, raised.value.data) == (-1, "why")

        nursery.start_soon(ask)
        talk.receive(ErrorResponse((await talk.taken()).id, -1, "no", "why"))
    talk.assert_nothing_left()


async def test_timed_out_request_is_cancelled_at_the_peer(talk: Conversation, autojump_clock: MockClock) -> None:
    began = trio.current_time()
    with pytest.raises(trio.TooSlowError):
        await talk.ping()
    assert trio.current_time() - began == pytest.approx(10)
    request, notice = talk.outbox.try_take()
    assert isinstance(request, Request)
    assert isinstance(notice, Notification)
    assert notice.method == "notifications/cancelled"
    assert notice.params is not None
    assert notice.params["requestId"] == request.id
    talk.receive(Response(request.id, {}))
    talk.assert_nothing_left()


async def test_cancelled_request_sends_its_cancellation_shielded(talk: Conversation, autojump_clock: MockClock) -> None:
    with trio.move_on_after(3):
        await talk.ping()
    assert [type(message) for message in talk.outbox.try_take()] == [Request, Notification]
    talk.assert_nothing_left()


async def test_cancel_notice_to_a_blocked_peer_times_out(autojump_clock: MockClock) -> None:
    talk = Conversation.begin(size=1)
    began = trio.current_time()
    with trio.move_on_after(3):
        await talk.ping()
    assert trio.current_time() - began == pytest.approx(3 + CANCEL_NOTICE_TIMEOUT)
    talk.assert_nothing_left()


async def test_unsent_request_is_not_cancelled(autojump_clock: MockClock) -> None:
    talk = Conversation.begin(size=1)
    await talk.outbox.send(Notification("acme/full"))
    began = trio.current_time()
    with pytest.raises(trio.TooSlowError):
        await talk.ping(timeout=2)
    assert trio.current_time() - began == pytest.approx(2)
    assert [message.method for message in talk.outbox.try_take()] == ["acme/full"]  # type: ignore[union-attr]
    talk.assert_nothing_left()


async def test_request_in_a_cancelled_scope_sends_nothing(talk: Conversation, autojump_clock: MockClock) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await talk.ping()
    assert scope.cancelled_caught
    assert talk.outbox.try_take() == []
    talk.assert_nothing_left()


async def test_end_of_the_session_ends_the_wait_for_a_response(talk: Conversation, autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            with pytest.raises(ConnectionClosed, match="gone"):
                await talk.ping()

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        talk.outgoing.close("gone")
    with pytest.raises(ConnectionClosed, match="gone"):
        await talk.ping()
    assert [type(message) for message in talk.outbox.try_take()] == [Request]
    talk.assert_nothing_left()


async def test_request_on_a_closed_sink_leaves_no_state(talk: Conversation, autojump_clock: MockClock) -> None:
    talk.outbox.close()
    with pytest.raises(ConnectionClosed):
        await talk.ping()
    talk.assert_nothing_left()


async def test_request_unknown_to_the_revision_is_not_sent(talk: Conversation, autojump_clock: MockClock) -> None:
    with pytest.raises(MethodNotFound):
        await talk.outgoing.request("acme/x", {}, peer=Peer(revision=LATEST), sink=talk.outbox)
    with pytest.raises(MethodNotFound):
        await talk.outgoing.request("tools/list", PingParams(), peer=talk.peer, sink=talk.outbox)
    assert talk.outbox.try_take() == []
    talk.assert_nothing_left()
