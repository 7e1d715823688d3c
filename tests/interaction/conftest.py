"""Fixtures: a server with a raw client, over every revision and transport that a test applies to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio
import trio.testing

from tests.interaction.applies import combinations, needs_real_time
from tests.interaction.serving import Serve
from tests.interaction.wires import HTTPWire


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "serve" not in metafunc.fixturenames:
        return
    cases = []
    for revision, transport in combinations(metafunc.function):
        # In memory only the clock delays a test, so the clock may jump.
        jumps = transport == "memory" and not needs_real_time(metafunc.function)
        marks = [pytest.mark.trio(run=_run_jumping)] if jumps else []
        cases.append(pytest.param(revision, transport, jumps, marks=marks, id=f"{transport}-{revision}"))
    metafunc.parametrize(("revision", "transport", "jumps"), cases)


def _run_jumping(function: Any, *, clock: trio.abc.Clock | None = None, instruments: Any = ()) -> Any:
    return trio.run(function, clock=clock or trio.testing.MockClock(autojump_threshold=0), instruments=instruments)


@pytest.fixture
async def serve(revision: str, transport: str, jumps: bool) -> AsyncIterator[Serve]:
    """Start servers; check at the end that no request is in flight and no client was refused unexpectedly."""
    async with trio.open_nursery() as nursery:
        async with AsyncExitStack() as stack:
            serve = Serve(revision, transport, jumps, nursery, stack)
            yield serve
            for peer in serve.peers:
                if not isinstance(peer.wire, HTTPWire):
                    await peer.wire.aclose()
            nursery.cancel_scope.cancel()
    for server in serve.servers:
        snapshot = server.status
        assert (snapshot.in_flight, snapshot.sessions, snapshot.parked) == (0, (), ())
    for peer in serve.peers:
        assert peer.refusals == []
