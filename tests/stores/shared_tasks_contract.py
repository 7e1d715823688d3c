"""The contract of stores of tasks that several processes share.

A test module of an engine imports these functions and has the fixture ``shared``, which returns the place of the store.
"""

from __future__ import annotations

import signal
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import trio
from attrs import evolve, field, frozen

from mcptrio.abc import TASK_CHANGED, TASK_QUEUED, TASKS_TOPIC, Stores, TaskRecord, TaskStore, task_topic
from mcptrio.errors import StoreFailed
from mcptrio.stores import StoreSettings, open_stores

from .shared_contract import TopicListener, eventually
from .task_process import task_process
from .tasks_contract import ENDED, QUEUED, RUNNING, new_task, task_store

__all__ = [
    "SharedTasks",
    "test_any_process_answers_and_only_the_holder_works",
    "test_changes_are_announced_to_other_processes",
    "test_claim_whose_caller_is_cancelled_is_taken_back",
    "test_claims_of_two_processes_at_once_get_each_task_once",
    "test_creation_whose_caller_is_cancelled_is_taken_back_or_known",
    "test_process_that_closes_gives_its_tasks_back",
    "test_process_that_is_suspended_for_less_than_a_lease_keeps_its_tasks",
    "test_tasks_of_a_killed_process_are_claimed_again",
    "test_tasks_of_a_process_that_is_suspended_are_claimed_again",
]


@frozen
class SharedTasks:
    """Where a store is.

    Args:
        url: Its URL.
        settings: Its settings.
        takeover: Seconds after the death of a process within which its tasks are queued again.
        has_leases: Whether a process that is suspended loses its tasks.
    """

    url: str
    settings: dict[str, Any] = field(factory=dict)
    takeover: float = 5.0
    has_leases: bool = True

    def open(self) -> AbstractAsyncContextManager[Stores]:
        return open_stores(self.url, StoreSettings(**self.settings))


async def claim_soon(tasks: TaskStore, seconds: float) -> TaskRecord:
    """Claim a task that becomes claimable within some seconds. The machine may be slow."""
    with trio.fail_after(3 * seconds + 20):
        while True:
            claimed_task = await tasks.claim({"dig": 1})
            if claimed_task is not None:
                return claimed_task
            await trio.sleep(0.05)


async def test_any_process_answers_and_only_the_holder_works(shared: SharedTasks) -> None:
    async with shared.open() as one, shared.open() as two:
        here, there = task_store(one), task_store(two)
        await here.create(new_task("a"))
        running = await there.claim({"dig": 1})
        assert running is not None
        assert await here.load("a") == running
        assert await here.claim({"dig": 0}) is None
        # Neither the generation nor the fence is enough.
        assert await here.save(evolve(running, state=ENDED), held=True) is None
        answered = await here.save(evolve(running, data=b"answered"))
        assert answered == evolve(running, data=b"answered", generation=3)
        assert await there.save(running, held=True) is None
        loaded = await there.load("a")
        assert loaded == answered
        assert answered is not None
        ended = await there.save(evolve(answered, state=ENDED, data=b"result"), held=True)
        assert await here.load("a") == ended
        assert [each.id for each in await here.list("ada")] == ["a"]


async def test_changes_are_announced_to_other_processes(shared: SharedTasks) -> None:
    async with shared.open() as one, shared.open() as two:
        changed, queued = TopicListener(two, task_topic("a")), TopicListener(two, TASKS_TOPIC)
        await eventually(lambda: one.status().replicas == two.status().replicas == 2, "they know each other")
        # The subscription may begin later.
        await trio.sleep(0.3)
        first = await task_store(one).create(new_task("a"))
        await eventually(lambda: TASK_QUEUED in queued.messages, "the task is announced")
        await task_store(one).save(evolve(first, data=b"1"))
        await eventually(lambda: TASK_CHANGED in changed.messages, "the change is announced")


async def test_claims_of_two_processes_at_once_get_each_task_once(shared: SharedTasks) -> None:
    async with shared.open() as stores:
        tasks = task_store(stores)
        async with trio.open_nursery() as nursery:
            for at in range(60):
                nursery.start_soon(tasks.create, new_task(f"{at}"))
        async with (
            task_process(shared.url, **shared.settings) as one,
            task_process(shared.url, **shared.settings) as two,
        ):
            for limit, expected in ((40, 40), (0, 60)):
                for each in (one, two):
                    await each.say(f"race dig {limit} 25")
                found = [id for each in (one, two) for id in (await each.answer()).split()]
                # In the first race, ten of the 50 claimers find no room.
                assert len(found) == len({*found})
                running = sum(each.running for each in await tasks.queues())
                assert running == expected


async def test_process_that_closes_gives_its_tasks_back(shared: SharedTasks) -> None:
    async with shared.open() as one:
        listener = TopicListener(one, TASKS_TOPIC)
        async with shared.open() as two:
            await eventually(lambda: one.status().replicas == 2, "it knows the other")
            await trio.sleep(0.3)
            mine = await task_store(one).create(new_task("mine", "sow", state=RUNNING))
            held = await task_store(two).create(new_task("a", state=RUNNING))
            assert await task_store(one).claim({"dig": 0}) is None
            listener.messages.clear()
        claimed_task = await claim_soon(task_store(one), 1.0)
        assert (claimed_task.id, claimed_task.fence) == ("a", 2)
        assert claimed_task.generation > held.generation
        await eventually(lambda: TASK_QUEUED in listener.messages or None in listener.messages, "it is announced")
        assert await task_store(one).save(mine, held=True) is not None


async def test_tasks_of_a_killed_process_are_claimed_again(shared: SharedTasks) -> None:
    async with shared.open() as stores:
        tasks = task_store(stores)
        await tasks.create(new_task("a"))
        async with task_process(shared.url, **shared.settings) as other:
            assert await other.ask("claim dig 1") == "a 1"
            assert await other.ask("create b sow") == "b 1"
            await eventually(lambda: stores.status().replicas == 2, "it knows the other")
            assert await tasks.claim({"dig": 1, "sow": 1}) is None
            listener = TopicListener(stores, TASKS_TOPIC)
            await trio.sleep(0.3)
            listener.messages.clear()
            other.process.kill()
            killed = trio.current_time()
            # Announced without a claim of this process.
            await eventually(
                lambda: TASK_QUEUED in listener.messages, "the tasks are announced", 3 * shared.takeover + 20
            )
            claimed_task = await claim_soon(tasks, shared.takeover)
            assert (claimed_task.id, claimed_task.fence, claimed_task.data) == ("a", 2, b"data")
            elapsed = trio.current_time() - killed
            assert elapsed <= shared.takeover, f"{elapsed:.1f} s"
            again = await tasks.claim({"sow": 1})
            assert again is not None
            assert (again.id, again.fence) == ("b", 2)


async def test_tasks_of_a_process_that_is_suspended_are_claimed_again(shared: SharedTasks) -> None:
    async with shared.open() as stores:
        tasks = task_store(stores)
        await tasks.create(new_task("a"))
        async with task_process(shared.url, **shared.settings) as other:
            assert await other.ask("claim dig 1") == "a 1"
            assert await other.ask("save") == "a 1"
            other.process.send_signal(signal.SIGSTOP)
            if not shared.has_leases:
                # The system reports a suspended process as running, so its task is not taken over.
                await trio.sleep(3)
                # The suspended process may hold the lock of the file.
                with suppress(StoreFailed):
                    assert await tasks.claim({"dig": 1}) is None
                other.process.send_signal(signal.SIGCONT)
                assert await other.ask("end") == "a 1"
                return
            claimed_task = await claim_soon(tasks, shared.takeover)
            assert (claimed_task.id, claimed_task.fence, claimed_task.data) == ("a", 2, b"save")
            other.process.send_signal(signal.SIGCONT)
            assert await other.ask("save") == "none"
            assert await other.ask("end") == "none"
            assert await tasks.load("a") == claimed_task
            assert await tasks.save(evolve(claimed_task, state=ENDED), held=True) is not None
            # It is back.
            await tasks.create(new_task("b"))
            assert await other.ask("claim dig 1") == "b 1"
            assert await other.ask("end") == "b 1"


async def test_process_that_is_suspended_for_less_than_a_lease_keeps_its_tasks(shared: SharedTasks) -> None:
    async with shared.open() as stores:
        tasks = task_store(stores)
        async with task_process(shared.url, **shared.settings) as other:
            assert await other.ask("create a dig") == "a 1"
            lease = StoreSettings(**shared.settings).lease
            for _ in range(3):
                other.process.send_signal(signal.SIGSTOP)
                await trio.sleep(min(lease, 2.0) * 0.5)
                other.process.send_signal(signal.SIGCONT)
                assert await other.ask("save") == "a 1"
            assert await tasks.claim({"dig": 0}) is None


async def test_claim_whose_caller_is_cancelled_is_taken_back(shared: SharedTasks) -> None:
    claimed: set[str] = set()
    async with shared.open() as stores:
        tasks = task_store(stores)
        for at in range(20):
            await tasks.create(new_task(f"{at}"))

        async def claim(delay: float) -> None:
            with trio.move_on_after(delay):
                claimed_task = await tasks.claim({"dig": 0})
                assert claimed_task is not None
                claimed.add(claimed_task.id)

        async with trio.open_nursery() as nursery:
            for at in range(20):
                nursery.start_soon(claim, at * 0.0004)

        async def running() -> set[str]:
            records = [await tasks.load(f"{at}") for at in range(20)]
            return {record.id for record in records if record is not None and record.state is RUNNING}

        # A cancelled claim may still be written, and stays until the store takes it back. This is written after all.
        await tasks.create(new_task("after the claims", state=RUNNING))
        with trio.fail_after(60):
            while await running() != claimed:  # noqa: ASYNC110 - the store requeues them
                await trio.sleep(0.05)
        assert sum(each.queued for each in await tasks.queues()) == 20 - len(claimed)


async def test_creation_whose_caller_is_cancelled_is_taken_back_or_known(shared: SharedTasks) -> None:
    created: set[str] = set()
    async with shared.open() as stores:
        tasks = task_store(stores)

        async def create(at: int) -> None:
            with trio.move_on_after(at * 0.0004):
                created.add((await tasks.create(new_task(f"{at}", state=(QUEUED, RUNNING)[at % 2]))).id)

        async with trio.open_nursery() as nursery:
            for at in range(20):
                nursery.start_soon(create, at)
        with trio.fail_after(60):
            while {each.id for each in await tasks.list("ada")} != created:  # noqa: ASYNC110 - no event reports it
                await trio.sleep(0.05)
