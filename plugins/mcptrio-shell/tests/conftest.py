"""Real commands in a real folder, a client of a server that may run them, and a folder outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from mcptrio_shell import Config, Rule, Shell

from mcptrio import Client, Server, connect

Connect = Callable[..., AbstractAsyncContextManager[Client]]

SCRIPTS = Rule(argv=("sh", "-c"), rest=("*",), shell=True)
"""Lets a test write the files that it runs."""


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "inside"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


@pytest.fixture
def timed(mock_clock: trio.testing.MockClock) -> trio.testing.MockClock:
    """A real-time clock that a test can advance to the timeout of a command."""
    mock_clock.rate = 1.0
    return mock_clock


@pytest.fixture
def connected(inside: Path) -> Connect:
    """Open a client of a server with the plugin in this configuration."""

    @asynccontextmanager
    async def connected(revision: str | None = None, **settings: Any) -> AsyncIterator[Client]:
        config = Config(**{"folders": (inside,), "allow": (SCRIPTS,), **settings})
        with trio.fail_after(60):
            async with connect(Server(plugins=[Shell(config)]), revision=revision) as client:
                yield client

    return connected


@pytest.fixture
def run() -> Callable[..., Any]:
    """Run a script through a client, and return the structured result."""

    async def run(client: Client, script: str, **arguments: Any) -> dict[str, Any]:
        result = await client.call_tool("run_command", {"argv": ["sh", "-c", script], **arguments})
        assert not result.is_error, result
        assert result.structured_content is not None
        return result.structured_content

    return run
