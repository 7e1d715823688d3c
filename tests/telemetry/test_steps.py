"""Spans of plugins that start and stop, of background tasks, and of stores."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import trio
from trio.testing import MockClock

from mcptrio import PluginSetup, Server, hookimpl, lifespan
from mcptrio.abc import SessionRecord
from mcptrio.serve.watched_stores import watched_stores
from mcptrio.stores import open_stores
from tests.telemetry.spans import is_child, traced

__all__: list[str] = []


class Mill:
    def __init__(self) -> None:
        self.runs = 0
        self.turned = trio.Event()

    @lifespan
    async def opened(self) -> AsyncGenerator[None]:
        """Open."""
        yield

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        server.add_background(self.turn)

    async def turn(self) -> None:
        """Fail once."""
        self.runs += 1
        if self.runs == 1:
            raise OSError("jammed")
        self.turned.set()


async def test_lifespan_and_restarts_of_a_plugin_have_spans(autojump_clock: MockClock) -> None:
    with traced() as spans:
        async with Server(plugins=[mill := Mill()]).open():
            await mill.turned.wait()

    start, stop, restart = (spans.one(f"{step} Mill") for step in ("start plugin", "stop plugin", "restart task"))
    assert start.attributes["mcptrio.plugin"] == "Mill"
    assert restart.attributes["error.type"] == "OSError"
    assert start.end_time <= restart.start_time <= stop.start_time


async def test_operations_of_stores_have_spans(tmp_path: Path) -> None:
    with traced(details=True) as spans:
        async with open_stores(f"sqlite:{tmp_path / 'stores'}") as opened:
            stores = watched_stores(opened, traced=True)
            with spans.tracer.start_as_current_span("request"):
                await stores.sessions.save(SessionRecord(id="it", revision="2025-11-25"))
            assert await stores.sessions.load("it") is not None

    assert is_child(spans.one("store sessions.save"), spans.one("request"))
    assert spans.one("store sessions.load").attributes["mcptrio.store.operation"] == "sessions.load"
