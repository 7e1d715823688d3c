"""Tasks append all the time while the engine fails, is full, forgets or moves: acknowledged events stay, each once."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import outcome
import pytest
import trio
from mcptrio_store_redis.keys import RedisKeys

from mcptrio.abc import SessionRecord, Stores
from mcptrio.errors import ConnectionClosed, StoreFailed
from tests.engines.redis_server import RedisServer, until
from tests.stores.concurrent_checks import Check, entered, run_concurrently
from tests.stores.shared_contract import eventually

from .conftest import new_prefix, opened
from .test_redis_faults import EAGER, is_loading
from .topologies import Place, is_linked, replicated, sentinels_of

__all__: list[str] = []

RECORD = SessionRecord(id="s", revision="a revision")
SESSIONS = 12
WAIT_TIMEOUT = 60.0


class Writers:
    """Append numbers to one stream of each of some sessions, each after the previous one was acknowledged."""

    def __init__(self, stores: Stores, size: int = 1) -> None:
        self.stores = stores
        self.acknowledged = dict.fromkeys((f"s{at}" for at in range(SESSIONS)), 0)
        self.is_stopping = False
        self._padding = b" " * size

    @property
    def total(self) -> int:
        return sum(self.acknowledged.values())

    async def write(self, session: str) -> None:
        while not self.is_stopping:
            await self.stores.events.append(session, "x", b"%d" % self.acknowledged[session] + self._padding)
            self.acknowledged[session] += 1
            # All events stay below the bound of a stream.
            await trio.sleep(0.005)

    async def until_more(self, count: int = 5 * SESSIONS) -> None:
        """Wait until further appends were acknowledged."""
        wanted = self.total + count
        with trio.fail_after(WAIT_TIMEOUT):
            while self.total < wanted:  # noqa: ASYNC110 - any of the tasks may reach it
                await trio.sleep(0.02)

    async def check(self) -> None:
        """Read all streams, and compare them with what was acknowledged."""
        assert self.total
        for session, count in self.acknowledged.items():
            found: list[int] = []
            while True:
                events, _ = await self.stores.events.read(session, "x", len(found))
                if not events:
                    break
                found += [int(event.data) for event in events]
            # An append without an answer may have happened.
            assert found in (list(range(count)), list(range(count + 1))), session


@asynccontextmanager
async def writing(stores: Stores) -> AsyncIterator[Writers]:
    """Append during the block, and check at its end."""
    writers = Writers(stores)
    async with trio.open_nursery() as nursery:
        for session in writers.acknowledged:
            nursery.start_soon(writers.write, session)
        await writers.until_more()
        yield writers
        await writers.until_more()
        writers.is_stopping = True
    await writers.check()


async def a_failover_loses_no_acknowledged_event(folder: Path, prefix: str) -> None:
    async with entered(replicated(folder)) as (master, replica):
        options = "--replicaof", "127.0.0.1", str(master.port)
        async with entered(RedisServer(folder / "second", *options)) as second:
            await eventually(lambda: is_linked(second), "the second replica follows its master")
            async with entered(sentinels_of(folder, master, replicas=2)) as place:
                async with opened(place, prefix, confirm=1) as stores, writing(stores):  # type: ignore[arg-type]
                    await trio.to_thread.run_sync(master.kill)
                assert b"master" in {each.command("ROLE")[0] for each in (replica, second)}


def move_slot(nodes: list[RedisServer], key: str) -> None:
    """Move the slot of a key to another node, one key after the other, as redis-cli does for whole ranges."""
    slot = nodes[0].command("CLUSTER", "KEYSLOT", key)
    source = next(node for node in nodes if node.command("CLUSTER", "GETKEYSINSLOT", slot, 1))
    target = next(node for node in nodes if node is not source)
    from_id, to_id = (node.command("CLUSTER", "MYID") for node in (source, target))
    target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", from_id)
    source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", to_id)
    # Commands of the session arrive while some of its keys are here and some are there.
    while keys := source.command("CLUSTER", "GETKEYSINSLOT", slot, 1):
        source.command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        # Time for some appends of each writer.
        time.sleep(0.02)
    for node in (target, source, *nodes):
        node.command("CLUSTER", "SETSLOT", slot, "NODE", to_id)


async def slots_that_move_lose_no_acknowledged_event(
    redis_cluster: tuple[list[RedisServer], Place], prefix: str
) -> None:
    nodes, place = redis_cluster
    async with opened(place, prefix) as stores, writing(stores) as writers:  # type: ignore[arg-type]
        for session in list(writers.acknowledged)[:6]:
            # Twice: the second time from a node that the stores know from a redirection.
            for _ in range(2):
                await trio.to_thread.run_sync(move_slot, nodes, RedisKeys(prefix).record(session))


async def test_engine_that_is_killed_loses_no_acknowledged_event(own_redis: RedisServer, prefix: str) -> None:
    """The engine has an append-only file that it flushes before each answer."""
    async with opened(own_redis, prefix) as stores, writing(stores) as writers:
        for _ in range(3):
            await trio.to_thread.run_sync(own_redis.kill)
            await trio.to_thread.run_sync(own_redis.start)
            await writers.until_more(SESSIONS)


async def test_engine_that_forgets_its_scripts_disturbs_no_append(redis: RedisServer, prefix: str) -> None:
    async with opened(redis, prefix) as stores, writing(stores) as writers:
        for _ in range(20):
            redis.command("SCRIPT", "FLUSH")
            await writers.until_more(SESSIONS)
        assert stores.status().is_reachable


async def an_engine_that_loads_is_not_ready_and_appends_wait(folder: Path, prefix: str) -> None:
    async with entered(RedisServer(folder / "redis", "--enable-debug-command", "yes")) as server:
        async with opened(server, prefix) as stores:
            async with writing(stores):
                # Long enough to be seen, at half a millisecond for each key.
                server.command("DEBUG", "POPULATE", "4000", "other", "10")
            server.command("SAVE")
            await trio.to_thread.run_sync(server.kill)
            slow = RedisServer(folder / "redis", "--key-load-delay", "500", *EAGER, port=server.port)
            slow.start(is_ready=False)
            try:
                await trio.to_thread.run_sync(until, partial(is_loading, slow), "the engine is loading")
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(stores.events.append, "s0", "y", b"1")
                    with pytest.raises(StoreFailed, match="the engine is not ready: BusyLoading"):
                        await stores.sessions.load("s")
                assert len((await stores.events.read("s0", "y", 0))[0]) == 1
                assert stores.status().is_reachable
            finally:
                slow.kill()


async def test_topologies(
    redis_cluster: tuple[list[RedisServer], Place], tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """The cases run at once, because they mostly wait for the engine."""
    checks: dict[str, Check] = {
        "slots that move": partial(slots_that_move_lose_no_acknowledged_event, redis_cluster, new_prefix())
    }
    for check in (a_failover_loses_no_acknowledged_event, an_engine_that_loads_is_not_ready_and_appends_wait):
        folder = tmp_path / check.__name__
        folder.mkdir()
        checks[check.__name__] = partial(check, folder, new_prefix())
    await run_concurrently(checks, subtests)


async def test_engine_without_a_file_loses_sessions_and_streams_and_serves_new_ones(
    tmp_path: Path, prefix: str
) -> None:
    with RedisServer(tmp_path / "redis") as server:
        async with opened(server, prefix, lease=1.0) as stores:
            await stores.sessions.save(RECORD)
            event = await stores.events.append("s", "x", b"1", will=b"gone")
            await trio.to_thread.run_sync(server.kill)
            await trio.to_thread.run_sync(server.start)

            # Without an answer of the engine, it would fail instead.
            assert await stores.sessions.load("s") is None
            assert await stores.events.after("s", event.id) is None
            with pytest.raises(ConnectionClosed, match="its events were dropped"):
                await stores.events.append("s", "x", b"2")
            assert await stores.sessions.save(RECORD) is not None
            async with writing(stores):
                pass


async def test_full_engine_refuses_and_loses_no_acknowledged_event(own_redis: RedisServer, prefix: str) -> None:
    own_redis.command("CONFIG", "SET", "maxmemory", "4mb", "maxmemory-policy", "noeviction")
    async with opened(own_redis, prefix) as stores:
        writers = Writers(stores, size=4000)
        ends: list[Exception] = []

        async def write(session: str) -> None:
            done = await outcome.acapture(writers.write, session)
            assert isinstance(done, outcome.Error)
            assert isinstance(done.error, Exception)
            ends.append(done.error)

        with trio.fail_after(WAIT_TIMEOUT):
            async with trio.open_nursery() as nursery:
                for session in writers.acknowledged:
                    nursery.start_soon(write, session)

        assert [str(each) for each in ends if "maxmemory" not in str(each)] == []
        # A full engine still answers, so servers stay ready. They respond with 503 to requests that need its memory.
        assert stores.status().is_reachable
        await writers.check()
        own_redis.command("CONFIG", "SET", "maxmemory", "0")
        async with trio.open_nursery() as nursery:
            for session in writers.acknowledged:
                nursery.start_soon(writers.write, session)
            await writers.until_more()
            writers.is_stopping = True
        await writers.check()
