"""Changes whose replica is killed before it could publish them."""

from __future__ import annotations

import json
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.processes import held_port
from tests.replicas.engines import engine_of
from tests.replicas.modern_client import modern_headers, modern_message
from tests.replicas.processes import replica
from tests.replicas.raw_http import Reply, request
from tests.stores.concurrent_checks import run_concurrently

__all__: list[str] = []

FAULTS = {"sqlite": "lock the file", "redis": "stall the network", "postgres": "stall the network"}


async def _next(stream: Reply) -> dict[str, Any]:
    """Return the next message."""
    while True:
        event = await stream.event()
        assert event is not None
        if event.data:
            message: dict[str, Any] = json.loads(event.data)
            return message


async def test_acknowledged_change_of_a_killed_replica_is_reported(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The test runs in all engines at once, because starting and waiting take most of the time."""
    checks = {}
    for name, fault in FAULTS.items():
        (tmp_path / name).mkdir()
        checks[name] = partial(is_reported, name, fault, tmp_path / name)
    await run_concurrently(checks, subtests)


async def is_reported(name: str, fault: str, folder: Path) -> None:
    async with engine_of(name, folder) as engine:
        with ExitStack() as stack:
            ports = [stack.enter_context(held_port()) for _ in range(2)]
            one, two = (replica(folder, at, port, engine.url, {}) for at, port in enumerate(ports))
            for each in (one, two):
                each.start()
                stack.callback(each.end)
            for each in (one, two):
                assert await each.until_ready()
            wanted = {"notifications": {"resourceSubscriptions": ["doc:///page"]}}
            listen = modern_message(1, "subscriptions/listen", wanted)
            touch = modern_message(2, "tools/call", {"name": "touch", "arguments": {"name": "page"}})
            async with request(ports[1], "POST", modern_headers(listen), listen) as stream:
                await _next(stream)
                async with engine.faults[fault](0.0):
                    async with request(ports[0], "POST", modern_headers(touch), touch) as reply:
                        assert "result" in await reply.json()
                    await one.kill()

                with trio.fail_after(30):
                    message = await _next(stream)

                assert message["method"] == "notifications/resources/updated"
