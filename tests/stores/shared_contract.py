"""The contract of stores that several replicas share: bus, fallback events, effects, proofs and quotas.

A test module of an engine imports these functions and has the fixture ``replica``, which opens the stores of one more
replica on the same data.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from socket import gethostname
from typing import Protocol

import pytest
import trio
import trio.lowlevel

from mcptrio.abc import (
    INBOX_MESSAGE,
    Bus,
    EffectState,
    EffectStore,
    QuotaStore,
    ReplayStore,
    Stores,
    session_topic,
    wake_message,
)
from mcptrio.errors import ConnectionClosed

__all__ = [
    "Replica",
    "TopicListener",
    "eventually",
    "test_another_replica_does_not_write_a_stream",
    "test_appends_and_inboxes_wake_readers_on_other_replicas",
    "test_bus_under_load_loses_nothing_without_saying_so",
    "test_effect_of_a_replica_that_has_ended_is_lost",
    "test_effect_that_was_given_back_runs_again",
    "test_fifty_tasks_on_two_replicas_run_an_effect_once",
    "test_message_reaches_the_followers_of_all_replicas_once",
    "test_new_follower_is_notified_of_possibly_missed_messages",
    "test_proof_is_used_once_over_all_replicas",
    "test_quota_holds_over_all_replicas",
    "test_refused_call_gets_a_wait_and_uses_no_quota",
    "test_replica_that_closes_leaves_its_streams_with_their_wills",
    "test_replicas_count_each_other",
    "test_result_is_found_by_other_replicas",
]

WAIT_TIMEOUT = 20.0


class Replica(Protocol):
    def __call__(self) -> AbstractAsyncContextManager[Stores]: ...


class TopicListener:
    """The messages of a topic that a replica has received."""

    def __init__(self, stores: Stores, topic: str) -> None:
        assert stores.bus is not None
        self.messages: list[bytes | None] = []
        self.stop = stores.bus.follow(topic, self.messages.append)

    def count(self, message: bytes | None) -> int:
        return self.messages.count(message)

    async def begin(self) -> None:
        """Wait until messages of other replicas arrive."""
        await eventually(lambda: None in self.messages, "the subscription begins")
        self.messages.clear()


async def eventually(is_so: Callable[[], bool], what: str, seconds: float = WAIT_TIMEOUT) -> None:
    """Wait until a function returns true."""
    with trio.move_on_after(seconds):
        while not is_so():  # noqa: ASYNC110 - another process changes it
            await trio.sleep(0.005)
        return
    raise AssertionError(f"not within {seconds:g} s: {what}")


def bus(stores: Stores) -> Bus:
    assert stores.bus is not None
    return stores.bus


def effects(stores: Stores) -> EffectStore:
    assert stores.effects is not None
    return stores.effects


def replays(stores: Stores) -> ReplayStore:
    assert stores.replays is not None
    return stores.replays


def quotas(stores: Stores) -> QuotaStore:
    assert stores.quotas is not None
    return stores.quotas


async def test_replicas_count_each_other(replica: Replica) -> None:
    async with replica() as one:
        assert one.is_shared
        assert one.status().is_reachable
        async with replica() as two:
            assert two.status().replicas == 2
            await eventually(lambda: one.status().replicas == 2, "the first sees the second")
            for each in (one, two):
                elder, younger = each.status().live
                assert (elder.host, elder.process) == (younger.host, younger.process) == (gethostname(), os.getpid())
                assert elder.id != younger.id
                assert elder.age is not None
                assert younger.age is not None
                assert WAIT_TIMEOUT > elder.age >= younger.age >= 0
                assert all(WAIT_TIMEOUT > (replica.heartbeat or 0.0) >= 0 for replica in (elder, younger))
            before = two.status().live[0].id
        await eventually(lambda: one.status().replicas == 1, "the second has left")
        assert [each.id for each in one.status().live] == [before]


async def test_message_reaches_the_followers_of_all_replicas_once(replica: Replica) -> None:
    async with replica() as one, replica() as two:
        here, there, other = TopicListener(one, "topic"), TopicListener(two, "topic"), TopicListener(two, "other")
        for each in (here, there, other):
            await each.begin()
        bus(one).publish("topic", b"1")
        assert here.messages == [b"1"]
        await eventually(lambda: b"1" in there.messages, "the message arrives")
        bus(two).publish("topic", b"2")
        await eventually(lambda: b"2" in here.messages, "the answer arrives")
        here.stop()
        bus(two).publish("topic", b"3")
        bus(one).publish("topic", b"4")
        await eventually(lambda: b"4" in there.messages, "the last message arrives")

        assert here.messages == [b"1", b"2"]
        # The order of messages of different replicas is not determined.
        assert sorted(there.messages, key=str) == [b"1", b"2", b"3", b"4"]
        assert other.messages == []


async def test_new_follower_is_notified_of_possibly_missed_messages(replica: Replica) -> None:
    async with replica() as one, replica() as two:
        there = TopicListener(two, "topic")
        # Before the subscription has begun.
        bus(one).publish("topic", b"early")
        await eventually(lambda: None in there.messages, "it is told to look")
        bus(one).publish("topic", b"late")
        await eventually(lambda: b"late" in there.messages, "messages arrive")


async def test_bus_under_load_loses_nothing_without_saying_so(replica: Replica) -> None:
    async with replica() as one, replica() as two:
        there = TopicListener(two, "topic")
        await there.begin()
        for burst in range(20):
            for at in range(100):
                bus(one).publish("topic", b"%d" % (burst * 100 + at))
            await trio.lowlevel.checkpoint()
        await eventually(lambda: b"1999" in there.messages or None in there.messages, "the last message or a loss")

        expected: list[bytes | None] = [b"%d" % at for at in range(2000)]
        await eventually(lambda: there.messages == expected or None in there.messages, "all messages or a loss")


async def test_appends_and_inboxes_wake_readers_on_other_replicas(replica: Replica) -> None:
    async with replica() as one, replica() as two:
        here, there = TopicListener(one, session_topic("s")), TopicListener(two, session_topic("s"))
        await here.begin()
        await there.begin()
        event = await one.events.append("s", "x", b"1", will=b"w")
        await eventually(lambda: wake_message("x") in there.messages, "the reader is woken")
        assert (await two.events.read("s", "x", 0))[0] == [event]
        await two.events.put("s", b"an answer")
        await eventually(lambda: INBOX_MESSAGE in here.messages, "the inbox is announced")
        assert await one.events.inbox("s", 0) == ([b"an answer"], 1)

        assert here.messages == [wake_message("x"), INBOX_MESSAGE]
        assert there.messages == [wake_message("x"), INBOX_MESSAGE]


async def test_another_replica_does_not_write_a_stream(replica: Replica) -> None:
    async with replica() as one, replica() as two:
        event = await one.events.append("s", "x", b"1")
        with pytest.raises(ConnectionClosed):
            await two.events.append("s", "x", b"2")
        await two.events.settle("s", "x")
        assert await two.events.read("s", "x", 0) == ([event], False)


async def test_replica_that_closes_leaves_its_streams_with_their_wills(replica: Replica) -> None:
    async with replica() as two:
        there = TopicListener(two, session_topic("s"))
        await there.begin()
        async with replica() as one:
            await one.events.append("s", "x", b"1", will=b"gone")
            await one.events.append("s", "y", b"1", last=True)
        await eventually(lambda: there.count(wake_message("x")) >= 2, "the reader is woken by the fallback event")
        events, is_last = await two.events.read("s", "x", 0)
        assert ([event.data for event in events], is_last) == ([b"1", b"gone"], True)


async def test_result_is_found_by_other_replicas(replica: Replica) -> None:
    async with replica() as one, replica() as two:
        assert (await effects(one).claim("call", "a")).state is EffectState.CLAIMED
        assert (await effects(two).claim("call", "a")).state is EffectState.RUNNING
        assert (await effects(one).claim("call", "a")).state is EffectState.RUNNING
        assert (await effects(two).claim("call", "b")).state is EffectState.CLAIMED
        await effects(one).finish("call", "a", b"D result \x00")

        claim = await effects(two).claim("call", "a")
        assert (claim.state, claim.result) == (EffectState.DONE, b"D result \x00")
        # A result stays.
        await effects(one).release("call", "a")
        assert (await effects(one).claim("call", "a")).state is EffectState.DONE


async def test_effect_that_was_given_back_runs_again(replica: Replica) -> None:
    async with replica() as one, replica() as two:
        assert (await effects(one).claim("call", "a")).state is EffectState.CLAIMED
        await effects(two).release("call", "a")
        assert (await effects(two).claim("call", "a")).state is EffectState.RUNNING
        await effects(one).release("call", "a")
        assert (await effects(two).claim("call", "a")).state is EffectState.CLAIMED


async def test_effect_of_a_replica_that_has_ended_is_lost(replica: Replica) -> None:
    async with replica() as two:
        async with replica() as one:
            await effects(one).claim("call", "a")
            await effects(one).claim("call", "b")
            await effects(one).finish("call", "b", b"result")
        assert (await effects(two).claim("call", "a")).state is EffectState.LOST
        assert (await effects(two).claim("call", "b")).state is EffectState.DONE


async def test_fifty_tasks_on_two_replicas_run_an_effect_once(replica: Replica) -> None:
    runs: list[int] = []
    results: list[bytes] = []

    async def run(stores: Stores, at: int) -> None:
        while True:
            claim = await effects(stores).claim("call", "a")
            if claim.state is EffectState.CLAIMED:
                runs.append(at)
                await trio.sleep(0.05)
                await effects(stores).finish("call", "a", b"%d" % at)
                results.append(b"%d" % at)
                return
            if claim.state is EffectState.DONE:
                results.append(claim.result)
                return
            assert claim.state is EffectState.RUNNING
            await trio.sleep(0.02)

    async with replica() as one, replica() as two:
        async with trio.open_nursery() as nursery:
            for at in range(50):
                nursery.start_soon(run, (one, two)[at % 2], at)

    assert len(runs) == 1
    assert results == [b"%d" % runs[0]] * 50


async def test_proof_is_used_once_over_all_replicas(replica: Replica) -> None:
    firsts: list[bool] = []

    async def use(stores: Stores) -> None:
        firsts.append(await replays(stores).use("proof", 60))

    async with replica() as one, replica() as two:
        async with trio.open_nursery() as nursery:
            for at in range(50):
                nursery.start_soon(use, (one, two)[at % 2])
        assert sorted(firsts) == [False] * 49 + [True]
        assert await replays(one).use("another", 0.2)
        with trio.fail_after(WAIT_TIMEOUT):
            # A proof may be used again after it has expired.
            while not await replays(two).use("another", 0.2):  # noqa: ASYNC110 - only the engine knows
                await trio.sleep(0.05)


async def test_refused_call_gets_a_wait_and_uses_no_quota(replica: Replica) -> None:
    async with replica() as one:
        taken = [await quotas(one).take("q", count=2, seconds=10, burst=3) for _ in range(5)]
        assert taken[:3] == [0.0, 0.0, 0.0]
        # A refused call takes nothing, so the wait does not grow.
        assert 4 < taken[4] <= taken[3] <= 5
        assert await quotas(one).take("other", count=2, seconds=10, burst=1) == 0.0


async def test_quota_holds_over_all_replicas(replica: Replica) -> None:
    """Two replicas take what they can for a while, and get what one would."""
    taken = 0
    seconds = 2.0

    async def take(stores: Stores) -> None:
        nonlocal taken
        while trio.current_time() < end:
            wait = await quotas(stores).take("q", count=100, seconds=1, burst=1)
            if wait == 0:
                taken += 1
            else:
                await trio.sleep(min(wait, max(0.0, end - trio.current_time())))

    async with replica() as one, replica() as two:
        began = trio.current_time()
        end = began + seconds
        async with trio.open_nursery() as nursery:
            for stores in (one, two, one, two):
                nursery.start_soon(take, stores)
        elapsed = trio.current_time() - began
    # A busy machine takes less than it may, and never more.
    assert taken <= 100 * elapsed * 1.05 + 1
    assert taken >= 100 * seconds * 0.5
