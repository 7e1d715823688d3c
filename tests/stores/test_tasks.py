"""The stores of tasks in memory and in SQLite against the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from mcptrio.abc import Stores
from mcptrio.stores import MemoryBus, SQLiteBounds, StoreBounds, memory_stores, open_sqlite_stores
from mcptrio.stores.wall_clock import WallClock

from .tasks_contract import *  # noqa: F403 - these are the tests
from .tasks_contract import TasksOpener
from .tasks_expiry_contract import *  # noqa: F403 - as above

__all__: list[str] = []


@asynccontextmanager
async def memory(**bounds: Any) -> AsyncIterator[Stores]:
    yield memory_stores(StoreBounds(**bounds), bus=MemoryBus())


@asynccontextmanager
async def sqlite(path: Path, **bounds: Any) -> AsyncIterator[Stores]:
    clock = WallClock(monotonic=trio.lowlevel.current_clock().current_time)
    async with open_sqlite_stores(path, SQLiteBounds(**bounds), clock=clock) as stores:
        yield stores


@pytest.fixture(params=["memory", "sqlite"])
def tasks_opener(request: pytest.FixtureRequest, tmp_path: Path) -> TasksOpener:
    return memory if request.param == "memory" else partial(sqlite, tmp_path / "tasks.db")
