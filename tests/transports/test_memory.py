from __future__ import annotations

import pytest
import trio.testing

from mcptrio.abc import MessageChannel
from mcptrio.errors import ConnectionClosed
from mcptrio.protocol.messages import Batch, ErrorResponse, Malformed, Notification, Request, Response
from mcptrio.serving import MessageLimits
from mcptrio.transports.memory import memory_channel_pair


async def test_messages_cross_in_both_directions() -> None:
    client, server = memory_channel_pair()
    ends: tuple[MessageChannel, MessageChannel] = (client, server)
    assert [end.name for end in ends] == ["memory", "memory"]
    await client.send([Request(1, "ping"), [Notification("a"), Notification("b")]])
    await server.send([Response(1, {})])

    assert await server.receive() == [Request(1, "ping"), Batch((Notification("a"), Notification("b")))]
    assert await client.receive() == [Response(1, {})]


async def test_memory_channel_converts_values_like_json() -> None:
    client, server = memory_channel_pair()
    params = {"list": [1], "tuple": (1, 2), "nan": float("nan")}
    await client.send([Notification("a", params)])
    await client.send([Response(2, {"x": object()})])
    params["list"] = "changed"
    first, second = await server.receive()

    assert first == Notification("a", {"list": [1], "tuple": [1, 2], "nan": None})
    assert isinstance(second, ErrorResponse)


async def test_message_limits_apply() -> None:
    client, server = memory_channel_pair(MessageLimits(bytes=100))
    await client.send([Notification("x" * 100), Notification("a")])
    first, second = await server.receive()

    assert isinstance(first, Malformed)
    assert second == Notification("a")


async def test_send_waits_for_room_and_is_atomic(autojump_clock: trio.testing.MockClock) -> None:
    client, server = memory_channel_pair()
    sent = 0
    with trio.move_on_after(1):
        while True:
            await client.send([Request(sent, "a"), Request(sent, "b")])
            sent += 1
    received = await server.receive()

    assert 0 < sent <= 100
    assert received == [Request(i, method) for i in range(sent) for method in "ab"]


async def test_receive_takes_all_that_has_arrived_and_can_be_cancelled(autojump_clock: trio.testing.MockClock) -> None:
    client, server = memory_channel_pair()
    with trio.move_on_after(1) as scope:
        await server.receive()
    assert scope.cancelled_caught
    for i in range(3):
        await client.send([Request(i, "a")])

    assert await server.receive() == [Request(i, "a") for i in range(3)]


async def test_empty_send_delivers_nothing() -> None:
    client, server = memory_channel_pair()
    await client.send([])
    await client.send([Notification("a")])

    assert await server.receive() == [Notification("a")]


async def test_closing_one_end_ends_the_other() -> None:
    client, server = memory_channel_pair()
    await client.send([Notification("last")])
    await client.aclose()
    await client.aclose()

    assert await server.receive() == [Notification("last")]
    with pytest.raises(trio.EndOfChannel):
        await server.receive()
    with pytest.raises(ConnectionClosed):
        await server.send([Notification("a")])
    with pytest.raises(ConnectionClosed):
        await client.send([Notification("a")])
    with pytest.raises(ConnectionClosed):
        await client.receive()
    await server.aclose()


async def test_closing_wakes_the_waiting_task() -> None:
    client, server = memory_channel_pair()
    ended = []

    async def receive_there() -> None:
        with pytest.raises(trio.EndOfChannel):
            await server.receive()
        ended.append("there")

    async def receive_here() -> None:
        with pytest.raises(ConnectionClosed):
            await client.receive()
        ended.append("here")

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive_there)
            nursery.start_soon(receive_here)
            await trio.testing.wait_all_tasks_blocked()
            await client.aclose()

    assert sorted(ended) == ["here", "there"]
