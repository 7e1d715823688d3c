"""The supervisor: its limits, and its shutdown."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import mcptrio
from mcptrio import Context, Server
from mcptrio.abc import SessionRecord
from mcptrio.errors import ConnectionClosed, Overloaded
from mcptrio.outbox import Outbox
from mcptrio.protocol.messages import ErrorResponse, Notification, Request, Response
from mcptrio.serving import ServerLimits, ServerSettings, ThreadStatus, Timeouts, memory_channel_pair
from tests.error_codes import INVALID_PARAMS
from tests.runtime.peers import connected, envelope, open_client, tool

__all__: list[str] = []

INITIALIZE = Request(
    0,
    "initialize",
    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
)


async def endless() -> str:
    await trio.sleep_forever()
    return "unreachable"


async def slow() -> str:
    await trio.sleep(3)
    return "done"


async def test_requests_over_the_server_limit_are_refused(autojump_clock: MockClock) -> None:
    server = Server(settings=ServerSettings(limits=ServerLimits(requests=2)))
    server.add_tool(endless)
    async with connected(server) as one, open_client(server) as other:
        await one.send(tool(1, "endless"))
        await other.send(tool(1, "endless", modern=True))
        await trio.testing.wait_all_tasks_blocked()
        for client in (one, other):
            error = await client.error(tool(2, "endless", modern=client is other))
            assert "2 are in flight on this server" in error.message
        await one.send(Notification("notifications/cancelled", {"requestId": 1}))
        await other.send(Notification("notifications/cancelled", {"requestId": 1}))


@pytest.mark.parametrize("seconds", [0.5, 50])
async def test_shutdown_takes_no_longer_than_its_timeout(autojump_clock: MockClock, seconds: float) -> None:
    server = Server(settings=ServerSettings(timeouts=Timeouts(shutdown=seconds)))
    server.add_tool(endless)
    async with connected(server) as client:
        await client.send(tool(1, "endless"))
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        await server.supervisor.drain()

        assert trio.current_time() - began == pytest.approx(seconds)


async def test_sessions_over_the_limit_are_refused(autojump_clock: MockClock) -> None:
    server = Server(settings=ServerSettings(limits=ServerLimits(sessions=1)))
    async with connected(server):
        _, theirs = memory_channel_pair()
        with pytest.raises(Overloaded, match="1 are open"):
            await server.supervisor.serve(theirs)
        with pytest.raises(Overloaded, match="1 are open"):
            server.supervisor.open_session()


async def test_closed_server_refuses_connections() -> None:
    server = Server()
    assert not hasattr(server, "serve")
    ours, theirs = memory_channel_pair()
    with pytest.raises(RuntimeError, match="the server is not open"):
        await server.supervisor.serve(theirs)
    async with server.open() as running:
        assert running.server is server
    with pytest.raises(RuntimeError, match="the server is not open"):
        await running.serve(theirs)
    await ours.aclose()
    await theirs.aclose()


async def test_server_stop_waits_for_running_requests_then_cancels_them(autojump_clock: MockClock) -> None:
    server = Server(settings=ServerSettings(timeouts=Timeouts(shutdown=5)))
    server.add_tool(slow)
    server.add_tool(endless)
    async with connected(server) as client:
        await client.send(tool(1, "slow"), tool(2, "endless"))
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.supervisor.drain)
            await trio.testing.wait_all_tasks_blocked()
            refused = await client.error(tool(3, "slow"))
            assert refused.data == {"retryAfter": 5.0}
            assert isinstance(await client.next(), Response)
        assert trio.current_time() - began == pytest.approx(5)
        ended = await client.next()
        assert isinstance(ended, ErrorResponse)
        assert (ended.id, ended.message) == (2, "the server is stopping")
        with pytest.raises(trio.EndOfChannel):
            await client.next()


async def test_stopping_an_idle_server_takes_no_time(autojump_clock: MockClock) -> None:
    server = Server(settings=ServerSettings(timeouts=Timeouts(shutdown=50)))
    async with connected(server):
        began = trio.current_time()
        await server.supervisor.drain()
        await server.supervisor.drain()
        assert trio.current_time() == began


async def test_peer_that_never_reads_does_not_delay_the_shutdown(autojump_clock: MockClock) -> None:
    async def flood(ctx: Context) -> str:
        while True:
            await ctx.notify("acme/flood")

    server = Server(settings=ServerSettings(limits=ServerLimits(outbox=2), timeouts=Timeouts(shutdown=5)))
    server.add_tool(flood)
    async with server.open() as running:
        ours, theirs = memory_channel_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(running.serve, theirs)
            await ours.send([tool(1, "flood", modern=True)])
            await trio.testing.wait_all_tasks_blocked()
            began = trio.current_time()
            await server.supervisor.drain()
        assert trio.current_time() - began < 10
        await ours.aclose()
    assert server.status.in_flight == 0


async def test_abandoned_threads_are_counted() -> None:
    started, go_on = threading.Event(), threading.Event()

    def stubborn() -> str:
        started.set()
        go_on.wait(60)
        return "late"

    server = Server(settings=ServerSettings(limits=ServerLimits(threads=3)))
    server.add_tool(stubborn)
    async with server.open(), mcptrio.connect(server) as client:
        with trio.move_on_after(30) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "stubborn")
                await trio.to_thread.run_sync(started.wait)
                nursery.cancel_scope.cancel()
        assert not scope.cancelled_caught
        await client.ping()
        assert server.status.in_flight == 0
        assert server.status.threads == ThreadStatus(busy=1, limit=3)
        go_on.set()
        with trio.fail_after(30):
            while server.status.threads.busy:  # noqa: ASYNC110 - an abandoned thread sets no event
                await trio.sleep(0.01)


async def test_flooding_client_waits_until_its_answers_are_read(autojump_clock: MockClock) -> None:
    served: list[int] = []

    async def count() -> str:
        served.append(1)
        return "x"

    server = Server(settings=ServerSettings(limits=ServerLimits(outbox=5)))
    server.add_tool(count)
    async with connected(server, revision=None) as client:
        with trio.move_on_after(10):
            for id in range(10_000):
                await client.send(tool(id, "count", modern=True))
        assert len(served) < 500


async def test_ended_session_accepts_no_messages(autojump_clock: MockClock) -> None:
    server = Server()
    server.add_tool(slow)
    async with server.open():
        session = server.supervisor.open_session()
        outbox = Outbox()
        session.receive(INITIALIZE, outbox)
        assert isinstance((await outbox.take())[0], Response)
        for before in (False, True):
            if before:
                await trio.testing.wait_all_tasks_blocked()
            session.end("gone")
            late = Outbox()
            assert session.receive(tool(1, "slow"), late)
            with pytest.raises((trio.EndOfChannel, ConnectionClosed)):
                await late.take()
        assert session.ended
        assert server.supervisor.in_flight == 0
        assert session.in_flight == {}


async def test_session_ended_before_it_runs_leaves_no_state(autojump_clock: MockClock) -> None:
    server = Server(settings=ServerSettings(ping_interval=5))
    async with server.open():
        session = server.supervisor.open_session()
        outbox = Outbox()
        session.receive(INITIALIZE, outbox)
        session.end("at once")
        await trio.testing.wait_all_tasks_blocked()
        assert server.status.sessions == ()
        assert server.supervisor.in_flight == 0
        assert outbox.closed


async def test_stored_session_continues(autojump_clock: MockClock) -> None:
    server = Server()
    server.add_tool(slow)
    record = SessionRecord(id="s", revision="2025-06-18", initialized=True, log_level="error")
    async with server.open():
        session = server.supervisor.open_session(record=record)
        outbox = Outbox()
        session.receive(Request(1, "tools/call", {"name": "slow", "arguments": {}}), outbox)
        (answer,) = await outbox.take()
        assert isinstance(answer, Response)
        assert (session.id, session.log_level) == ("s", "error")


@pytest.mark.parametrize("message", [Notification("acme/none"), Notification("notifications/initialized")])
async def test_stateless_notification_is_accepted_and_closed(message: Notification, autojump_clock: MockClock) -> None:
    server = Server()
    async with server.open():
        outbox = Outbox()
        await server.supervisor.answer(message, outbox)
        assert outbox.closed
        assert outbox.try_take() == []


async def test_stateless_message_needs_an_envelope(autojump_clock: MockClock) -> None:
    server = Server()
    async with server.open():
        for request in (INITIALIZE, Request(1, "tools/list"), Request(2, "tools/list", {"_meta": {}})):
            outbox = Outbox()
            await server.supervisor.answer(request, outbox)
            (answer,) = outbox.try_take()
            assert isinstance(answer, ErrorResponse)
            assert answer.code == INVALID_PARAMS


async def test_cancelling_the_caller_cancels_the_request(autojump_clock: MockClock) -> None:
    ended: list[str | None] = []

    async def waits(ctx: Context) -> str:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(ctx.cancel_reason)
        return "unreachable"

    server = Server()
    server.add_tool(waits)
    async with server.open():
        outbox = Outbox()
        with trio.move_on_after(3):
            await server.supervisor.answer(tool(1, "waits", modern=True), outbox)
        await trio.testing.wait_all_tasks_blocked()
        assert len(ended) == 1
        assert outbox.closed
        assert outbox.try_take() == []
        assert server.supervisor.in_flight == 0


async def test_plugin_receives_notifications_of_every_transport(autojump_clock: MockClock) -> None:
    received: list[Any] = []

    async def hear(params: Any) -> None:
        received.append(params["n"])

    server = Server()
    server.add_method(hear, "acme/heard", notification=True)
    async with connected(server) as client:
        await client.send(Notification("acme/heard", {"n": 1}))
        await server.supervisor.answer(Notification("acme/heard", {"n": 2, "_meta": envelope()}), Outbox())
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(received) == [1, 2]
