"""The plugin in Berlin, at a time set by the test, served to a client over memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any

import pytest
from attrs import define
from mcptrio_time import Clock, Config, TimePrompts, TimeTools

from mcptrio import Client, PluginSetup, Server, connect, hookimpl
from mcptrio.serving import ServerSettings

Call = Callable[..., Awaitable[Any]]


@define
class Installed:
    """Registers the plugin with the clock of a test, as the loader does."""

    seconds: float = datetime.fromisoformat("2026-07-15T10:20:30Z").timestamp()

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        tools = TimeTools(Clock(Config(local_timezone="Europe/Berlin"), lambda: self.seconds))
        server.add(tools)
        server.add(TimePrompts(tools))


@pytest.fixture
def installed() -> Installed:
    return Installed()


@pytest.fixture
async def client(installed: Installed) -> AsyncIterator[Client]:
    server = Server(plugins=[installed], settings=ServerSettings(strict=True))
    async with server.open(), connect(server) as connected:
        yield connected


@pytest.fixture
def call(client: Client) -> Call:
    """Return the structured content of a tool's result."""

    async def called(name: str, **arguments: Any) -> Any:
        result = await client.call_tool(name, arguments)
        assert not result.is_error, result.content[0].text
        return result.structured_content

    return called


@pytest.fixture
def refusal(client: Client) -> Call:
    """Return the error of a tool for the model."""

    async def called(name: str, **arguments: Any) -> str:
        result = await client.call_tool(name, arguments)
        assert result.is_error
        return result.content[0].text

    return called
