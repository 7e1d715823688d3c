"""Notifications to all sessions: sent without waiting, and once for many changes."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from mcptrio import Server
from mcptrio.errors import LocalProtocolError
from mcptrio.protocol.messages import Notification, Request
from mcptrio.serving import ServerLimits, ServerSettings, memory_channel_pair
from tests.runtime.peers import connected, handshake, open_client

__all__: list[str] = []


async def test_peer_that_does_not_read_does_not_delay_a_broadcast(autojump_clock: trio.testing.MockClock) -> None:
    server = Server(settings=ServerSettings(limits=ServerLimits(outbox=1)))
    async with connected(server) as client:
        deaf, theirs = memory_channel_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.supervisor.serve, theirs)
            await deaf.send([Request(1, "initialize", INITIALIZE), Notification("notifications/initialized")])
            await trio.testing.wait_all_tasks_blocked()
            with trio.fail_after(1):
                for number in range(500):
                    await server.broadcast("notifications/own", {"number": number})
                    notification = await client.next()
                    assert notification == Notification("notifications/own", {"number": number})
            nursery.cancel_scope.cancel()
        await deaf.aclose()


async def test_broadcast_of_a_non_finite_number_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    server = Server()
    async with connected(server) as client:
        with pytest.raises(LocalProtocolError, match=r"expected a finite number, got nan.a"):
            await server.broadcast("notifications/own", {"a": float("nan")})
        await client.expect_nothing()


async def test_concurrent_changes_are_notified_once(autojump_clock: trio.testing.MockClock) -> None:
    async def work() -> str:
        return ""

    server = Server()
    server.announce_lists()
    async with connected(server) as client, open_client(server) as other:
        await handshake(other)
        for number in range(100):
            server.add_tool(work, name=f"work{number}")
        for each in (client, other):
            assert await each.next() == Notification("notifications/tools/list_changed")
            await each.expect_nothing()


INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "deaf", "version": "1"}}
