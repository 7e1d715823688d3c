"""The stores behind the ports, each opened the same way: one contract, one set of tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest
import trio
from attrs import frozen

from mcptrio.abc import EventStore, SessionStore
from mcptrio.stores.memory import MemoryEventStore, MemorySessionStore
from mcptrio.stores.sqlite import SQLiteBounds, open_sqlite_stores
from mcptrio.stores.wall_clock import WallClock

__all__ = ["Kept", "Opener", "memory", "opener", "sqlite"]


class Kept(Protocol):
    @property
    def sessions(self) -> SessionStore: ...
    @property
    def events(self) -> EventStore: ...


Opener = Callable[[SQLiteBounds], AbstractAsyncContextManager[Kept]]


@frozen
class _Memory:
    sessions: MemorySessionStore
    events: MemoryEventStore


@asynccontextmanager
async def memory(bounds: SQLiteBounds) -> AsyncIterator[Kept]:
    yield _Memory(
        MemorySessionStore(idle_timeout=bounds.idle_timeout, most=bounds.max_sessions),
        MemoryEventStore(
            stream_events=bounds.stream_events,
            session_bytes=bounds.session_bytes,
            total_bytes=bounds.total_bytes,
            event_timeout=bounds.event_timeout,
        ),
    )


@asynccontextmanager
async def sqlite(path: Path, bounds: SQLiteBounds) -> AsyncIterator[Kept]:
    """On trio's clock, so that tests can turn it forward."""
    clock = trio.lowlevel.current_clock()
    async with open_sqlite_stores(path, bounds, clock=WallClock(steady=clock.current_time)) as stores:
        yield stores


@pytest.fixture(params=["memory", "sqlite"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens the stores with some bounds."""
    if request.param == "memory":
        return memory
    return lambda bounds: sqlite(tmp_path / "kept.db", bounds)
