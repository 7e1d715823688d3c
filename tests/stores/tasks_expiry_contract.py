"""The contract of every store of tasks: leases and expiry.

A test module of an engine imports these functions and has the fixtures ``tasks_opener`` of tasks_contract.py and
``store_time``. The clock of Redis and PostgreSQL cannot be moved, so their tests run all of these functions at the same
time.
"""

from __future__ import annotations

import pytest
from attrs import evolve

from mcptrio.abc import TASK_CHANGED, TaskQueue, task_topic
from mcptrio.errors import Overloaded

from .contract import StoreTime
from .shared_contract import TopicListener, eventually
from .tasks_contract import ENDED, QUEUED, RUNNING, TasksOpener, claimed, new_task, saved, task_store

__all__ = [
    "test_expired_task_is_gone_whatever_its_state",
    "test_full_store_refuses_new_tasks_and_keeps_the_old",
    "test_queues_are_counted_by_tool",
]


async def test_full_store_refuses_new_tasks_and_keeps_the_old(tasks_opener: TasksOpener, store_time: StoreTime) -> None:
    async with tasks_opener(max_tasks=3, task_timeout=store_time.bound) as stores:
        tasks = task_store(stores)
        kept = await tasks.create(new_task("a", expires=2e10))
        await tasks.create(new_task("b"))
        await tasks.create(new_task("c", owner="eve", state=RUNNING))
        with pytest.raises(Overloaded, match="too many tasks"):
            await tasks.create(new_task("d"))
        assert await tasks.save(evolve(kept, data=b"changed")) is not None
        await store_time.advance(store_time.bound * 1.1)
        await tasks.create(new_task("d"))
        assert await tasks.load("d") is not None
        assert await tasks.load("a") is not None


async def test_queues_are_counted_by_tool(tasks_opener: TasksOpener, store_time: StoreTime) -> None:
    async with tasks_opener() as stores:
        tasks = task_store(stores)
        assert list(await tasks.queues()) == []
        await tasks.create(new_task("a", "sow", state=RUNNING))
        await tasks.create(new_task("b"))
        await store_time.advance(store_time.bound / 2)
        for id in ("c", "d", "e"):
            await tasks.create(new_task(id))
        first = await claimed(tasks)
        ended = await claimed(tasks)
        await saved(tasks, ended, state=ENDED)

        dig, sow = await tasks.queues()
        assert (dig.tool, dig.queued, dig.running) == ("dig", 2, 1)
        assert 0.0 <= dig.oldest < store_time.bound / 2
        assert sow == TaskQueue("sow", 0, 1, 0.0)
        await saved(tasks, first, state=QUEUED)
        dig, _ = await tasks.queues()
        assert (dig.queued, dig.running) == (3, 0)
        assert store_time.bound / 2 <= dig.oldest < 60


async def test_expired_task_is_gone_whatever_its_state(tasks_opener: TasksOpener, store_time: StoreTime) -> None:
    async with tasks_opener(task_timeout=store_time.bound) as stores:
        tasks = task_store(stores)
        for at in range(5):
            await tasks.create(new_task(f"q{at}"))
        running = await tasks.create(new_task("r", state=RUNNING))
        longer = await tasks.create(new_task("l", "sow", expires=2e10))
        kept = await tasks.create(new_task("k", "sow"))
        kept = await saved(tasks, await claimed(tasks, {"sow": 0}), expires=2e10)
        assert kept.id == "l"
        await store_time.advance(store_time.bound * 1.1)

        assert await tasks.load("q0") is None
        assert await tasks.save(running, held=True) is None
        assert await tasks.claim({"dig": 0}) is None
        assert [each.id for each in await tasks.list("ada")] == ["l"]
        listener = TopicListener(stores, task_topic("q1"))
        assert await tasks.expire() == 7
        assert await tasks.expire() == 0
        await eventually(lambda: TASK_CHANGED in listener.messages, "the deletion is announced")
        assert list(await tasks.queues()) == [TaskQueue("sow", 0, 1, 0.0)]
        # The id of an expired task is free, and so is its place among the running ones.
        await tasks.create(new_task("r", state=QUEUED))
        assert (await claimed(tasks, {"dig": 1})).fence == 1
        assert longer.expires == kept.expires
