"""Lists of several servers: complete, in order, in time, and with the reason for each missing server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from mcptrio import Host, PluginSetup, RequestView, Server, hookimpl
from mcptrio.abc import MessageChannel
from mcptrio.host import HostList, HostListing, HostOptions, HostPrompt, HostResource, HostResourceTemplate, HostTool
from mcptrio.protocol.model.tools import Tool
from tests.error_codes import INTERNAL_ERROR, METHOD_NOT_FOUND
from tests.host.scripted import Scripted, note, plain

__all__: list[str] = []

QUICK = HostOptions(ready_timeout=2.0)


async def never(*_: Any) -> None:
    await trio.sleep_forever()


async def test_unresponsive_server_delays_only_the_first_list(autojump_clock: trio.abc.Clock) -> None:
    """Later lists contain its previous entries, until it answers again."""
    answers, mute = trio.Event(), False

    class Sometimes:
        @hookimpl
        def setup(self, server: PluginSetup) -> None:
            server.add_middleware(self.around)

        async def around(self, request: RequestView, proceed: Callable[[], Awaitable[Any]]) -> Any:
            if mute and request.method == "tools/list":
                await answers.wait()
            return await proceed()

    one = Server("one", plugins=[Sometimes()])
    one.add_tool(trio.sleep_forever, name="wait", description="Wait.")
    async with Host({"one": one, "two": plain()}, approve=None, options=QUICK) as host:
        both = [each.name for each in (await host.tools().all()).items]
        assert both == ["one_wait", "two_echo"]
        mute = True
        one.add_tool(trio.sleep_forever, name="more", description="Wait longer.")
        waits = []
        for _ in range(3):
            began = trio.current_time()
            listed: HostList[Any] = await host.tools().all()
            waits.append(round(trio.current_time() - began, 1))
            assert [each.name for each in listed.items] == both
            assert set(listed.missing) == {"one"}
        assert waits == [2.0, 0.0, 0.0]

        answers.set()
        await trio.testing.wait_all_tasks_blocked()
        whole: HostList[Any] = await host.tools().all()
        assert ([each.name for each in whole.items], whole.missing) == (["one_wait", "one_more", "two_echo"], {})


async def test_lists_contain_all_servers_in_order() -> None:
    async with Host({"one": plain("1"), "two": plain("2")}, approve=None) as host:
        tools: list[HostTool] = [each async for each in host.tools()]
        prompts: tuple[HostPrompt, ...] = (await host.prompts().all()).items
        resources: tuple[HostResource, ...] = (await host.resources().all()).items

    assert [(each.name, each.server, each.own_name) for each in tools] == [
        ("one_echo", "one", "echo"),
        ("two_echo", "two", "echo"),
    ]
    assert [(each.name, each.own_name) for each in prompts] == [("one_greet", "greet"), ("two_greet", "greet")]
    assert (tools[0].description, tools[0].input_schema["type"]) == ("Repeat the text.", "object")
    assert isinstance(tools[0], Tool)
    assert [(each.server, each.uri) for each in resources] == [("one", "text://readme"), ("two", "text://readme")]


async def test_templates_are_listed() -> None:
    server = plain()

    async def page(name: str) -> str:
        """A page."""
        return name

    server.add_resource(page, "page:///{name}")
    async with Host({"wiki": server}, approve=None) as host:
        templates: tuple[HostResourceTemplate, ...] = (await host.resource_templates().all()).items
    [template] = templates

    assert (template.server, template.uri_template, template.name) == ("wiki", "page:///{name}", "page")


async def test_server_without_a_capability_has_an_empty_list() -> None:
    async with Host({"one": Scripted()}, approve=None) as host:
        prompts: HostList[Any] = await host.prompts().all()
        templates = await host.resource_templates().all()

    assert (prompts.items, prompts.missing) == ((), {})
    assert (templates.items, templates.missing) == ((), {}), "it answered that it has no such method"


async def test_slow_server_is_missing_after_the_list_timeout(autojump_clock: trio.abc.Clock) -> None:
    slow = Scripted({"tools/list": never})
    async with Host({"slow": slow, "one": plain()}, approve=None, options=QUICK) as host:
        await host.settle()
        started = trio.current_time()
        listing: HostListing[HostTool] = host.tools()
        found = [each.name async for each in listing]

    assert found == ["one_echo"]
    assert trio.current_time() - started == pytest.approx(2.0)
    assert listing.missing == {"slow": "no answer within 2 s"}


async def test_list_waits_for_a_connecting_server(autojump_clock: trio.abc.Clock) -> None:
    async def late(*_: Any) -> Any:
        await trio.sleep(1)
        return METHOD_NOT_FOUND, "no such method"

    async with Host({"late": Scripted({"server/discover": late})}, approve=None, options=QUICK) as host:
        tools = await host.tools().all()

    assert [each.name for each in tools.items] == ["late_echo"]


async def test_list_does_not_wait_for_a_failed_server(autojump_clock: trio.abc.Clock) -> None:
    async def refuse(*_: Any) -> Any:
        return INTERNAL_ERROR, "not today"

    down = Scripted({"server/discover": refuse, "initialize": refuse})
    async with Host({"down": down, "one": plain()}, approve=None) as host:
        await host.settle()
        started = trio.current_time()
        tools = await host.tools().all()

        assert trio.current_time() == started
    assert [each.name for each in tools.items] == ["one_echo"]
    assert tools.missing == {"down": "not today"}


async def test_endless_list_is_truncated_and_reported() -> None:
    async def endless(server: Scripted, channel: MessageChannel, params: dict[str, Any]) -> Any:
        page = int(params.get("cursor", "0"))
        tools = [{"name": f"t{page}-{number}", "inputSchema": {"type": "object"}} for number in range(50)]
        return {"tools": tools, "nextCursor": str(page + 1)}

    options = HostOptions(listed=120)
    async with Host({"endless": Scripted({"tools/list": endless})}, approve=None, options=options) as host:
        found = await host.tools().all()

    assert len(found.items) == 120
    assert found.missing == {"endless": "only the first 120 are listed"}


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ({"tools": "many"}, "tools"),
        ({"tools": [{"name": 1, "inputSchema": {}}]}, "name"),
        ({"tools": [], "nextCursor": "same"}, "same cursor twice"),
        ((INTERNAL_ERROR, "out of order"), "out of order"),
    ],
)
async def test_server_with_an_invalid_list_is_missing(lie: Any, message: str) -> None:
    async def answer(*_: Any) -> Any:
        return lie

    async with Host({"liar": Scripted({"tools/list": answer}), "one": plain()}, approve=None) as host:
        tools = await host.tools().all()

    assert [each.name for each in tools.items] == ["one_echo"]
    assert message in tools.missing["liar"]


async def test_duplicate_tools_are_listed_once(caplog: pytest.LogCaptureFixture) -> None:
    async with Host({"one": Scripted(tools=("a", "b", "a"))}, approve=None) as host:
        tools = await host.tools().all()

    assert [each.name for each in tools.items] == ["one_a", "one_b"]
    assert "duplicate names" in caplog.text


async def test_iteration_of_a_list_may_stop_early() -> None:
    async with Host({"one": plain(), "two": plain()}, approve=None) as host:
        async for each in host.tools():
            assert each.name == "one_echo"
            break


async def test_changed_list_is_requested_again() -> None:
    server = Scripted(tools=("old",))
    async with Host({"one": server}, approve=None) as host:
        await host.call_tool("one_old")
        server.tools = ("new",)
        await server.channel.send([note("notifications/tools/list_changed")])
        await trio.testing.wait_all_tasks_blocked()
        tools = await host.tools().all()

        assert [each.name for each in tools.items] == ["one_new"]
        with pytest.raises(Exception, match="no such tool: `one_old`; expected one of `one_new`"):
            await host.call_tool("one_old")
