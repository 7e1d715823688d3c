"""A memory in its own file, served to a client over memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from mcptrio_memory import Config, setup

from mcptrio import Client, PluginSetup, Server, connect, hookimpl
from mcptrio.serving import ServerSettings

Open = Callable[..., AbstractAsyncContextManager[Client]]


@frozen
class Installed:
    """Registers the plugin with the settings of a test, as the loader does."""

    config: Config

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        setup(server, self.config)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def open_memory(file: Path) -> Open:
    @asynccontextmanager
    async def opened(revision: str | None = None, **settings: Any) -> AsyncIterator[Client]:
        server = Server(plugins=[Installed(Config(**{"file": file, **settings}))], settings=ServerSettings(strict=True))
        async with server.open(), connect(server, revision=revision) as client:
            yield client

    return opened
