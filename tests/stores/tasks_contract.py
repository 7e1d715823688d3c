"""The contract of every store of tasks: states, fences, limits, pages, expiry, messages.

A test module of an engine imports these functions and has two fixtures: ``tasks_opener``, which opens the stores with
some bounds, and ``store_time``, which lets time pass.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import pytest
import trio
from attrs import evolve

from mcptrio.abc import (
    TASK_CHANGED,
    TASK_QUEUED,
    TASKS_TOPIC,
    Stores,
    TaskRecord,
    TaskState,
    TaskStore,
    task_topic,
)
from mcptrio.errors import Overloaded, StoreFailed

from .shared_contract import TopicListener

__all__ = [
    "ENDED",
    "QUEUED",
    "RUNNING",
    "TasksOpener",
    "new_task",
    "task_store",
    "test_changes_are_announced",
    "test_claims_at_once_get_each_task_once",
    "test_data_have_a_limit",
    "test_ended_task_never_changes",
    "test_id_in_use_is_refused",
    "test_names_may_contain_anything",
    "test_new_task_is_loaded_unchanged",
    "test_only_the_holder_changes_the_state_of_a_running_task",
    "test_owner_has_a_limited_number_of_tasks_that_have_not_ended",
    "test_page_of_a_list_is_bounded_in_bytes",
    "test_released_task_is_claimed_before_younger_ones",
    "test_second_save_of_one_generation_of_a_task_is_refused",
    "test_task_is_claimed_once_and_the_oldest_first",
    "test_tasks_of_a_tool_run_up_to_its_limit",
    "test_tasks_of_an_owner_are_listed_in_pages",
]

QUEUED, RUNNING, ENDED = TaskState.QUEUED, TaskState.RUNNING, TaskState.ENDED


class TasksOpener(Protocol):
    def __call__(self, **bounds: Any) -> AbstractAsyncContextManager[Stores]: ...


def task_store(stores: Stores) -> TaskStore:
    assert stores.tasks is not None
    return stores.tasks


def new_task(id: str, tool: str = "dig", *, owner: str = "ada", state: TaskState = QUEUED, **more: Any) -> TaskRecord:
    return TaskRecord(**{"id": id, "tool": tool, "owner": owner, "state": state, "data": b"data", **more})


async def claimed(tasks: TaskStore, tools: dict[str, int] | None = None) -> TaskRecord:
    claimed_task = await tasks.claim({"dig": 0} if tools is None else tools)
    assert claimed_task is not None
    return claimed_task


async def saved(tasks: TaskStore, record: TaskRecord, **changes: Any) -> TaskRecord:
    found = await tasks.save(evolve(record, **changes), held=True)
    assert found is not None
    return found


async def test_new_task_is_loaded_unchanged(tasks_opener: TasksOpener) -> None:
    async with tasks_opener(task_timeout=500.0) as stores:
        tasks = task_store(stores)
        data = bytes(range(256)) * 20
        queued = await tasks.create(new_task("a", data=data))
        running = await tasks.create(new_task("b", state=RUNNING, created=5.0, fence=9, generation=7))

        assert (queued.fence, queued.generation, queued.state, queued.data) == (0, 1, QUEUED, data)
        assert (running.fence, running.generation, running.state) == (1, 1, RUNNING)
        assert queued.expires == pytest.approx(queued.created + 500)
        assert 1.6e9 < queued.created <= running.created
        assert await tasks.load("a") == queued
        assert await tasks.load("b") == running
        assert await tasks.load("c") is None
        own = await tasks.create(new_task("c", expires=queued.created + 1e12))
        assert own.expires == queued.created + 1e12
        assert await tasks.load("c") == own
        short = await tasks.create(new_task("e"), keep=70)
        assert short.expires == pytest.approx(short.created + 70)
        assert await tasks.load("e") == short
        with pytest.raises(ValueError, match="expected QUEUED or RUNNING"):
            await tasks.create(new_task("d", state=ENDED))


async def test_id_in_use_is_refused(tasks_opener: TasksOpener) -> None:
    async with tasks_opener() as stores:
        tasks = task_store(stores)
        first = await tasks.create(new_task("a"))
        with pytest.raises(StoreFailed, match="in use"):
            await tasks.create(new_task("a", data=b"other"))
        assert await tasks.load("a") == first


async def test_task_is_claimed_once_and_the_oldest_first(tasks_opener: TasksOpener) -> None:
    async with tasks_opener() as stores:
        tasks = task_store(stores)
        for id, tool in (("a", "dig"), ("b", "sow"), ("c", "dig"), ("d", "rake")):
            await tasks.create(new_task(id, tool))
        await tasks.create(new_task("e", state=RUNNING))

        assert await tasks.claim({}) is None
        assert await tasks.claim({"unknown": 0}) is None
        claimed_task = await claimed(tasks, {"sow": 0, "dig": 0})
        assert (claimed_task.id, claimed_task.state, claimed_task.fence, claimed_task.generation) == (
            "a",
            RUNNING,
            1,
            2,
        )
        assert await tasks.load("a") == claimed_task
        assert [(await claimed(tasks, {"dig": 0, "sow": 0})).id for _ in range(2)] == ["b", "c"]
        assert await tasks.claim({"dig": 0, "sow": 0}) is None
        assert (await claimed(tasks, {"rake": 1})).id == "d"


async def test_tasks_of_a_tool_run_up_to_its_limit(tasks_opener: TasksOpener) -> None:
    async with tasks_opener() as stores:
        tasks = task_store(stores)
        for at in range(4):
            await tasks.create(new_task(f"d{at}"))
        await tasks.create(new_task("s", "sow"))
        await tasks.create(new_task("held", state=RUNNING))
        both = {"dig": 3, "sow": 1}

        # One was running before.
        first = await claimed(tasks, both)
        assert [first.id, (await claimed(tasks, both)).id, (await claimed(tasks, both)).id] == ["d0", "d1", "s"]
        assert await tasks.claim(both) is None
        await saved(tasks, first, state=ENDED)
        assert (await claimed(tasks, both)).id == "d2"
        assert await tasks.claim(both) is None
        assert (await claimed(tasks, {"dig": 0})).id == "d3"


async def test_second_save_of_one_generation_of_a_task_is_refused(tasks_opener: TasksOpener) -> None:
    async with tasks_opener() as stores:
        tasks = task_store(stores)
        first = await tasks.create(new_task("a"))
        second = await tasks.save(evolve(first, data=b"answer", expires=first.created + 50))
        assert second == evolve(first, data=b"answer", expires=first.created + 50, generation=2)

        assert await tasks.save(evolve(first, data=b"another")) is None
        assert await tasks.save(new_task("a")) is None
        assert await tasks.save(new_task("unknown", generation=1)) is None
        assert await tasks.load("a") == second
        # Only state, data and expiry are saved.
        third = await tasks.save(evolve(second, owner="eve", tool="rob", fence=7, created=1.0, expires=None))
        assert third == evolve(first, data=b"answer", generation=3)
        assert await tasks.load("a") == third


async def test_only_the_holder_changes_the_state_of_a_running_task(tasks_opener: TasksOpener) -> None:
    async with tasks_opener() as stores:
        tasks = task_store(stores)
        queued = await tasks.create(new_task("a"))
        assert await tasks.save(queued, held=True) is None
        with pytest.raises(ValueError, match="expected QUEUED or ENDED"):
            await tasks.save(evolve(queued, state=RUNNING))
        running = await claimed(tasks)
        for state in (QUEUED, ENDED):
            with pytest.raises(ValueError, match="expected RUNNING"):
                await tasks.save(evolve(running, state=state))
        assert await tasks.save(evolve(running, fence=2), held=True) is None
        assert await tasks.save(evolve(running, fence=0), held=True) is None
        # An answer, by any process. The holder has to take notice of it first.
        answered = await tasks.save(evolve(running, data=b"answered"))
        assert answered is not None
        assert await tasks.save(running, held=True) is None
        working = await saved(tasks, answered, data=b"working")
        assert await tasks.load("a") == working

        released = await saved(tasks, working, state=QUEUED)
        assert (released.state, released.fence) == (QUEUED, 1)
        assert await tasks.save(evolve(released, state=ENDED), held=True) is None
        ended = await tasks.save(evolve(released, state=ENDED, data=b"cancelled"))
        assert ended is not None
        assert await tasks.load("a") == ended
        assert await tasks.claim({"dig": 0}) is None


async def test_ended_task_never_changes(tasks_opener: TasksOpener) -> None:
    async with tasks_opener() as stores:
        tasks = task_store(stores)
        await tasks.create(new_task("a"))
        ended = await saved(tasks, await claimed(tasks), state=ENDED, data=b"result")
        for held in (False, True):
            for state in TaskState:
                assert await tasks.save(evolve(ended, state=state, data=b"other"), held=held) is None
        assert await tasks.load("a") == ended
        assert await tasks.claim({"dig": 0}) is None


async def test_released_task_is_claimed_before_younger_ones(tasks_opener: TasksOpener) -> None:
    async with tasks_opener() as stores:
        tasks = task_store(stores)
        for id in ("a", "b"):
            await tasks.create(new_task(id))
        first = await claimed(tasks)
        await saved(tasks, first, state=QUEUED, data=b"half")
        again = await claimed(tasks)
        assert again == evolve(first, data=b"half", fence=2, generation=4)
        assert await tasks.save(evolve(again, fence=1), held=True) is None
        assert (await claimed(tasks)).id == "b"


async def test_owner_has_a_limited_number_of_tasks_that_have_not_ended(tasks_opener: TasksOpener) -> None:
    async with tasks_opener(tasks_per_owner=2) as stores:
        tasks = task_store(stores)
        queued = await tasks.create(new_task("a"))
        running = await tasks.create(new_task("b", state=RUNNING))
        with pytest.raises(Overloaded, match="of this owner"):
            await tasks.create(new_task("c"))
        await tasks.create(new_task("other", owner="eve"))
        await saved(tasks, running, state=ENDED)
        await tasks.create(new_task("c"))
        with pytest.raises(Overloaded):
            await tasks.create(new_task("d"))
        assert await tasks.save(evolve(queued, state=ENDED)) is not None
        await tasks.create(new_task("d"))


async def test_data_have_a_limit(tasks_opener: TasksOpener) -> None:
    async with tasks_opener(task_bytes=100) as stores:
        tasks = task_store(stores)
        with pytest.raises(Overloaded, match="at most 100 bytes, got 101"):
            await tasks.create(new_task("a", data=b"x" * 101))
        assert await tasks.load("a") is None
        first = await tasks.create(new_task("a", data=b"x" * 100, state=RUNNING))
        with pytest.raises(Overloaded):
            await tasks.save(evolve(first, data=b"x" * 101), held=True)
        assert await tasks.load("a") == first


async def test_tasks_of_an_owner_are_listed_in_pages(tasks_opener: TasksOpener) -> None:
    async with tasks_opener() as stores:
        tasks = task_store(stores)
        for at in range(230):
            await tasks.create(new_task(f"t{at}", ("dig", "sow")[at % 2]))
            if not at % 10:
                await tasks.create(new_task(f"other{at}", owner="eve"))
        ended = await saved(tasks, await claimed(tasks), state=ENDED)
        found: list[TaskRecord] = []
        sizes = []
        while page := await tasks.list("ada", found[-1].id if found else ""):
            found += page
            sizes.append(len(page))

        assert [each.id for each in found] == [f"t{at}" for at in range(230)]
        assert sizes == [100, 100, 30]
        assert found[0] == ended
        assert await tasks.list("nobody") == []
        assert await tasks.list("ada", "unknown") == []
        assert await tasks.list("ada", "other0") == []


async def test_page_of_a_list_is_bounded_in_bytes(tasks_opener: TasksOpener) -> None:
    async with tasks_opener() as stores:
        tasks = task_store(stores)
        for at in range(4):
            await tasks.create(new_task(f"{at}", data=b"x" * (3 << 20)))
        assert [each.id for each in await tasks.list("ada")] == ["0", "1"]
        assert [each.id for each in await tasks.list("ada", "1")] == ["2", "3"]


async def test_names_may_contain_anything(tasks_opener: TasksOpener) -> None:
    hostile = ["{a}", "a b", "a:b", "naïve ☃", "*?[", "x" * 300, "'; --", "a\nb", "."]
    async with tasks_opener() as stores:
        tasks = task_store(stores)
        for name in hostile:
            await tasks.create(new_task(name, name, owner=name))
        for name in hostile:
            assert [each.id for each in await tasks.list(name)] == [name]
            claimed_task = await claimed(tasks, {name: 1})
            assert (claimed_task.id, claimed_task.tool, claimed_task.owner) == (name, name, name)
            assert await tasks.load(name) == claimed_task
        assert [each.tool for each in await tasks.queues()] == sorted(hostile)
        assert await tasks.load("a\x00b") is None
        assert await tasks.load("x" * 100_000) is None


async def test_claims_at_once_get_each_task_once(tasks_opener: TasksOpener) -> None:
    results: list[TaskRecord | None] = []
    async with tasks_opener() as stores:
        tasks = task_store(stores)
        for at in range(30):
            await tasks.create(new_task(f"{at}"))

        async def claim() -> None:
            results.append(await tasks.claim({"dig": 20}))

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(claim)
        assert results.count(None) == 30
        assert {each.id for each in results if each is not None} == {f"{at}" for at in range(20)}


async def test_changes_are_announced(tasks_opener: TasksOpener) -> None:
    async with tasks_opener() as stores:
        tasks = task_store(stores)
        changed, queued = TopicListener(stores, task_topic("a")), TopicListener(stores, TASKS_TOPIC)
        await tasks.create(new_task("b", state=RUNNING))
        await tasks.create(new_task("a"))
        assert queued.count(TASK_QUEUED) == 1
        first = await claimed(tasks)
        second = await tasks.save(evolve(first, data=b"1"))
        assert second is not None
        assert await tasks.save(first, held=True) is None
        third = await saved(tasks, second, data=b"2")
        assert queued.count(TASK_QUEUED) == 1
        counts = changed.count(TASK_CHANGED)
        released = await saved(tasks, third, state=QUEUED)
        assert queued.count(TASK_QUEUED) == 2
        await tasks.create(new_task("c"))
        assert await tasks.save(evolve(released, state=ENDED)) is not None
        assert queued.count(TASK_QUEUED) == 3
        # The end of a task makes room for another one.
        await saved(tasks, await claimed(tasks), state=ENDED)
        assert queued.count(TASK_QUEUED) == 3
        await tasks.create(new_task("d"))
        await tasks.create(new_task("e"))
        await saved(tasks, await claimed(tasks), state=ENDED)
        assert queued.count(TASK_QUEUED) == 6
        assert changed.count(TASK_CHANGED) == counts + 2 >= 5
