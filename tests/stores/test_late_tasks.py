"""Changes of tasks that a network delivers after their caller has got an error."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock

from mcptrio.abc import TaskQueue, TaskRecord, TaskState
from mcptrio.errors import StoreFailed
from mcptrio.stores import CommonTaskStore, StoreBounds, TaskChange, TaskEngine
from mcptrio.stores.process_locks import ProcessRegistry
from mcptrio.stores.sqlite_database import open_database
from mcptrio.stores.sqlite_file import FileBounds
from mcptrio.stores.sqlite_tasks import SQLiteTasks
from mcptrio.stores.wall_clock import WallClock

from .tasks_contract import new_task

__all__: list[str] = []


@define(eq=False)
class Stalled:
    """The steps of an engine behind a network that can stall.

    Args:
        held: The creations and claims that are under way.
    """

    engine: TaskEngine
    is_stalled: bool = False
    held: list[Callable[[], Awaitable[object]]] = field(factory=list)

    async def deliver(self) -> None:
        for step in self.held:
            await step()
        self.held.clear()

    async def create(self, record: TaskRecord, token: str, keep: float) -> TaskChange:
        return await self._send(partial(self.engine.create, record, token, keep))

    async def claim(self, tools: Mapping[str, int], token: str) -> TaskChange:
        return await self._send(partial(self.engine.claim, tools, token))

    async def load(self, id: str) -> TaskRecord | None:
        return await self.engine.load(id)

    async def list(self, owner: str, after: str) -> list[TaskRecord]:
        return await self.engine.list(owner, after)

    async def save(self, record: TaskRecord, *, held: bool) -> TaskChange:
        return await self.engine.save(record, held=held)

    async def take_back(self, id: str, token: str) -> TaskChange:
        return await self.engine.take_back(id, token)

    async def queues(self) -> Sequence[TaskQueue]:
        return await self.engine.queues()

    async def expire(self) -> TaskChange:
        return await self.engine.expire()

    async def _send(self, step: Callable[[], Awaitable[TaskChange]]) -> TaskChange:
        if self.is_stalled:
            self.held.append(step)
            raise StoreFailed("no answer")
        return await step()


@asynccontextmanager
async def stalled(path: Path) -> AsyncIterator[tuple[Stalled, CommonTaskStore]]:
    async def watch(_: object) -> None:
        await trio.sleep_forever()

    bounds = FileBounds(bytes=2**30, busy_timeout=2.0)
    processes = ProcessRegistry(path)
    async with open_database(path, bounds=bounds, begin=_nothing, watch=watch, end=_nothing) as database:
        clock = WallClock(monotonic=trio.current_time)
        clock.set_epoch()
        network = Stalled(SQLiteTasks(database, clock, processes, bounds=StoreBounds()))
        yield network, CommonTaskStore(network, StoreBounds(), None)
    processes.leave()


def _nothing(_: object) -> None:
    pass


@pytest.mark.parametrize("what", ["claim", "create"])
async def test_change_that_arrives_late_is_taken_back_too(what: str, tmp_path: Path, autojump_clock: MockClock) -> None:
    async with stalled(tmp_path / "tasks.db") as (network, store):
        if what == "claim":
            await store.create(new_task("a"))
        network.is_stalled = True
        with pytest.raises(StoreFailed):
            await (store.claim({"dig": 1}) if what == "claim" else store.create(new_task("a", state=TaskState.RUNNING)))
        network.is_stalled = False

        await store.take_back_unacknowledged()
        await network.deliver()
        assert await store.claim({"dig": 1}) is None, "this process holds it, and does not know"
        await trio.sleep(60)
        await store.take_back_unacknowledged()

        if what == "claim":
            claimed = await store.claim({"dig": 1})
            assert claimed is not None
            await store.take_back_unacknowledged()
            assert await store.load("a") == claimed
        else:
            assert await store.load("a") is None
