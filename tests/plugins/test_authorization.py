"""Authorization: lists, calls and subscriptions by principal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

import mcptrio
from mcptrio import Context, MCPError, PluginSetup, Server, hookimpl, prompt, resource, tool
from mcptrio.abc import Principal
from mcptrio.client.client import Client
from mcptrio.plugins.plugin import Plugin
from mcptrio.plugins.settings import PluginTables
from mcptrio.protocol.revisions.registry import REVISIONS
from mcptrio.serving import Component, RunningServer, ServerSettings, memory_channel_pair

__all__: list[str] = []


class Papers:
    @tool(meta={"level": 1})
    async def public(self) -> str:
        return "for all"

    @tool(meta={"level": 2})
    async def secret(self) -> str:
        return "for some"

    @tool
    async def tell(self, ctx: Context) -> str:
        ctx.server.notify_resource_updated("paper://secret")
        return ""

    @resource("paper://public", meta={"level": 1})
    async def public_paper(self) -> str:
        return "p"

    @resource("paper://secret", meta={"level": 2})
    async def secret_paper(self) -> str:
        return "s"

    @resource("paper://drafts/{name}", meta={"level": 2})
    async def draft(self, name: str) -> str:
        return name

    @prompt(meta={"level": 2})
    async def report(self) -> str:
        return "report"


class Levels:
    """An authorizer: members of the board may see everything."""

    def __init__(self) -> None:
        self.judge: Callable[[Component, Principal | None], bool] = self.allows
        self.asked: list[Component] = []

    def allows(self, component: Component, principal: Principal | None) -> bool:
        self.asked.append(component)
        return component.meta.get("level", 1) < 2 or (principal is not None and principal.subject == "board")

    @hookimpl
    def setup(self, server: PluginSetup, config: Any) -> None:
        server.add_authorizer(lambda component, principal: self.judge(component, principal))


async def seen(client: Client) -> set[str]:
    names = {each.name async for each in client.tools()}
    names |= {each.uri async for each in client.resources()}
    names |= {each.uri_template async for each in client.resource_templates()}
    return names | {each.name async for each in client.prompts()}


EVERYTHING = {
    *("public", "secret", "tell", "paper://public", "paper://secret", "paper://drafts/{name}", "report"),
}


class Served:
    """One server, and clients with principals."""

    def __init__(self, nursery: trio.Nursery, running: RunningServer, revision: str) -> None:
        self._nursery = nursery
        self._running = running
        self._revision = revision

    def connect(self, subject: str | None) -> Any:
        ours, theirs = memory_channel_pair()
        principal = Principal(subject=subject) if subject is not None else None

        async def serve() -> None:
            await self._running.serve(theirs, principal=principal)

        self._nursery.start_soon(serve)
        return mcptrio.connect(ours, revision=self._revision)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_lists_and_calls_are_limited_to_the_principal(revision: str) -> None:
    levels = Levels()
    server = Server(plugins=[Papers(), levels], settings=ServerSettings(page_size=2))
    async with server.open() as running, trio.open_nursery() as nursery:
        served = Served(nursery, running, revision)
        async with served.connect("board") as client:
            assert await seen(client) == EVERYTHING
            await client.call_tool("secret")
            await client.read_resource("paper://drafts/x")
            await client.get_prompt("report")
        for other in ("clerk", None):
            async with served.connect(other) as client:
                assert await seen(client) == {"public", "tell", "paper://public"}
                await client.call_tool("public")
                # The error is the same as for a name that does not exist.
                for name in ("secret", "secre"):
                    with pytest.raises(MCPError, match=f"no such tool: `{name}`$"):
                        await client.call_tool(name)
                with pytest.raises(MCPError, match="no such prompt: `report`"):
                    await client.get_prompt("report")
                for uri in ("paper://secret", "paper://drafts/x"):
                    with pytest.raises(MCPError) as hidden:
                        await client.read_resource(uri)
                    with pytest.raises(MCPError) as missing:
                        await client.read_resource("paper://nothing")
                    assert hidden.value.code == missing.value.code
                    assert str(hidden.value).replace(uri, "") == str(missing.value).replace("paper://nothing", "")
        assert {(each.kind, each.plugin) for each in levels.asked} == {
            ("tool", "Papers"),
            ("resource", "Papers"),
            ("prompt", "Papers"),
        }
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_changes_are_notified_to_authorized_clients(revision: str) -> None:
    server = Server(plugins=[Papers(), Levels()])
    async with server.open() as running, trio.open_nursery() as nursery:
        served = Served(nursery, running, revision)
        async with served.connect("board") as client, client.subscribe(["paper://secret"]) as changes:
            with trio.fail_after(30):
                await client.call_tool("tell")
                assert (await anext(changes)).uri == "paper://secret"
        async with served.connect("clerk") as client:
            with pytest.raises(MCPError, match="paper://secret"):
                async with client.subscribe(["paper://secret"]):
                    pass
        nursery.cancel_scope.cancel()


async def test_failing_authorizer_refuses() -> None:
    levels = Levels()
    server = Server(plugins=[Papers(), levels])
    async with server.open(), mcptrio.connect(server) as client:
        assert "public" in await seen(client)

        def broken(component: Component, principal: Principal | None) -> bool:
            raise RuntimeError("no idea")

        levels.judge = broken
        assert await seen(client) == set()
        levels.judge = lambda component, principal: "yes"  # type: ignore[assignment,return-value]
        assert await seen(client) == set()


async def test_entries_are_refused_after_the_authorizer_fails_until_it_is_disabled() -> None:
    server = Server(plugins=[Papers(), Levels()])
    async with server.open(), mcptrio.connect(server) as client:
        server.running_plugins.quarantine(server.plugins.plugins["Levels"], "it broke")
        assert await seen(client) == set()
        await server.enable_plugin("Levels")
        assert await seen(client) == {"public", "tell", "paper://public"}
        await server.disable_plugin("Levels")
        assert await seen(client) == EVERYTHING


class Doorman(Levels):
    """An authorizer whose lifespan exits slowly, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.is_well = True
        self.is_leaving = trio.Event()
        self.may_leave = trio.Event()

    @hookimpl
    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        yield
        self.is_leaving.set()
        await self.may_leave.wait()

    @hookimpl
    def setup(self, server: PluginSetup, config: Any) -> None:
        if not self.is_well:
            raise RuntimeError("not well")
        super().setup(server, config)


async def test_entries_are_refused_during_the_restart_of_the_authorizer() -> None:
    doorman = Doorman()
    server = Server(plugins=[Papers(), doorman])

    def tables(**own: Any) -> PluginTables:
        return PluginTables(tables={"Doorman": own}, environ={})

    def is_wanted(plugin: Plugin) -> bool:
        return plugin.distribution is None

    with trio.fail_after(30):
        async with server.open(), mcptrio.connect(server) as client, trio.open_nursery() as nursery:
            nursery.start_soon(server.renew_plugins, tables(other=1), is_wanted)
            await doorman.is_leaving.wait()
            assert await seen(client) == set()
            doorman.is_well = False
            doorman.may_leave.set()
            await trio.testing.wait_all_tasks_blocked()
            assert server.plugins.plugins["Doorman"].state == "quarantined"
            for _ in range(2):
                assert await seen(client) == set()
                await server.renew_plugins(tables(other=1), is_wanted)
            doorman.is_well = True
            await server.renew_plugins(tables(other=1), is_wanted)
            assert await seen(client) == {"public", "tell", "paper://public"}
