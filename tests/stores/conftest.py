"""Fixtures that open the stores in memory and in SQLite in the same way, so that the contracts apply to both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
from attrs import asdict, frozen

from mcptrio.stores import StoreBounds
from mcptrio.stores.memory import MemoryEventStore, MemorySessionStore
from mcptrio.stores.sqlite import SQLiteBounds, open_sqlite_stores
from mcptrio.stores.wall_clock import WallClock

from .contract import Opener, SessionAndEventStores, StoreTime

__all__ = ["memory", "opener", "sqlite", "sqlite_bounds", "store_time"]


@frozen
class _Memory:
    sessions: MemorySessionStore
    events: MemoryEventStore


class _ManualClock(trio.abc.Clock):
    """Trio's clock, which stops until the test turns it. pytest-trio installs it."""

    bound = 10.0

    def __init__(self) -> None:
        self._clock = trio.testing.MockClock()

    async def advance(self, seconds: float) -> None:
        self._clock.jump(seconds)

    def start_clock(self) -> None:
        self._clock.start_clock()

    def current_time(self) -> float:
        return self._clock.current_time()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return self._clock.deadline_to_sleep_time(deadline)


@asynccontextmanager
async def memory(bounds: StoreBounds) -> AsyncIterator[SessionAndEventStores]:
    yield _Memory(
        MemorySessionStore(idle_timeout=bounds.idle_timeout, max_sessions=bounds.max_sessions),
        MemoryEventStore(
            stream_events=bounds.stream_events,
            session_bytes=bounds.session_bytes,
            total_bytes=bounds.total_bytes,
            event_timeout=bounds.event_timeout,
        ),
    )


def sqlite_bounds(bounds: StoreBounds) -> SQLiteBounds:
    return SQLiteBounds(**asdict(bounds))


@asynccontextmanager
async def sqlite(path: Path, bounds: StoreBounds) -> AsyncIterator[SessionAndEventStores]:
    """On Trio's clock, so that tests can turn it forward."""
    clock = trio.lowlevel.current_clock()
    steady = WallClock(monotonic=clock.current_time)
    async with open_sqlite_stores(path, sqlite_bounds(bounds), clock=steady) as stores:
        yield stores


@pytest.fixture
def store_time() -> StoreTime:
    return _ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens the stores with some bounds."""
    if request.param == "memory":
        return memory
    return lambda bounds: sqlite(tmp_path / "kept.db", bounds)
