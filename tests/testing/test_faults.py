"""Each fault affects the messages it is configured for and no others, in both directions, on the autojump clock."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from mcptrio import ConnectionClosed, Context, RequestTimeout, Server, connect
from mcptrio.client import ClientTimeouts
from mcptrio.protocol.jsonrpc import encode
from mcptrio.protocol.messages import (
    Batch,
    ErrorResponse,
    Incoming,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
)
from mcptrio.serving import memory_channel_pair
from mcptrio.testing import Fault, FaultyChannel, cut, delay, drop, duplicate, garble, sometimes
from mcptrio.transports.memory import MemoryChannel

__all__: list[str] = []


def notes(count: int) -> list[Message]:
    return [Notification(f"note/{number}") for number in range(1, count + 1)]


def numbers(messages: list[Incoming]) -> str:
    """Return the numbers of the notifications, and an x for each invalid message, such as ``12x``."""
    return "".join(each.method[-1] if isinstance(each, Notification) else "x" for each in messages)


async def everything(channel: FaultyChannel | MemoryChannel) -> str:
    found = ""
    while True:
        try:
            found += numbers(list(await channel.receive()))
        except trio.EndOfChannel:
            return found + "."
        except ConnectionClosed:
            return found + "!"


async def passed(*faults: Fault, count: int = 5, sending: bool) -> str:
    """Return which of ``count`` messages are delivered, and how the channel ends."""
    ours, theirs = memory_channel_pair()
    sender = FaultyChannel(ours, sent=faults) if sending else ours
    receiver = theirs if sending else FaultyChannel(theirs, received=faults)
    async with trio.open_nursery() as nursery:

        async def send() -> None:
            try:
                for each in notes(count):
                    await sender.send([each])
                await sender.aclose()
            except ConnectionClosed:
                pass

        nursery.start_soon(send)
        found = await everything(receiver)
    await theirs.aclose()
    return found


@pytest.mark.parametrize("sending", [True, False], ids=["sent", "received"])
@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ([], "12345."),
        ([drop(2)], "1345."),
        ([drop("note/4")], "1235."),
        ([drop("note/*")], "."),
        ([drop(lambda message: getattr(message, "method", "") > "note/3")], "123."),
        ([drop()], "."),
        ([drop(1), drop(2)], "345."),
        ([duplicate(2)], "122345."),
        ([duplicate("note/1", times=3), drop(5)], "111234."),
        ([delay(10, 3)], "12345."),
        ([cut(after=5)], "12345"),
        ([cut(after=2)], "12"),
        ([cut(after=0)], ""),
        ([drop(2), cut(after=3)], "13"),
        ([drop(sometimes(0, seed=1))], "12345."),
        ([drop(sometimes(1, seed=1))], "."),
    ],
)
async def test_faults_apply_to_their_messages(
    faults: list[Fault], expected: str, sending: bool, autojump_clock: object
) -> None:
    found = await passed(*faults, sending=sending)

    # A side that cannot receive gets a broken connection; its peer gets an end.
    assert found == expected if expected.endswith(".") else expected + (".", "!")[not sending]


async def test_clean_cut_ends_the_channel_like_a_closed_peer() -> None:
    assert await passed(cut(after=2, clean=True), sending=False) == "12."


@pytest.mark.parametrize("sending", [True, False], ids=["sent", "received"])
@pytest.mark.parametrize(("more", "expected"), [(-1, "1"), (0, "12"), (1, "12")])
async def test_channel_can_be_cut_after_a_number_of_bytes(more: int, expected: str, sending: bool) -> None:
    size = sum(len(encode(each)) + 1 for each in notes(2))
    found = await passed(cut(after_bytes=size + more), sending=sending)

    assert found[:-1] == expected


async def test_cut_applies_to_both_directions() -> None:
    ours, theirs = memory_channel_pair()
    channel = FaultyChannel(ours, sent=[cut(after=1)])
    async with trio.open_nursery() as nursery:
        ends: list[str] = []

        async def receive() -> None:
            ends.append(await everything(channel))

        nursery.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked()
        await channel.send(notes(3))
    with pytest.raises(ConnectionClosed, match="the test has cut the channel after 1 messages"):
        await channel.send(notes(1))

    assert ends == ["!"]
    assert await everything(theirs) == "1."


async def test_messages_after_a_delayed_message_wait(autojump_clock: object) -> None:
    ours, theirs = memory_channel_pair()
    channel = FaultyChannel(theirs, received=[delay(10, 2)])
    await ours.send(notes(3))
    before = trio.current_time()
    assert numbers(list(await channel.receive())) == "1"
    assert trio.current_time() == before
    assert numbers(list(await channel.receive())) == "23"
    assert trio.current_time() == pytest.approx(before + 10)
    await ours.aclose()
    await theirs.aclose()


async def test_cancelled_receive_loses_no_message(autojump_clock: object) -> None:
    ours, theirs = memory_channel_pair()
    channel = FaultyChannel(theirs, received=[delay(10, 1)])
    await ours.send(notes(2))
    before = trio.current_time()
    for _ in range(4):
        with trio.move_on_after(3):
            assert numbers(list(await channel.receive())) == "12"
    assert trio.current_time() == pytest.approx(before + 10)
    await ours.aclose()
    await theirs.aclose()


async def test_sender_waits_for_a_slow_reader(autojump_clock: object) -> None:
    ours, theirs = memory_channel_pair()
    slow = FaultyChannel(theirs, received=[delay(1)])
    before = trio.current_time()
    async with trio.open_nursery() as nursery:

        async def receive() -> None:
            for _ in range(100):
                await slow.receive()

        nursery.start_soon(receive)
        for each in notes(100):
            await ours.send([each])
        assert trio.current_time() - before > 60
    assert trio.current_time() - before == pytest.approx(100)
    await ours.aclose()
    await theirs.aclose()


async def test_garbled_message_is_malformed() -> None:
    ours, theirs = memory_channel_pair()
    channel = FaultyChannel(theirs, received=[garble(2)])
    await ours.send(notes(3))
    first, second, third = await channel.receive()
    await ours.aclose()
    await theirs.aclose()

    assert numbers([first, third]) == "13"
    assert isinstance(second, Malformed)
    with pytest.raises(ValueError, match="garble what the other end receives"):
        FaultyChannel(ours, sent=[garble()])


async def test_fault_of_a_method_applies_to_its_responses() -> None:
    ours, theirs = memory_channel_pair()
    channel = FaultyChannel(ours, received=[drop("a/b")], sent=[drop("c/d")])
    await channel.send([Request(1, "a/b"), Request("1", "e/f")])
    await theirs.receive()
    await theirs.send([Response(1, {}), ErrorResponse("1", -1, "no"), ErrorResponse(None, -1, "no"), Request(1, "c/d")])
    received = await channel.receive()
    await channel.send([Response(1, {}), Notification("last")])
    answered = await theirs.receive()
    await ours.aclose()
    await theirs.aclose()

    assert received == [ErrorResponse("1", -1, "no"), ErrorResponse(None, -1, "no"), Request(1, "c/d")]
    assert answered == [Notification("last")]


async def test_batch_counts_as_one_message() -> None:
    ours, theirs = memory_channel_pair()
    channel = FaultyChannel(theirs, received=[garble(2), drop("note/3")])
    sender = FaultyChannel(ours, sent=[duplicate("note/2")])
    await sender.send([notes(2), notes(1), notes(3)])
    received = await channel.receive()
    await ours.aclose()
    await theirs.aclose()

    assert [type(each) for each in received] == [Batch, Malformed, Batch]


async def test_random_faults_are_reproducible() -> None:
    async def found(seed: int) -> str:
        return await passed(drop(sometimes(0.5, seed=seed)), count=9, sending=True)

    assert await found(1) == await found(1)
    assert len({await found(seed) for seed in range(5)}) > 1


@pytest.mark.parametrize(
    "made",
    [
        lambda: drop(0),
        lambda: delay(-1),
        lambda: delay(float("nan")),
        lambda: duplicate(times=0),
        lambda: cut(),
        lambda: cut(1, after_bytes=1),
        lambda: cut(-1),
        lambda: sometimes(2, seed=1),
    ],
)
def test_invalid_fault_is_refused(made: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        made()  # type: ignore[operator]


# A client and a server with faults between them


async def greet() -> str:
    return "hello"


async def work(ctx: Context) -> str:
    """Work until cancelled."""
    try:
        await trio.sleep_forever()
    finally:
        STOPPED.append(trio.current_time())
    return "never"


STOPPED: list[float] = []


async def test_lost_response_times_out_one_call(autojump_clock: object, caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    server.add_tool(greet)
    ours, theirs = memory_channel_pair()
    caplog.set_level(logging.WARNING)
    faults = [garble(lambda message: isinstance(message, Response) and "content" in message.result)]
    async with server.open() as running, trio.open_nursery() as nursery:
        nursery.start_soon(running.serve, theirs)
        channel = FaultyChannel(ours, received=faults)
        async with connect(channel, timeouts=ClientTimeouts(idle=5)) as client:
            with pytest.raises(RequestTimeout):
                await client.call_tool("greet")
            assert [tool.name async for tool in client.tools()] == ["greet"]
        assert "a line that is not a message" in caplog.text


async def test_handler_ends_at_its_deadline_after_a_lost_cancellation(autojump_clock: object) -> None:
    STOPPED.clear()
    server = Server()
    server.add_tool(work, timeout=100)
    ours, theirs = memory_channel_pair()
    async with server.open() as running, trio.open_nursery() as nursery:
        nursery.start_soon(running.serve, theirs)
        async with connect(FaultyChannel(ours, sent=[drop("notifications/cancelled")])) as client:
            before = trio.current_time()
            with pytest.raises(RequestTimeout):
                await client.call_tool("work", timeout=5)
            assert STOPPED == []
            await trio.sleep(200)
            assert [at - before for at in STOPPED] == [pytest.approx(100)]
