from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from mcptrio.abc import MessageSink
from mcptrio.errors import ConnectionClosed
from mcptrio.outbox import MAX_COALESCED, Outbox
from mcptrio.protocol.messages import Message, Notification, Response


def note(text: str | int) -> Notification:
    return Notification(str(text))


def result(id: int) -> Response:
    return Response(id, {})


def test_outbox_implements_the_sink_protocol() -> None:
    sink: MessageSink = Outbox()

    assert sink is not None


def test_capacity_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        Outbox(0)


async def test_take_returns_all_messages_in_order() -> None:
    outbox = Outbox()
    batch = [result(1), result(2)]
    await outbox.send(note("a"))
    await outbox.send(batch)
    await outbox.send(result(3))

    assert len(outbox) == 3
    assert await outbox.take() == [note("a"), batch, result(3)]
    assert outbox.try_take() == []


async def test_send_does_not_yield_while_there_is_room() -> None:
    outbox = Outbox()
    with trio.CancelScope() as scope:
        scope.cancel()
        await outbox.send(note("a"))

    assert not scope.cancelled_caught
    assert outbox.try_take() == [note("a")]


async def test_take_waits_for_a_message(autojump_clock: trio.testing.MockClock) -> None:
    outbox = Outbox()
    taken: list[object] = []

    async def write() -> None:
        taken.extend(await outbox.take())
        taken.extend(await outbox.take())

    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            await trio.testing.wait_all_tasks_blocked()
            await outbox.send(note("a"))
            outbox.send_latest(note("b"), "k")
            await trio.testing.wait_all_tasks_blocked()
            outbox.send_latest(note("c"), "k")

    assert taken == [note("a"), note("b"), note("c")]


async def test_senders_wait_in_order_for_a_full_outbox(autojump_clock: trio.testing.MockClock) -> None:
    outbox = Outbox(2)
    taken = []

    async def send(text: str) -> None:
        await outbox.send(note(text))

    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            for text in "abcde":
                nursery.start_soon(send, text)
                await trio.testing.wait_all_tasks_blocked()
            assert len(outbox) == 2
            for left in (2, 1, 0):
                # Waiting senders have moved up before new ones.
                taken.append(outbox.try_take())
                assert len(outbox) == left

    assert taken == [[note("a"), note("b")], [note("c"), note("d")], [note("e")]]


async def test_cancelled_waiting_send_queues_nothing(autojump_clock: trio.testing.MockClock) -> None:
    outbox = Outbox(1)
    await outbox.send(note("a"))
    with trio.move_on_after(1) as scope:
        await outbox.send(note("b"))

    assert scope.cancelled_caught
    assert outbox.try_take() == [note("a")]
    assert outbox.try_take() == []


async def test_send_that_got_room_before_its_cancellation_is_queued() -> None:
    outbox = Outbox(1)
    await outbox.send(note("a"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.send, note("b"))
        await trio.testing.wait_all_tasks_blocked()
        assert outbox.try_take() == [note("a")]
        nursery.cancel_scope.cancel()

    assert outbox.try_take() == [note("b")]


async def test_cancelled_take_loses_nothing() -> None:
    outbox = Outbox()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.take)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        await outbox.send(note("a"))
    with trio.CancelScope() as scope:
        scope.cancel()
        await outbox.take()

    assert scope.cancelled_caught
    assert await outbox.take() == [note("a")]


async def test_offer_is_queued_like_a_message_while_there_is_room() -> None:
    outbox = Outbox()
    outbox.send_latest(note("50%"), "progress")
    await outbox.send(note("log"))
    outbox.send_latest(note("60%"), "progress")
    await outbox.send(result(1))

    assert await outbox.take() == [note("50%"), note("log"), note("60%"), result(1)]


async def test_full_outbox_holds_back_and_coalesces_offers() -> None:
    """A new offer replaces the last one with its key, and does not overtake messages that were sent later."""
    outbox = Outbox(4)
    outbox.send_latest(note("50%"), "progress")
    outbox.send_latest(note("60%"), "progress")
    await outbox.send(note("log"))
    outbox.send_latest(note("1 MB"), "download")
    outbox.send_latest(note("x"), "other")
    outbox.send_latest(note("y"), "other")
    outbox.send_latest(note("70%"), "progress")
    outbox.send_latest(note("80%"), "progress")

    assert outbox.try_take() == [note("50%"), note("80%"), note("log"), note("1 MB")]
    assert outbox.try_take() == [note("y")]


async def test_coalesced_messages_are_limited_and_sent_after_close() -> None:
    outbox = Outbox(1)
    await outbox.send(note("first"))
    for number in range(MAX_COALESCED + 10):
        outbox.send_latest(note(str(number)), number)
    outbox.close()

    assert outbox.try_take() == [note("first"), *(note(str(number)) for number in range(MAX_COALESCED))]


async def test_offer_after_a_take_is_a_new_message() -> None:
    outbox = Outbox(1)
    outbox.send_latest(note("50%"), "progress")
    assert outbox.try_take() == [note("50%")]
    await outbox.send(note("log"))
    outbox.send_latest(note("60%"), "progress")

    assert outbox.try_take() == [note("log")]
    assert outbox.try_take() == [note("60%")]


async def test_queued_messages_are_sent_after_close() -> None:
    outbox = Outbox()
    await outbox.send(note("a"))
    assert not outbox.closed
    outbox.close()
    outbox.close()

    assert outbox.closed
    with pytest.raises(ConnectionClosed):
        await outbox.send(note("b"))
    outbox.send_latest(note("c"), "k")
    assert await outbox.take() == [note("a")]
    with pytest.raises(trio.EndOfChannel):
        await outbox.take()
    assert outbox.try_take() == []


async def test_close_wakes_all_senders_and_readers(autojump_clock: trio.testing.MockClock) -> None:
    full, empty = Outbox(1), Outbox()
    await full.send(note("a"))
    ended = []

    async def send() -> None:
        with pytest.raises(ConnectionClosed):
            await full.send(note("b"))
        ended.append("send")

    async def take() -> None:
        with pytest.raises(trio.EndOfChannel):
            await empty.take()
        ended.append("take")

    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            nursery.start_soon(send)
            nursery.start_soon(take)
            await trio.testing.wait_all_tasks_blocked()
            full.close()
            empty.close()

    assert sorted(ended) == ["send", "send", "take"]
    assert full.try_take() == [note("a")]


async def test_abort_drops_queued_messages(autojump_clock: trio.testing.MockClock) -> None:
    outbox, empty = Outbox(1), Outbox()
    await outbox.send(note("a"))
    ended = []

    async def send() -> None:
        with pytest.raises(ConnectionClosed):
            await outbox.send(note("b"))
        ended.append("send")

    async def take() -> None:
        with pytest.raises(ConnectionClosed):
            await empty.take()
        ended.append("take")

    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            nursery.start_soon(take)
            await trio.testing.wait_all_tasks_blocked()
            outbox.abort()
            empty.abort()

    assert sorted(ended) == ["send", "take"]
    assert outbox.try_take() == []
    with pytest.raises(ConnectionClosed):
        await outbox.take()
    with pytest.raises(ConnectionClosed):
        await outbox.send(note("c"))


async def test_wait_for_room_ends_when_a_send_would_not_wait(autojump_clock: trio.testing.MockClock) -> None:
    """Closing ends the wait too."""
    outbox = Outbox(1)
    await outbox.wait_for_room()
    await outbox.send(note("a"))
    passed = []

    async def wait() -> None:
        await outbox.wait_for_room()
        passed.append(len(outbox))

    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.send, note("b"))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            outbox.try_take()
            await trio.testing.wait_all_tasks_blocked()
            assert passed == []
            outbox.try_take()
            await trio.testing.wait_all_tasks_blocked()
            assert passed == [0]

        async def wait_in_vain() -> None:
            with pytest.raises(ConnectionClosed):
                await outbox.wait_for_room()

        await outbox.send(note("c"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_in_vain)
            await trio.testing.wait_all_tasks_blocked()
            outbox.close()


async def test_reader_runs_with_any_number_of_senders(autojump_clock: trio.testing.MockClock) -> None:
    outbox = Outbox(1)

    async def send() -> None:
        while True:
            await outbox.send(note("a"))

    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(send)
            nursery.start_soon(take_for_ever, outbox)
            await trio.testing.wait_all_tasks_blocked(0.01)
            await outbox.wait_for_room()
            nursery.cancel_scope.cancel()


async def take_for_ever(outbox: Outbox) -> None:
    while True:
        await outbox.take()
        await trio.sleep(0.1)


async def test_senders_wait_at_the_byte_limit() -> None:
    outbox = Outbox(max_bytes=2000)
    large = Response(1, {"text": "x" * 1500})
    await outbox.send(large)
    await outbox.send(large)
    assert outbox.full
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.send, result(1))
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught
    assert outbox.try_take() == [large, large]
    assert not outbox.full


async def test_message_over_the_byte_limit_is_sent() -> None:
    outbox = Outbox(max_bytes=10)
    large = Response(1, {"text": "x" * 1500})
    await outbox.send(large)

    assert outbox.try_take() == [large]


async def test_replacing_offer_updates_the_queued_bytes() -> None:
    outbox = Outbox(2, max_bytes=1000)
    outbox.send_latest(Notification("n", {"text": "x" * 900}), "key")
    await outbox.send(result(1))
    assert outbox.full
    outbox.send_latest(Notification("n", {"text": "x" * 990}), "key")
    assert outbox.full
    outbox.try_take()
    assert not outbox.full


steps = st.lists(
    st.tuples(st.sampled_from(["send", "latest", "latest", "take"]), st.integers(0, 2)),
    max_size=60,
)


@given(steps, st.integers(1, 5))
def test_any_sequence_keeps_the_order(steps: Sequence[tuple[str, int]], bound: int) -> None:
    """All results arrive in order, and of each key the taken offers are in order."""

    async def play() -> None:
        outbox = Outbox(bound)
        sent: list[tuple[str, int]] = []
        out: list[Message | Sequence[Message]] = []
        newest: dict[int, int] = {}
        async with trio.open_nursery() as nursery:
            for number, (step, key) in enumerate(steps):
                if step == "send":
                    sent.append(("send", number))
                    nursery.start_soon(outbox.send, Response(number, {"after": dict(newest)}))
                    await trio.testing.wait_all_tasks_blocked()
                elif step == "latest":
                    if len(outbox) < bound:
                        newest[key] = number  # it was accepted, so it comes before what is sent from now on
                    outbox.send_latest(Notification(str(key), {"number": number}), key)
                else:
                    out.extend(outbox.try_take())
                    await trio.testing.wait_all_tasks_blocked()
                assert len(outbox) <= bound
            while taken := outbox.try_take():
                out.extend(taken)

        seen: dict[int, int] = {}
        for message in out:
            if isinstance(message, Notification):
                assert message.params is not None
                key = int(message.method)
                assert message.params["number"] > seen.get(key, -1)
                seen[key] = message.params["number"]
            else:
                assert isinstance(message, Response)
                for key, number in message.result["after"].items():
                    assert seen.get(key, -1) >= number, "a replaceable message came out after a later result"
        assert [("send", each.id) for each in out if isinstance(each, Response)] == sent

    trio.run(play)


async def test_single_message_bypasses_the_queue() -> None:
    written: list[Message] = []

    def write(message: Message) -> bool:
        written.append(message)
        return True

    outbox = Outbox(write_now=write)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.take)
        await trio.testing.wait_all_tasks_blocked()

        assert outbox.send_now(result(1))
        assert written == [result(1)]
        assert len(outbox) == 0
        nursery.cancel_scope.cancel()


async def test_message_is_queued_while_others_are_queued_or_being_written() -> None:
    outbox = Outbox(write_now=lambda message: pytest.fail(f"{message} was written"))

    assert not outbox.send_now(result(1)), "the writer is at work elsewhere"
    await outbox.send(result(2))
    assert not outbox.send_now(result(3)), "one is queued"
    await outbox.take()
    outbox.close()
    assert not outbox.send_now(result(4)), "closed"


async def test_message_not_written_at_once_stays_queued() -> None:
    outbox = Outbox(write_now=lambda _: False)
    plain = Outbox()
    async with trio.open_nursery() as nursery:
        for each in (outbox, plain):
            nursery.start_soon(each.take)
        await trio.testing.wait_all_tasks_blocked()

        assert not outbox.send_now(result(1))
        assert not plain.send_now(result(1))
        nursery.cancel_scope.cancel()
