"""The stores of tasks in memory and in SQLite do what the model does."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path

import trio
import trio.testing
from hypothesis import given, settings

from mcptrio.stores import SQLiteBounds, open_sqlite_stores
from mcptrio.stores.wall_clock import WallClock

from .tasks_model import TASK_BOUNDS, TASK_STEPS, TasksModel, TaskStep, play_tasks
from .test_tasks import memory

__all__: list[str] = []


@settings(max_examples=60, deadline=None)
@given(steps=TASK_STEPS)
def test_tasks_in_memory_match_the_model(steps: list[TaskStep]) -> None:
    clock = trio.testing.MockClock()
    model = TasksModel()

    async def advance(seconds: float) -> None:
        clock.jump(seconds)
        model.now += seconds

    async def run() -> None:
        # The store begins with the wall clock. No task expires within half a second of another step.
        model.now = time.time()
        opened = partial(memory, **TASK_BOUNDS)
        await play_tasks(steps, model, opened, advance=advance, can_reopen=False)

    trio.run(run, clock=clock)


@settings(max_examples=40, deadline=None)
@given(steps=TASK_STEPS)
def test_tasks_in_a_file_match_the_model(steps: list[TaskStep]) -> None:
    model = TasksModel(now=1e9)
    clock = WallClock(wall=lambda: model.now, monotonic=lambda: model.now)

    async def advance(seconds: float) -> None:
        model.now += seconds

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tasks.db"

        async def run() -> None:
            bounds = SQLiteBounds(**TASK_BOUNDS)
            opened = partial(open_sqlite_stores, path, bounds, clock=clock)
            await play_tasks(steps, model, opened, advance=advance, can_reopen=True)

        trio.run(run)
