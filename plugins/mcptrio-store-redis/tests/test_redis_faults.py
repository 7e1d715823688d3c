"""What happens when Redis is killed, stalled, filled or cut off, and when a replica dies."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.lowlevel
from redis.exceptions import BusyLoadingError
from redis.exceptions import ConnectionError as RedisConnectionError

from mcptrio.abc import EffectState, SessionRecord, session_topic, wake_message
from mcptrio.errors import ConnectionClosed, Overloaded, StoreFailed
from mcptrio.stores import StoreSettings, open_stores
from tests.engines.redis_server import RedisServer, until
from tests.replicas.fault_proxy import fault_proxy
from tests.stores.concurrent_checks import entered, run_concurrently
from tests.stores.shared_contract import TopicListener, eventually

from .conftest import DURABLE, new_prefix, opened
from .replica_process import ReplicaProcess

__all__: list[str] = []

# While it loads, the engine answers after each kilobyte. By default, it answers only after two megabytes.
EAGER = "--loading-process-events-interval-bytes", "1024"
RECORD = SessionRecord(id="s", revision="a revision")


def is_loading(server: RedisServer) -> bool:
    try:
        server.command("PING")
    except BusyLoadingError:
        return True
    except RedisConnectionError:
        return False
    raise AssertionError("it has already loaded")


async def in_thread(function: object) -> None:
    assert callable(function)
    await trio.to_thread.run_sync(function)


async def an_engine_that_restarts_loses_nothing_and_followers_look_again(own_redis: RedisServer, prefix: str) -> None:
    async with opened(own_redis, prefix) as stores:
        listener = TopicListener(stores, "topic")
        await listener.begin()
        await stores.sessions.save(RECORD)
        await stores.events.append("s", "x", b"1", will=b"gone")
        await in_thread(own_redis.kill)
        with pytest.raises(StoreFailed, match=f"127.0.0.1:{own_redis.port}"):
            await stores.sessions.load("s")
        await eventually(lambda: stores.status().failing_since is not None, "the failure is seen")
        assert not stores.status().is_reachable
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stores.events.append, "s", "x", b"2")
            nursery.start_soon(stores.events.append, "s", "y", b"1")
            await trio.sleep(0.3)
            await in_thread(own_redis.start)
        assert [event.data for event in (await stores.events.read("s", "x", 0))[0]] == [b"1", b"2"]
        assert await stores.sessions.load("s") is not None
        await eventually(lambda: None in listener.messages, "the follower is told that messages may be lost")
        await eventually(lambda: stores.status().is_reachable, "the engine is reachable again")
        listener.messages.clear()
        async with opened(own_redis, prefix) as other:
            assert other.bus is not None
            other.bus.publish("topic", b"1")
            await eventually(lambda: b"1" in listener.messages, "messages arrive again")


async def replicas_count_each_other_after_a_failure_for_longer_than_a_lease(
    own_redis: RedisServer, prefix: str
) -> None:
    lease = 1.0
    async with opened(own_redis, prefix, lease=lease) as one, opened(own_redis, prefix, lease=lease) as two:
        both = (one, two)
        await eventually(lambda: all(each.status().replicas == 2 for each in both), "they see each other")
        await in_thread(own_redis.kill)
        await trio.sleep(1.5 * lease)
        counted = set[int]()

        async def count() -> None:
            while True:
                counted.update(each.status().replicas for each in both)
                await trio.sleep(0.005)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            await in_thread(own_redis.start)
            await eventually(lambda: all(each.status().is_reachable for each in both), "the engine is reachable again")
            # Each of them renews its lease in this time.
            await trio.sleep(lease)
            nursery.cancel_scope.cancel()
        assert counted == {2}


async def a_stalled_engine_ends_no_stream_and_no_event_is_stored_twice(own_redis: RedisServer, prefix: str) -> None:
    async with opened(own_redis, prefix, timeout=0.5) as stores:
        await stores.events.append("s", "x", b"0")
        own_redis.stall()
        began = trio.current_time()
        with pytest.raises(StoreFailed, match=r"within 0\.5 s"):
            await stores.sessions.load("s")
        assert trio.current_time() - began < 1.5
        async with trio.open_nursery() as nursery:
            for at in range(5):
                nursery.start_soon(stores.events.append, "s", f"y{at}", b"1")
            nursery.start_soon(stores.events.append, "s", "x", b"1")
            await trio.sleep(1.5)
            own_redis.resume()
        await stores.events.append("s", "x", b"2", last=True)
        assert [event.data for event in (await stores.events.read("s", "x", 0))[0]] == [b"0", b"1", b"2"]
        for at in range(5):
            assert [event.data for event in (await stores.events.read("s", f"y{at}", 0))[0]] == [b"1"]


async def a_cancelled_append_happens_completely_or_not_at_all(own_redis: RedisServer, prefix: str) -> None:
    async with opened(own_redis, prefix) as stores:
        await stores.events.append("s", "x", b"0")
        own_redis.stall()
        with trio.move_on_after(0.3):
            await stores.events.append("s", "x", b"1", b"2")
        own_redis.resume()
        await stores.events.append("s", "x", b"3")
        found = [event.data for event in (await stores.events.read("s", "x", 0))[0]]
        assert found in ([b"0", b"1", b"2", b"3"], [b"0", b"3"])


async def test_connections_that_are_cut_are_made_again(redis: RedisServer, prefix: str) -> None:
    async with opened(redis, prefix) as stores:
        listener = TopicListener(stores, "topic")
        await listener.begin()
        for kind in ("normal", "pubsub"):
            redis.command("CLIENT", "KILL", "TYPE", kind)
            await stores.events.append("s", kind, b"1")
            await stores.sessions.load("s")
        await eventually(lambda: None in listener.messages, "the follower is told")


async def test_scripts_that_the_engine_has_forgotten_are_loaded_again(redis: RedisServer, prefix: str) -> None:
    async with opened(redis, prefix) as stores:
        await stores.events.append("s", "x", b"1")
        redis.command("SCRIPT", "FLUSH")
        async with trio.open_nursery() as nursery:
            for at in range(20):
                nursery.start_soon(stores.events.append, "s", f"y{at}", b"1")
        await stores.events.append("s", "x", b"2")
        assert len((await stores.events.read("s", "x", 0))[0]) == 2
        assert stores.status().is_reachable


async def a_full_engine_refuses_new_sessions_and_still_answers_readers(own_redis: RedisServer, prefix: str) -> None:
    async with opened(own_redis, prefix) as stores:
        saved = await stores.sessions.save(RECORD)
        assert saved is not None
        await stores.events.append("s", "x", b"1", will=b"gone")
        await stores.events.append("s", "done", b"1", last=True)
        own_redis.command("CONFIG", "SET", "maxmemory", "1mb", "maxmemory-policy", "noeviction")
        began = trio.current_time()
        with pytest.raises(StoreFailed, match="maxmemory"):
            await stores.events.append("s", "x", b"2")
        assert trio.current_time() - began < 5
        with pytest.raises(Overloaded):
            await stores.sessions.save(SessionRecord(id="new", revision="a revision"))
        assert await stores.sessions.load("s") == saved
        assert [event.data for event in (await stores.events.read("s", "x", 0))[0]] == [b"1"]
        assert await stores.events.read("s", "done", 0) != ([], False)
        with pytest.raises(StoreFailed, match="maxmemory"):
            await stores.events.settle("s", "x")
        await stores.events.drop("other")
        own_redis.command("CONFIG", "SET", "maxmemory", "0")

        # What could not be completed is owed.
        with trio.fail_after(20):
            while not (await stores.events.read("s", "x", 0))[1]:  # noqa: ASYNC110 - only the engine knows
                await trio.sleep(0.05)


async def test_engine_that_is_loading_is_waited_for(own_redis: RedisServer, prefix: str, tmp_path: Path) -> None:
    own_redis.kill()
    slow = RedisServer(tmp_path / "slow", "--enable-debug-command", "yes", port=own_redis.port)
    with slow:
        slow.command("DEBUG", "POPULATE", "3000", "other", "10")
        slow.command("SAVE")
        slow.kill()
        delayed = RedisServer(tmp_path / "slow", "--key-load-delay", "500", *EAGER, port=own_redis.port)
        try:
            delayed.start(is_ready=False)
            until(lambda: is_loading(delayed), "the engine is loading")
            async with opened(delayed, prefix) as stores:
                await stores.events.append("s", "x", b"1")
        finally:
            delayed.kill()


async def test_start_waits_for_the_engine_and_then_says_why_it_failed(tmp_path: Path, prefix: str) -> None:
    server = RedisServer(tmp_path / "redis")
    with pytest.raises(StoreFailed, match=f"redis 127.0.0.1:{server.port}: not reachable: .*refused"):
        async with opened(server, prefix, start_timeout=0.3):
            raise AssertionError("it is not there")
    try:
        async with trio.open_nursery() as nursery:

            async def start_later() -> None:
                await trio.sleep(0.5)
                await in_thread(server.start)

            nursery.start_soon(start_later)
            async with opened(server, prefix) as stores:
                await stores.sessions.save(RECORD)
    finally:
        server.kill()


async def the_streams_of_a_killed_replica_end_with_their_wills(redis: RedisServer, prefix: str) -> None:
    lease = 1.5
    async with opened(redis, prefix, lease=lease) as stores:
        listener = TopicListener(stores, session_topic("s"))
        await listener.begin()
        async with ReplicaProcess(redis.url, prefix=prefix, lease=lease) as child:
            assert await child.ask("append x") == "ok"
            assert await child.ask("append y") == "ok"
            assert await child.ask("claim") == "claimed"
            child.process.kill()
            killed = trio.current_time()
            await eventually(lambda: listener.count(wake_message("x")) >= 2, "the will is executed")
            # Its lease was renewed at most a third of it ago, and is missing for a whole lease.
            assert trio.current_time() - killed > lease
        events, is_last = await stores.events.read("s", "x", 0)
        assert ([event.data for event in events], is_last) == ([b"1", b"gone"], True)
        await eventually(lambda: stores.status().replicas == 1, "the replica is gone")
        assert stores.effects is not None
        with trio.fail_after(20):
            while (await stores.effects.claim("call", "a")).state is not EffectState.LOST:  # noqa: ASYNC110
                await trio.sleep(0.05)


async def a_replica_that_stood_still_does_not_write_the_streams_that_others_have_ended(
    redis: RedisServer, prefix: str
) -> None:
    lease = 1.0
    async with opened(redis, prefix, lease=lease) as stores:
        listener = TopicListener(stores, session_topic("s"))
        await listener.begin()
        async with ReplicaProcess(redis.url, prefix=prefix, lease=lease) as child:
            assert await child.ask("append x") == "ok"
            child.process.send_signal(signal.SIGSTOP)
            await eventually(lambda: listener.count(wake_message("x")) >= 2, "the will is executed")
            child.process.send_signal(signal.SIGCONT)
            assert await child.ask("append x") == ConnectionClosed.__name__
            assert await child.ask("append z") == "ok"
            await eventually(lambda: stores.status().replicas == 2, "it is back")
            child.process.kill()
            await eventually(lambda: listener.count(wake_message("z")) >= 2, "its later stream ends too")


async def a_replica_whose_lease_is_late_keeps_its_streams(redis: RedisServer, prefix: str) -> None:
    lease = 2.0
    async with opened(redis, prefix, lease=lease) as stores:
        async with ReplicaProcess(redis.url, prefix=prefix, lease=lease) as child:
            assert await child.ask("append x") == "ok"
            child.process.send_signal(signal.SIGSTOP)
            await trio.sleep(lease * 1.3)
            child.process.send_signal(signal.SIGCONT)
            assert await child.ask("append x") == "ok"
        assert len((await stores.events.read("s", "x", 0))[0]) == 2


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_ten_thousand_cancelled_commands_leave_nothing(redis: RedisServer, prefix: str) -> None:
    async with opened(redis, prefix) as stores:
        await stores.sessions.save(RECORD)

        async def load_briefly() -> None:
            with trio.move_on_after(0):
                await stores.sessions.load("s")

        async def load_and_cancel(scope: trio.CancelScope) -> None:
            with scope:
                await stores.sessions.load("s")

        await load_briefly()
        before = descriptors(), threading.active_count(), redis.command("INFO", "clients")["connected_clients"]
        for _ in range(50):
            async with trio.open_nursery() as nursery:
                scopes = [trio.CancelScope() for _ in range(200)]
                for scope in scopes:
                    nursery.start_soon(load_and_cancel, scope)
                await trio.lowlevel.checkpoint()
                for scope in scopes:
                    scope.cancel()
        assert await stores.sessions.load("s") is not None
        assert stores.status().waiting == 0
        after = descriptors(), threading.active_count(), redis.command("INFO", "clients")["connected_clients"]
        assert after == before


@pytest.mark.parametrize("end", ["kill", "stall"])
async def test_closing_is_bounded_when_the_engine_is_away(own_redis: RedisServer, prefix: str, end: str) -> None:
    threads = threading.active_count()
    async with opened(own_redis, prefix, timeout=0.5) as stores:
        await stores.events.append("s", "x", b"1", will=b"gone")
        await in_thread(getattr(own_redis, end))
        began = time.monotonic()
    assert time.monotonic() - began < 4
    await eventually(lambda: threading.active_count() <= threads + 2, "threads end")


async def test_exception_of_the_body_is_raised_as_it_is(redis: RedisServer, prefix: str) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with opened(redis, prefix):
            raise KeyError("mine")
    with trio.move_on_after(0.1) as scope:
        async with opened(redis, prefix) as stores:
            await stores.events.append("s", "x", b"1", will=b"gone")
            await trio.sleep_forever()
    assert scope.cancelled_caught
    async with opened(redis, prefix) as stores:
        assert (await stores.events.read("s", "x", 0))[1]


async def an_open_stream_without_events_keeps_its_position(redis: RedisServer, prefix: str) -> None:
    async with opened(redis, prefix, event_timeout=1, lease=1) as stores:
        first = await stores.events.append("s", "x", b"1")
        # Longer than any key of the stream lives without being kept.
        await trio.sleep(3)
        assert await stores.events.after("s", first.id) == ("x", [], False)
        assert (await stores.events.append("s", "x", b"2")).id == "x/1"
        await stores.events.append("s", "x", b"3", last=True)
        key_of_events = f"{prefix}:*:e:x"
        assert (await stores.events.read("s", "x", 0))[1]
        with trio.fail_after(20):
            while redis.command("KEYS", key_of_events):  # noqa: ASYNC110 - the engine expires it
                await trio.sleep(0.05)


async def messages_that_could_not_be_published_make_all_replicas_look(own_redis: RedisServer, prefix: str) -> None:
    async with opened(own_redis, prefix, timeout=0.5) as one, opened(own_redis, prefix, timeout=0.5) as two:
        there = TopicListener(two, "topic")
        await there.begin()
        assert one.bus is not None
        # This user may do all but publish, so the connection of the listener stays.
        own_redis.command("ACL", "SETUSER", "default", "-publish")
        one.bus.publish("topic", b"1")
        await one.sessions.load("s")
        own_redis.command("ACL", "SETUSER", "default", "+publish")
        await eventually(lambda: None in there.messages, "the other replica is told")
        assert b"1" not in there.messages


async def test_start_survives_an_engine_that_stops_again(redis: RedisServer, prefix: str) -> None:
    """The lease is the first thing that a script writes."""
    async with fault_proxy(redis.port) as proxy:
        proxy.breaks_on = b"EVALSHA"

        url = f"redis://127.0.0.1:{proxy.port}"
        async with open_stores(url, StoreSettings(prefix=prefix, start_timeout=20)) as stores:
            assert await stores.sessions.save(RECORD) is not None

        assert proxy.breaks_on is None


ON_ONE_SERVER = (
    the_streams_of_a_killed_replica_end_with_their_wills,
    a_replica_that_stood_still_does_not_write_the_streams_that_others_have_ended,
    a_replica_whose_lease_is_late_keeps_its_streams,
    an_open_stream_without_events_keeps_its_position,
)
ON_OWN_SERVERS = (
    an_engine_that_restarts_loses_nothing_and_followers_look_again,
    replicas_count_each_other_after_a_failure_for_longer_than_a_lease,
    a_stalled_engine_ends_no_stream_and_no_event_is_stored_twice,
    a_cancelled_append_happens_completely_or_not_at_all,
    a_full_engine_refuses_new_sessions_and_still_answers_readers,
    messages_that_could_not_be_published_make_all_replicas_look,
)


async def test_faults(redis: RedisServer, tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The cases run at once, because leases and timeouts take most of the time."""

    async def hold_on_own(check: Callable[[RedisServer, str], Awaitable[None]]) -> None:
        async with entered(RedisServer(tmp_path / check.__name__, *DURABLE, program=redis.program)) as server:
            await check(server, new_prefix())

    checks = {each.__name__: partial(each, redis, new_prefix()) for each in ON_ONE_SERVER}
    checks |= {each.__name__: partial(hold_on_own, each) for each in ON_OWN_SERVERS}
    await run_concurrently(checks, subtests)
