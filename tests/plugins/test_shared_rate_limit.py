"""The plugin ``rate_limit`` on several replicas: one shared limit, and a share of it while the store fails."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio
from attrs import define, evolve
from trio.testing import MockClock

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
    """Quotas in a store that fails while ``is_away`` is set."""

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


async def test_rate_is_shared_by_all_replicas(autojump_clock: MockClock) -> None:
    async with replicas(memory_stores(), RateLimitConfig(per_second=2, burst=4)) as [one, two]:
        assert not await calls(one, 3, ANN)
        refused = await calls(two, 3, ANN)
        assert [each.message for each in refused] == ["too many requests: more than 2 a second"] * 2
        assert [each.data["retryAfter"] for each in refused] == [pytest.approx(0.5)] * 2
        assert refused[0].data["reason"] == "rateLimited"
        assert not await calls(two, 4, BOB)
        await trio.sleep(1)
        assert len(await calls(one, 3, ANN)) == 1


async def test_quotas_are_shared_by_all_replicas(autojump_clock: MockClock) -> None:
    config = RateLimitConfig(per_second=1000, burst=1000, quotas={"hour": 4, "day": 6})
    async with replicas(memory_stores(), config) as [one, two]:
        assert not await calls(one, 2, ANN)
        [refused] = await calls(two, 3, ANN)
        assert "quota of 4 requests per hour exceeded" in refused.message
        assert refused.data["retryAfter"] == pytest.approx(900, abs=1)
        begins = datetime.fromisoformat(refused.message.partition("possible at ")[2])
        assert (begins - datetime.now(UTC)).total_seconds() == pytest.approx(900, abs=60)
        await trio.sleep(901)
        assert not await calls(one, 1, ANN)
        await trio.sleep(901)
        assert not await calls(two, 1, ANN)
        await trio.sleep(901)
        [refused] = await calls(two, 1, ANN)
        assert "quota of 6 requests per day exceeded" in refused.message
        assert refused.data["retryAfter"] == pytest.approx(86_400 / 6 - 2703, abs=1)


async def test_repeated_refused_request_consumes_no_quota(autojump_clock: MockClock) -> None:
    """The shorter quotas are not consumed either, and the store is not queried."""
    config = RateLimitConfig(per_second=1000, burst=1000, quotas={"minute": 10, "day": 3})
    stores, quotas = faulty()
    async with replicas(stores, config, 1) as [one]:
        assert len(await calls(one, 50, ANN)) == 47
        assert quotas.asked == 4 * 3
        await trio.sleep(86_400 / 3)
        assert not await calls(one, 1, ANN)


async def test_weighted_tool_counts_as_several_requests_on_all_replicas(autojump_clock: MockClock) -> None:
    config = RateLimitConfig(per_second=1, burst=10, quotas={"day": 25}, costs={"fail": 9, "write": 30})
    async with replicas(memory_stores(), config) as [one, two]:
        assert not await calls(one, 1, ANN, "fail")
        [refused] = await calls(two, 1, ANN, "fail")
        assert refused.data["retryAfter"] == pytest.approx(9, abs=0.1)
        await trio.sleep(10)
        assert not await calls(two, 1, ANN, "fail")
        await trio.sleep(10)
        [refused] = await calls(one, 1, ANN, "fail")
        assert "quota of 25 requests per day" in refused.message
        [refused] = await calls(one, 1, ANN, "write")
        assert refused.message.startswith("the call counts as 30 requests")


async def test_each_replica_enforces_its_share_while_the_store_fails(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mcptrio.rate_limit")
    stores, quotas = faulty()
    config = RateLimitConfig(per_second=0.01, burst=10, quotas={"day": 8})
    async with replicas(stores, config) as [one, two]:
        assert not await calls(one, 2, ANN)
        quotas.is_away = True
        for replica in (one, two):
            assert len(await calls(replica, 20, ANN)) == 16
        # Each replica has queried the store once, and queries it again only after a second.
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


async def test_store_that_fails_repeatedly_does_not_reset_the_share(autojump_clock: MockClock) -> None:
    stores, quotas = faulty()
    async with replicas(stores, RateLimitConfig(per_second=1000, burst=1000, quotas={"day": 8}), 1) as [one]:
        refused = 0
        for _ in range(3):
            quotas.is_away = True
            refused += len(await calls(one, 10, ANN))
            quotas.is_away = False
            await trio.sleep(2)
            assert not await calls(one, 1, ANN)
        # Two replicas: this one allows four in a day.
        assert refused == 3 * 10 - 4


async def test_share_is_of_the_replicas_at_the_time_of_the_failure(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    stores, quotas = faulty()
    seen = [5]
    stores = evolve(stores, status=lambda: StoreStatus(kind="memory", replicas=seen[0]))
    async with replicas(stores, RateLimitConfig(per_second=0.001, burst=10), 1) as [one]:
        quotas.is_away = True
        assert len(await calls(one, 10, ANN)) == 8
        seen[0] = 1
        await trio.sleep(5)
        assert len(await calls(one, 10, ANN)) == 10
        assert "each of 5 replicas has its part" in caplog.text


async def test_restart_does_not_reset_a_quota(tmp_path: Path) -> None:
    config = RateLimitConfig(per_second=1000, burst=1000, quotas={"week": 3})
    for refusals in (0, 1, 2):
        async with open_sqlite_stores(tmp_path / "shared.db") as stores, replicas(stores, config, 1) as [one]:
            assert len(await calls(one, 2, ANN)) == refusals


async def test_workers_without_a_store_limit_independently(autojump_clock: MockClock) -> None:
    """Each worker limits like a single process."""
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
