"""Tasks in Redis against the contracts that they have in every store, and against the model."""

from __future__ import annotations

import secrets
from functools import partial

import pytest
import trio
from attrs import evolve
from hypothesis import given, settings

from mcptrio.abc import TaskRecord, TaskStore
from mcptrio.errors import Overloaded, StoreFailed
from tests.engines.redis_server import RedisServer
from tests.stores import shared_tasks_contract, tasks_expiry_contract
from tests.stores.concurrent_checks import contract_of, run_concurrently
from tests.stores.contract import StoreTime
from tests.stores.shared_tasks_contract import SharedTasks
from tests.stores.tasks_contract import *  # noqa: F403 - these are the tests
from tests.stores.tasks_contract import ENDED, RUNNING, TasksOpener, new_task, task_store
from tests.stores.tasks_model import TASK_BOUNDS, TASK_STEPS, TasksModel, TaskStep, play_tasks

from .conftest import new_prefix, opened

__all__: list[str] = []

LEASE = 1.5


@pytest.fixture
def tasks_opener(redis: RedisServer, prefix: str) -> TasksOpener:
    return partial(opened, redis, prefix)


async def test_expiry(redis: RedisServer, store_time: StoreTime, subtests: pytest.Subtests) -> None:
    contract = contract_of(tasks_expiry_contract)
    checks = {
        name: partial(holds, partial(opened, redis, new_prefix()), store_time) for name, holds in contract.items()
    }
    await run_concurrently(checks, subtests)


async def test_shared_tasks(redis: RedisServer, subtests: pytest.Subtests) -> None:
    contract = contract_of(shared_tasks_contract)
    await run_concurrently({name: partial(holds, shared_at(redis.url)) for name, holds in contract.items()}, subtests)


def shared_at(url: str) -> SharedTasks:
    own = {"prefix": new_prefix(), "lease": LEASE, "start_timeout": 10.0}
    # A lease may be new when its replica ends, and another one notices between two of its own renewals.
    return SharedTasks(url, own, takeover=LEASE * 8 / 3 + 1)


async def test_full_engine_refuses_tasks_and_loses_none(own_redis: RedisServer, prefix: str) -> None:
    async with opened(own_redis, prefix) as stores:
        tasks = task_store(stores)
        await tasks.create(new_task("a"))
        held = await tasks.create(new_task("b", state=RUNNING))
        await trio.to_thread.run_sync(own_redis.command, "CONFIG", "SET", "maxmemory", "1mb")
        with pytest.raises(Overloaded, match="maxmemory"):
            await tasks.create(new_task("c"))
        with pytest.raises(StoreFailed, match="maxmemory"):
            await tasks.save(evolve(held, state=ENDED), held=True)
        assert await tasks.load("b") == held
        await trio.to_thread.run_sync(own_redis.command, "CONFIG", "SET", "maxmemory", "0")
        assert await tasks.save(evolve(held, state=ENDED), held=True) is not None
        claimed = await tasks.claim({"dig": 1})
        assert claimed is not None
        assert claimed.id == "a"


async def test_tasks_outlive_an_engine_that_is_killed(own_redis: RedisServer, prefix: str) -> None:
    async with opened(own_redis, prefix) as stores:
        tasks = task_store(stores)
        await tasks.create(new_task("a"))
        held = await tasks.create(new_task("b", "sow", state=RUNNING))
        await trio.to_thread.run_sync(own_redis.kill)
        with pytest.raises(StoreFailed):
            await tasks.load("a")
        with pytest.raises(StoreFailed):
            await tasks.claim({"dig": 1})
        await trio.to_thread.run_sync(own_redis.start)
        with trio.fail_after(20):
            while (found := await claim_or_none(tasks)) is None:  # noqa: ASYNC110 - the engine is still starting
                await trio.sleep(0.1)
        assert found.id == "a"
        assert await tasks.save(held, held=True) is not None
        assert [(each.queued, each.running) for each in await tasks.queues()] == [(0, 1), (0, 1)]


async def claim_or_none(tasks: TaskStore) -> TaskRecord | None:
    try:
        return await tasks.claim({"dig": 1})
    except StoreFailed:
        return None


@settings(max_examples=30, deadline=None)
@given(steps=TASK_STEPS)
def test_tasks_match_the_model(redis: RedisServer, steps: list[TaskStep]) -> None:
    open_stores = partial(opened, redis, f"m{secrets.token_hex(4)}", **TASK_BOUNDS)
    trio.run(partial(play_tasks, steps, TasksModel(expires=False), open_stores, can_reopen=True))
