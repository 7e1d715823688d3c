"""The operator's settings are read again while the server is open: by a call, and on SIGHUP."""

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
from mcptrio import ConfigError, PluginSetup, Server, hookimpl, tool
from mcptrio.plugins.manager import PluginManager
from mcptrio.plugins.plugin import Plugin
from mcptrio.plugins.settings import PluginTables
from mcptrio.protocol.revisions.registry import REVISIONS
from mcptrio.types import TextContent
from tests.distributions import install, one_tool
from tests.processes import serving

__all__: list[str] = []


class Shop:
    """Counts how often its lifespan is entered, and records its settings."""

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
    """Return whether a plugin belongs to the test: it comes from no installed distribution."""
    return plugin.distribution is None


def tables(**of: dict[str, Any]) -> PluginTables:
    return PluginTables(tables=of, environ={})


async def test_only_changed_plugins_are_restarted() -> None:
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


class Kiosk(Shop):
    """Accepts new settings while it is open, but not those of another owner."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[Any] = []

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        server.on_new_settings(self.take)

    def take(self, config: Any) -> bool:
        if config.get("burns"):
            raise RuntimeError("the kiosk burns")
        if "owner" in config:
            return False
        self.taken.append(config)
        return True


async def test_plugin_that_accepts_new_settings_continues() -> None:
    kiosk = Kiosk()
    server = Server(plugins=[kiosk], config=tables(Kiosk={"a": 1}))
    async with server.open(), mcptrio.connect(server) as client:
        async with client.subscribe(tools=True) as changes:
            await server.renew_plugins(tables(Kiosk={"a": 2}), own)
            # The plugin does not receive unchanged settings.
            await server.renew_plugins(tables(Kiosk={"a": 2}), own)
            assert (kiosk.opened, kiosk.taken) == ([{"a": 1}], [{"a": 2}])
            assert server.plugins.plugins["Kiosk"].config == {"a": 2}
            await server.renew_plugins(tables(Kiosk={"owner": "bert"}), own)
            assert (kiosk.opened, len(kiosk.taken)) == ([{"a": 1}, {"owner": "bert"}], 1)
            await anext(changes)
        # Settings of the server are not passed to the plugin.
        await server.renew_plugins(tables(Kiosk={"a": 3, "timeout": 7}), own)
        assert (len(kiosk.opened), len(kiosk.taken)) == (3, 1)


async def test_plugin_that_fails_on_new_settings_is_quarantined() -> None:
    kiosk = Kiosk()
    server = Server(plugins=[kiosk], config=tables())
    async with server.open(), mcptrio.connect(server) as client:
        await server.renew_plugins(tables(Kiosk={"burns": True}), own)
        assert server.plugins.plugins["Kiosk"].failure == "it failed to take new settings: the kiosk burns"
        assert await client.tools().all() == ()
        await server.renew_plugins(tables(Kiosk={"a": 1}), own)
        assert (kiosk.opened, kiosk.taken) == ([{}, {"a": 1}], [])
        assert [each.name async for each in client.tools()] == ["sell"]


async def test_renewal_retries_a_quarantined_plugin_with_the_new_settings() -> None:
    shop = Shop()
    server = Server(plugins=[shop], config=tables(Shop={"shut": True}))
    async with server.open():
        assert server.plugins.plugins["Shop"].state == "quarantined"
        await server.renew_plugins(tables(Shop={"shut": True}), own)
        assert server.plugins.plugins["Shop"].state == "quarantined"
        await server.renew_plugins(tables(Shop={}), own)
        assert server.plugins.plugins["Shop"].state == "running"


async def test_change_of_a_file_that_a_setting_names_is_detected(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("old")
    shop = Shop()
    named = PluginTables(tables={"Shop": {"key": {"$file": "key"}}}, folder=tmp_path, environ={})
    server = Server(plugins=[shop], config=named)
    async with server.open():
        await server.renew_plugins(named, own)
        key.write_text("new")
        await server.renew_plugins(named, own)
        assert shop.opened == [{"key": "old"}, {"key": "new"}]
        key.unlink()
        await server.renew_plugins(named, own)
        failure = server.plugins.plugins["Shop"].failure
        assert failure == f"plugins.Shop.key: {key}: cannot be read: No such file or directory"


async def test_taken_name_stays_with_its_first_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for letter in "ab":
        module = f"renew_same_{letter}"
        install(tmp_path, f"renew-same-{letter}", modules={module: one_tool(f"of_{letter}")}, same=module)
    monkeypatch.syspath_prepend(str(tmp_path))
    manager = PluginManager()
    manager.load_installed(only=["same"])
    server = Server(plugins=manager)
    async with server.open():
        second = server.plugins.plugins["same #2"]
        failure = "the name of same (renew-same-b 1.0) is already taken by same (renew-same-a 1.0)"
        assert (second.state, second.failure) == ("quarantined", failure)
        await server.renew_plugins(tables(), lambda plugin: plugin.name.startswith("same"))
        assert (second.state, second.failure) == ("quarantined", failure)
        assert "renew_same_b" not in sys.modules
        # This also holds after the first was removed: clients know it by its name.
        await server.disable_plugin("same")
        assert (await server.enable_plugin("same #2")).failure == failure


class Elsewhere:
    """Represents a plugin in a separate process."""

    @tool
    async def greet(self) -> str:
        return "from elsewhere"


async def test_isolation_of_a_plugin_is_decided_each_time_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "renew-apart", modules={"renew_apart": SOURCE}, apart="renew_apart")
    monkeypatch.syspath_prepend(str(tmp_path))
    manager = PluginManager()
    manager.find_replacement = lambda name, file: Elsewhere if name == "apart" else None
    manager.load_installed(only=[])
    made = Server(plugins=manager)
    # The client connects before there is any tool, and uses only the capabilities declared then.
    made.announce_lists()
    server = made
    async with server.open(), mcptrio.connect(server) as client:
        plugin = await server.enable_plugin("apart")
        assert plugin.isolated
        assert "renew_apart" not in sys.modules
        assert (await client.call_tool("greet")).content == (TextContent(text="from elsewhere"),)
        manager.find_replacement = None
        await server.renew_plugins(tables(apart={"isolate": False}), lambda each: each is plugin)
        assert not plugin.isolated
        assert (await client.call_tool("apart_greet")).content == (TextContent(text="hello"),)


class Late:
    """A plugin that registers its tools only when its settings are valid."""

    @hookimpl
    def setup(self, server: PluginSetup, config: Any) -> None:
        if config.get("broken"):
            raise RuntimeError("broken by its settings")
        server.add_tool(self.arrive)

    async def arrive(self) -> str:
        return "here"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_tools_of_a_quarantined_plugin_are_listed_after_recovery(revision: str) -> None:
    server = Server(plugins=[Late()], config=tables(Late={"broken": True}))
    async with server.open(), mcptrio.connect(server, revision=revision) as client:
        assert [each.name async for each in client.tools()] == []
        async with client.subscribe(tools=True) as changes:
            await client.ping()
            await server.renew_plugins(tables(Late={}), own)
            with trio.fail_after(30):
                await anext(changes)
        assert [each.name async for each in client.tools()] == ["arrive"]


SOURCE = """
from mcptrio import hookimpl, tool

@tool
async def greet() -> str:
    return "hello"

@hookimpl
def setup(server, config):
    if config.get("broken"):
        raise RuntimeError("broken by its settings")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGHUP")
async def test_sighup_reads_the_configuration_again(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, "renew-one", modules={"renew_one": SOURCE}, one="renew_one")
    config = tmp_path / "mcptrio.toml"
    install(site, "renew-zero", modules={"renew_zero": SOURCE}, zero="renew_zero")
    config.write_text('[server]\nenable = ["zero", "one"]\n[plugins.one]\nbroken = true\n')
    with serving("--http", "--port=0", cwd=tmp_path, env={"PYTHONPATH": str(site)}) as served:
        url = f"http://127.0.0.1:{served.port}/mcp"
        with trio.fail_after(240):
            async with mcptrio.connect(url) as client, client.subscribe(tools=True) as changes:
                assert [each.name async for each in client.tools()] == ["zero_greet"]
                config.write_text("[server]\nenable = [3]\n")
                served.signal(signal.SIGHUP)
                served.until("plugins not reloaded: mcptrio.toml:2: server.enable: expected a string")
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


PROMPT = """from mcptrio import prompt


@prompt
def hello() -> str:
    return "hello"
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGHUP")
async def test_clients_see_the_tools_of_a_plugin_added_to_an_empty_server(tmp_path: Path) -> None:
    """The clients connected when the server had no tool, and list only what was declared then."""
    site = tmp_path / "site"
    install(site, "renew-bare", modules={"renew_bare": PROMPT}, bare="renew_bare")
    config = tmp_path / "mcptrio.toml"
    config.write_text('[server]\nenable = ["bare"]\n')
    with serving("--http", "--port=0", cwd=tmp_path, env={"PYTHONPATH": str(site)}) as served:
        with trio.fail_after(60):
            url = f"http://127.0.0.1:{served.port}/mcp"
            async with mcptrio.connect(url) as client, client.subscribe(tools=True) as changes:
                assert [each.name async for each in client.tools()] == []
                install(site, "renew-two", modules={"renew_two": SOURCE}, two="renew_two")
                config.write_text('[server]\nenable = ["two"]\n')
                served.signal(signal.SIGHUP)
                while {each.name async for each in client.tools()} != {"two_greet"}:
                    await anext(changes)
        served.signal(signal.SIGTERM)
        assert served.end()[0] == 0


async def test_unreadable_tables_raise_for_the_caller() -> None:
    with pytest.raises(ConfigError):
        tables(Shop={"timeout": "long"}).policy("Shop")
