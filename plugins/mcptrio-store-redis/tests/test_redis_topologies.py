"""The stores in Redis with replicas, behind sentinels, and in a cluster."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import pytest
import trio
from attrs import asdict

from mcptrio.abc import SessionRecord, session_topic, wake_message
from mcptrio.errors import StoreFailed
from mcptrio.stores import StoreBounds
from tests.engines.redis_server import RedisServer
from tests.stores import shared_tasks_contract as tasks
from tests.stores.concurrent_checks import entered, run_concurrently
from tests.stores.contract import Opener, StoreTime
from tests.stores.shared_contract import TopicListener, eventually

from .conftest import RealTime, new_prefix, opened
from .test_redis_tasks import shared_at
from .topologies import Place, replicated, watched

__all__: list[str] = []

RECORD = SessionRecord(id="s", revision="a revision")


async def writes_count_once_replicas_of_the_engine_have_them(folder: Path, prefix: str) -> None:
    async with entered(replicated(folder)) as (master, replica):
        async with opened(master, prefix, confirm=1, timeout=4) as stores:
            await stores.sessions.save(RECORD)
            await stores.events.append("s", "x", b"1")
            assert replica.command("KEYS", f"{prefix}*:e:x")
            replica.stall()
            assert await stores.sessions.load("s") is not None
            with pytest.raises(StoreFailed, match=r"expected 1 replicas of the engine to confirm a write .*got 0"):
                await stores.sessions.save(SessionRecord(id="t", revision="a revision"))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stores.events.append, "s", "x", b"2")
                # Longer than the half of the timeout that one attempt waits for the replica.
                await trio.sleep(2.3)
                replica.resume()
            # The event was stored while no replica had it; the next attempts have not stored it again.
            assert [event.data for event in (await stores.events.read("s", "x", 0))[0]] == [b"1", b"2"]


async def a_replica_of_the_engine_is_not_written(folder: Path, prefix: str) -> None:
    async with entered(replicated(folder)) as (_, replica):
        with pytest.raises(StoreFailed, match="ReadOnly"):
            async with opened(replica, prefix, start_timeout=0.3):
                raise AssertionError("it takes no writes")


async def after_a_failover_the_stores_use_the_new_master(folder: Path, prefix: str) -> None:
    async with entered(watched(folder)) as (master, replica, place):
        async with opened(place, prefix, confirm=1) as stores:  # type: ignore[arg-type]
            listener = TopicListener(stores, "topic")
            await listener.begin()
            await stores.sessions.save(RECORD)
            await stores.events.append("s", "x", b"1", will=b"gone")
        async with opened(place, prefix) as stores:  # type: ignore[arg-type]
            listener = TopicListener(stores, session_topic("s"))
            await listener.begin()
            await stores.events.append("s", "y", b"1")
            await eventually(lambda: bool(replica.command("KEYS", f"{prefix}*:e:y")), "the replica has it")
            await trio.to_thread.run_sync(master.kill)
            event = await stores.events.append("s", "y", b"2")
            assert event.id == "y/1"
            assert replica.command("ROLE")[0] in (b"master", "master")
            assert await stores.sessions.load("s") is not None
            assert (await stores.events.read("s", "x", 0))[1]
            await eventually(lambda: None in listener.messages, "the followers look again")
            async with opened(place, prefix) as other:  # type: ignore[arg-type]
                listener.messages.clear()
                await other.events.put("s", b"1")
                await eventually(lambda: bool(listener.messages), "messages arrive")


async def test_replicas_and_sentinels(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The cases run at once, because starting and failing over take most of the time."""
    checks = {}
    for check in (
        writes_count_once_replicas_of_the_engine_have_them,
        a_replica_of_the_engine_is_not_written,
        after_a_failover_the_stores_use_the_new_master,
    ):
        folder = tmp_path / check.__name__
        folder.mkdir()
        checks[check.__name__] = partial(check, folder, new_prefix())
    await run_concurrently(checks, subtests)


class TestCluster:
    """The contract of every store, in a cluster with three masters."""

    @pytest.fixture
    def store_time(self) -> StoreTime:
        return RealTime()

    @pytest.fixture
    def opener(self, redis_cluster: tuple[list[RedisServer], Place], prefix: str) -> Opener:
        return lambda bounds: opened(redis_cluster[1], prefix, **asdict(bounds))  # type: ignore[arg-type]

    async def test_sessions_events_and_inboxes_are_spread_over_the_nodes(
        self, opener: Opener, redis_cluster: tuple[list[RedisServer], Place], prefix: str
    ) -> None:
        nodes, place = redis_cluster
        async with opener(StoreBounds()) as one, opened(place, prefix) as two:  # type: ignore[arg-type]
            heard = [TopicListener(two, session_topic(f"s{at}")) for at in range(20)]
            for each in heard:
                await each.begin()
            async with trio.open_nursery() as nursery:
                for at in range(20):
                    record = SessionRecord(id=f"s{at}", revision="a revision")
                    nursery.start_soon(one.sessions.save, record)
                    nursery.start_soon(one.events.append, f"s{at}", "x", b"1")
            for at in range(20):
                assert await two.sessions.load(f"s{at}") is not None
                assert len((await two.events.read(f"s{at}", "x", 0))[0]) == 1
                await eventually(lambda at=at: wake_message("x") in heard[at].messages, "woken")  # type: ignore[misc]
                await one.events.append(f"s{at}", "x", b"2", last=True)
            assert two.quotas is not None
            assert two.effects is not None
            assert await two.quotas.take("q", count=1, seconds=1, burst=1) == 0
            for at in range(10):
                await two.effects.claim(f"call{at}", "a")
            used = [node for node in nodes if node.command("KEYS", f"{prefix}*:e:x")]
            assert len(used) == 3
            assert await one.sessions.delete("s0")

    async def test_tasks(self, redis_cluster: tuple[list[RedisServer], Place], subtests: pytest.Subtests) -> None:
        cluster_tests = (
            tasks.test_any_process_answers_and_only_the_holder_works,
            tasks.test_claims_of_two_processes_at_once_get_each_task_once,
            tasks.test_process_that_closes_gives_its_tasks_back,
            tasks.test_tasks_of_a_killed_process_are_claimed_again,
            tasks.test_tasks_of_a_process_that_is_suspended_are_claimed_again,
        )
        await run_concurrently(
            {each.__name__: partial(each, shared_at(redis_cluster[1].url)) for each in cluster_tests}, subtests
        )

    async def test_sessions_survive_moving_their_slot(
        self, opener: Opener, redis_cluster: tuple[list[RedisServer], Place]
    ) -> None:
        nodes, _ = redis_cluster
        async with opener(StoreBounds()) as stores:
            sessions = [f"m{at}" for at in range(30)]
            for session in sessions:
                await stores.events.append(session, "x", b"1")
            source, target = (each.command("CLUSTER", "MYID") for each in nodes[:2])
            names = [each.decode() if isinstance(each, bytes) else each for each in (source, target)]
            await trio.to_thread.run_sync(reshard, nodes[0], *names)
            for session in sessions:
                await stores.events.append(session, "x", b"2")
                assert len((await stores.events.read(session, "x", 0))[0]) == 2


def reshard(node: RedisServer, source: str, target: str) -> None:
    subprocess.run(
        [
            *("redis-cli", "--cluster", "reshard", f"127.0.0.1:{node.port}", "--cluster-from", source),
            *("--cluster-to", target, "--cluster-slots", "1500", "--cluster-yes"),
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
