"""The event stores in memory and in SQLite do what the model does."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings

from mcptrio.stores.sqlite import open_sqlite_stores
from mcptrio.stores.wall_clock import WallClock

from .conftest import memory, sqlite_bounds
from .model import BOUNDS, STEPS, Model, Step, play

__all__: list[str] = []


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_store_matches_the_model(kind: str, steps: list[Step]) -> None:
    model = Model()

    async def run_memory() -> None:
        await play(steps, model, lambda: memory(BOUNDS), can_reopen=False)

    async def run_sqlite(path: Path) -> None:
        # An hour a step, so that nothing is touched in the moment of something else.
        clock = WallClock(wall=lambda: model.now * 3600.0, monotonic=lambda: model.now * 3600.0)
        bounds = sqlite_bounds(BOUNDS)
        await play(steps, model, lambda: open_sqlite_stores(path, bounds, clock=clock), can_reopen=True)

    if kind == "memory":
        trio.run(run_memory)
        return
    with tempfile.TemporaryDirectory() as folder:
        trio.run(run_sqlite, Path(folder) / "kept.db")
