"""The plugin ``rate_limit`` on several replicas: one limit for all of them, and a part of it while the store fails."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, evolve

from mcptrio import Server
from mcptrio.abc import Principal, QuotaStore, Stores, StoreStatus
from mcptrio.errors import StoreFailed
from mcptrio.plugins.middleware.rate_limit import RateLimit, RateLimitConfig
from mcptrio.serve.stores import serve_with_stores
from mcptrio.serve.stores_table import StoresTable
from mcptrio.serving import RunningServer, ServerSettings
from mcptrio.stores import MemoryBus, memory_stores, open_sqlite_stores
from tests.plugins.test_shipped_middleware import Desk, calls

__all__: list[str] = []

ANN, BOB = Principal(subject="ann"), Principal(subject="bob")


@define
class Faulty:
    """Quotas in a store that fails while ``is_away``."""

    quotas: QuotaStore
    is_away: bool = False
    asked: int = 0

    async def take(self, name: str, *, count: int, seconds: float, burst: int) -> float:
        self.asked += 1
        if self.is_away:
            raise StoreFailed("the store is away")
        return await self.quotas.take(name, count=count, seconds=seconds, burst=burst)


def faulty() -> tuple[Stores, Faulty]:
    stores = memory_stores()
    assert stores.quotas is not None
    quotas = Faulty(stores.quotas)
    return evolve(stores, quotas=quotas, status=lambda: StoreStatus(kind="memory", replicas=2)), quotas


@asynccontextmanager
async def replicas(stores: Stores, config: RateLimitConfig, count: int = 2) -> AsyncIterator[list[RunningServer]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                Server(plugins=[Desk(), RateLimit(config)], settings=ServerSettings(stores=stores)).open()
            )
            for _ in range(count)
        ]


async def test_the_rate_holds_over_all_replicas(autojump_clock: Any) -> None:
    async with replicas(memory_stores(), RateLimitConfig(per_second=2, burst=4)) as [one, two]:
        assert not await calls(one, 3, ANN)
        refused = await calls(two, 3, ANN)
        assert [each.message for each in refused] == ["too many requests: more than 2 a second"] * 2
        assert [each.data["retryAfter"] for each in refused] == [pytest.approx(0.5)] * 2
        assert refused[0].data["reason"] == "rateLimited"
        assert not await calls(two, 4, BOB)
        await trio.sleep(1)
        assert len(await calls(one, 3, ANN)) == 1


async def test_quotas_hold_over_all_replicas(autojump_clock: Any) -> None:
    config = RateLimitConfig(per_second=1000, burst=1000, quotas={"hour": 4, "day": 6})
    async with replicas(memory_stores(), config) as [one, two]:
        assert not await calls(one, 2, ANN)
        [refused] = await calls(two, 3, ANN)
        assert "the quota of 4 a hour is used up" in refused.message
        assert refused.data["retryAfter"] == pytest.approx(900, abs=1)
        begins = datetime.fromisoformat(refused.message.partition("possible at ")[2])
        assert (begins - datetime.now(UTC)).total_seconds() == pytest.approx(900, abs=60)
        await trio.sleep(901)
        assert not await calls(one, 1, ANN)
        await trio.sleep(901)
        assert not await calls(two, 1, ANN)
        await trio.sleep(901)
        [refused] = await calls(two, 1, ANN)
        assert "the quota of 6 a day is used up" in refused.message
        assert refused.data["retryAfter"] == pytest.approx(86_400 / 6 - 2703, abs=1)


async def test_a_refused_request_that_is_repeated_takes_nothing(autojump_clock: Any) -> None:
    """Not from the shorter quotas either, and the store is not asked for it."""
    config = RateLimitConfig(per_second=1000, burst=1000, quotas={"minute": 10, "day": 3})
    stores, quotas = faulty()
    async with replicas(stores, config, 1) as [one]:
        assert len(await calls(one, 50, ANN)) == 47
        assert quotas.asked == 4 * 3
        await trio.sleep(86_400 / 3)
        assert not await calls(one, 1, ANN)


async def test_one_tool_counts_as_several_requests(autojump_clock: Any) -> None:
    config = RateLimitConfig(per_second=1, burst=10, quotas={"day": 25}, costs={"fail": 9, "write": 30})
    async with replicas(memory_stores(), config) as [one, two]:
        assert not await calls(one, 1, ANN, "fail")
        [refused] = await calls(two, 1, ANN, "fail")
        assert refused.data["retryAfter"] == pytest.approx(9, abs=0.1)
        await trio.sleep(10)
        assert not await calls(two, 1, ANN, "fail")
        await trio.sleep(10)
        [refused] = await calls(one, 1, ANN, "fail")
        assert "the quota of 25 a day" in refused.message
        [refused] = await calls(one, 1, ANN, "write")
        assert refused.message.startswith("this counts as 30 requests")


async def test_while_the_store_fails_each_replica_has_its_part(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mcptrio.rate_limit")
    stores, quotas = faulty()
    config = RateLimitConfig(per_second=0.01, burst=10, quotas={"day": 8})
    async with replicas(stores, config) as [one, two]:
        assert not await calls(one, 2, ANN)
        quotas.is_away = True
        for replica in (one, two):
            assert len(await calls(replica, 20, ANN)) == 16
        # Each replica has asked once; until a second has passed it does not ask again.
        assert quotas.asked == 2 * 2 + 2
        await trio.sleep(5)
        await calls(one, 1, ANN)
        assert quotas.asked == 2 * 2 + 3
        quotas.is_away = False
        await trio.sleep(5)
        assert len(await calls(one, 20, ANN)) == 14
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 2
    assert all("the store is away" in each for each in errors)
    assert [record.message for record in caplog.records if record.levelno == logging.INFO] == [
        "quotas are shared again"
    ]


async def test_a_restart_does_not_give_a_new_quota(tmp_path: Path) -> None:
    config = RateLimitConfig(per_second=1000, burst=1000, quotas={"week": 3})
    for refusals in (0, 1, 2):
        async with open_sqlite_stores(tmp_path / "shared.db") as stores, replicas(stores, config, 1) as [one]:
            assert len(await calls(one, 2, ANN)) == refusals


async def test_the_memory_of_a_worker_is_not_shared(autojump_clock: Any) -> None:
    """Without a store each worker limits as a single process does."""
    limit = RateLimit(RateLimitConfig(per_second=1000, burst=1000, quotas={"hour": 3}))
    server = Server(plugins=[Desk(), limit])

    async def serve() -> None:
        assert server.stores is not None
        assert server.stores.bus is not None
        async with server.open() as running:
            assert not await calls(running, 3, ANN)
            await trio.sleep(600)
            [refused] = await calls(running, 1, ANN)
            assert refused.data["retryAfter"] == pytest.approx(3000, abs=1)

    await serve_with_stores(server, StoresTable(), serve, MemoryBus())
