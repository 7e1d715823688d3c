"""The hook with which a plugin adds a transport, and plugins that use it incorrectly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio

from mcptrio import Server, connect, hookimpl, tool
from mcptrio.abc import Engine
from mcptrio.errors import PluginError
from mcptrio.plugins.manager import BUILT_IN
from mcptrio.serve.transport import serve_transport
from mcptrio.serving import (
    ServerSettings,
    adapt_channel,
)
from tests.transports.test_custom_transports import End, pair

__all__: list[str] = []


async def nowhere(engine: Engine, *, stopping: trio.Event, task_status: trio.TaskStatus[list[str]]) -> None:
    task_status.started([])
    await stopping.wait()


class Pigeons:
    """A plugin with a transport: the test passes channel ends to it."""

    def __init__(self) -> None:
        self.carries, self.arrive = trio.open_memory_channel[End](0)
        self.configs: list[Mapping[str, Any]] = []

    @hookimpl
    def transports(self, config: Mapping[str, Any]) -> dict[str, Any]:
        self.configs.append(config)
        return {"pigeon": self.serve}

    @tool
    async def coo(self) -> str:
        return "coo"

    async def serve(self, engine: Engine, *, stopping: trio.Event, task_status: trio.TaskStatus[list[str]]) -> None:
        async with trio.open_nursery() as nursery:
            task_status.started(["the roof"])
            async for end in self.arrive:
                nursery.start_soon(engine.serve, adapt_channel(end))


class Registers:
    """A plugin that registers these."""

    def __init__(self, *transports: tuple[Any, Any], raises: bool = False) -> None:
        self._transports = transports
        self._raises = raises

    @hookimpl
    def transports(self) -> Any:
        if self._raises:
            raise ValueError("no kites today")
        return dict(self._transports)

    @tool
    def offered(self) -> str:
        return "still"


async def test_transport_of_a_plugin_is_served() -> None:
    pigeons = Pigeons()
    server = Server("roof", plugins=[pigeons], config={"Pigeons": {"flies": "far"}})
    offered = server.plugins.transports(server.running_plugins.quarantine)
    assert list(offered) == ["pigeon"]
    assert pigeons.configs == [{"flies": "far"}]
    assert server.plugins.plugins["Pigeons"].offers["transports"] == ["pigeon"]

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            shutdown = trio.Event()

            async def serve(*, task_status: trio.TaskStatus[list[str]]) -> None:
                await serve_transport(server, offered["pigeon"], shutdown=shutdown, task_status=task_status)

            assert await nursery.start(serve) == ["the roof"]
            ours, theirs = pair()
            await pigeons.carries.send(theirs)
            async with connect(adapt_channel(ours)) as client:
                result = await client.call_tool("coo", {})
                assert result.content[0].text == "coo"  # type: ignore[union-attr]
                pigeons.carries.close()
            shutdown.set()


@pytest.mark.parametrize(
    ("plugin", "failure"),
    [
        (Registers(("", nowhere)), "expected a name for a transport"),
        (Registers((17, nowhere)), "expected a name for a transport, other than stdio, http, stream, got 17"),
        *((Registers((name, nowhere)), "expected a name for a transport, other than") for name in BUILT_IN),
        (Registers(("kite", "no function")), "transport `kite`: expected an async function, got str"),
        (Registers(("pigeon", nowhere)), "transport `pigeon` of Registers is already offered by Pigeons"),
        (Registers(raises=True), "no kites today"),
    ],
    ids=["empty", "number", *BUILT_IN, "text", "taken", "raises"],
)
def test_plugin_with_an_invalid_transport_does_not_affect_others(plugin: Registers, failure: str) -> None:
    server = Server("roof", plugins=[Pigeons(), plugin])
    offered = server.plugins.transports(server.running_plugins.quarantine)

    assert list(offered) == ["pigeon"]
    wrong = server.plugins.plugins["Registers"]
    assert wrong.failure is not None
    assert wrong.failure.startswith("transports failed: ")
    assert failure in wrong.failure
    assert [tool for tool in ("coo", "offered") if server.catalog.tools.registry.get(tool)] == ["coo"]


def test_plugin_with_an_invalid_transport_ends_a_strict_server() -> None:
    server = Server("roof", plugins=[Registers(("http", nowhere))], settings=ServerSettings(strict=True))

    with pytest.raises(PluginError, match="plugin Registers: transports failed: expected a name"):
        server.plugins.transports(server.running_plugins.quarantine)
