"""The operator's settings taken anew while the server is open: by the server, and at SIGHUP."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

import mcptrio
from mcptrio import ConfigError, Server, hookimpl, tool
from mcptrio.plugins.plugin import Plugin, State
from mcptrio.plugins.settings import PluginTables
from tests.distributions import install
from tests.processes import serving

__all__: list[str] = []


class Shop:
    """Counts how often it is opened, and with what."""

    def __init__(self) -> None:
        self.opened: list[Any] = []

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, config: Any) -> AsyncIterator[None]:
        if config.get("shut"):
            raise RuntimeError("shut")
        self.opened.append(config)
        yield

    @tool
    async def sell(self) -> str:
        return "sold"


def own(plugin: Plugin) -> bool:
    """Not what happens to be installed here."""
    return plugin.distribution is None


def tables(**of: dict[str, Any]) -> PluginTables:
    return PluginTables(tables=of, environ={})


async def test_only_what_has_changed_begins_anew() -> None:
    shop = Shop()
    server = Server(plugins=[shop], config=tables(Shop={"a": 1}))
    async with server.open(), mcptrio.connect(server) as client:
        await server.renew_plugins(tables(Shop={"a": 1}), own)
        assert shop.opened == [{"a": 1}]
        await server.renew_plugins(tables(Shop={"a": 2}), own)
        assert shop.opened == [{"a": 1}, {"a": 2}]
        await server.renew_plugins(tables(Shop={"a": 2}), lambda plugin: False)
        assert [each.name async for each in client.tools()] == []
        await server.renew_plugins(tables(Shop={"a": 2}), own)
        assert [each.name async for each in client.tools()] == ["sell"]


async def test_what_is_in_quarantine_is_tried_with_what_is_set_now() -> None:
    shop = Shop()
    server = Server(plugins=[shop], config=tables(Shop={"shut": True}))
    async with server.open():
        assert server.plugins.plugins["Shop"].state is State.QUARANTINED
        await server.renew_plugins(tables(Shop={"shut": True}), own)
        assert server.plugins.plugins["Shop"].state is State.QUARANTINED
        await server.renew_plugins(tables(Shop={}), own)
        assert server.plugins.plugins["Shop"].state is State.RUNNING


SOURCE = """
from mcptrio import hookimpl, tool

@tool
async def greet() -> str:
    return "hello"

@hookimpl
def register_objects(register, config):
    if config.get("broken"):
        raise RuntimeError("broken by its settings")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGHUP")
async def test_hangup_takes_the_configuration_anew(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, "renew-one", modules={"renew_one": SOURCE}, one="renew_one")
    config = tmp_path / "mcptrio.toml"
    install(site, "renew-zero", modules={"renew_zero": SOURCE}, zero="renew_zero")
    config.write_text('[server]\nenable = ["zero", "one"]\n[plugins.one]\nbroken = true\n')
    with serving("--http", "--port=0", cwd=tmp_path, env={"PYTHONPATH": str(site)}) as served:
        url = f"http://127.0.0.1:{served.port}/mcp"
        with trio.fail_after(60):
            async with mcptrio.connect(url) as client, client.subscribe(tools=True) as changes:
                assert [each.name async for each in client.tools()] == ["zero_greet"]
                config.write_text("[server]\nenable = [3]\n")
                served.signal(signal.SIGHUP)
                served.until("the plugins stay as they are: mcptrio.toml:2: server.enable: expected a list of strings")
                # Two plugins now, one of which was installed meanwhile.
                install(site, "renew-two", modules={"renew_two": SOURCE}, two="renew_two")
                config.write_text('[server]\nenable = ["one", "two"]\n')
                served.signal(signal.SIGHUP)
                while {each.name async for each in client.tools()} != {"one_greet", "two_greet"}:
                    await anext(changes)
                config.write_text('[server]\nenable = ["two"]\n')
                served.signal(signal.SIGHUP)
                while {each.name async for each in client.tools()} != {"two_greet"}:
                    await anext(changes)
        served.signal(signal.SIGTERM)
        assert served.end()[0] == 0


async def test_tables_that_cannot_be_read_are_an_error_for_who_asks() -> None:
    with pytest.raises(ConfigError):
        tables(Shop={"timeout": "long"}).policy("Shop")
