"""Requests through a host reach the named server, and fail like those of a client."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from mcptrio import ConfigError, ConnectionClosed, Context, Host, InvalidParams, MCPError, RequestTimeout
from mcptrio.client import Progress
from mcptrio.host import HostOptions
from tests.host.scripted import Scripted, plain, text_of

__all__: list[str] = []


async def test_name_prefix_selects_the_server() -> None:
    async with Host({"one": plain("1"), "two": plain("2")}, approve=None) as host:
        assert text_of(await host.call_tool("one_echo")) == "1"
        assert text_of(await host.call_tool("two_echo", {"text": "said"})) == "said"
        prompt = await host.get_prompt("two_greet", {"who": "Ada"})
        assert prompt.messages[0].content.text == "Greet Ada of 2."  # type: ignore[union-attr]
        read = await host.read_resource("one", "text://readme")
        assert read.contents[0].text == "This is 1."  # type: ignore[union-attr]


async def test_tool_with_a_changed_name_is_called_by_its_own_name() -> None:
    server = Scripted(tools=("files.read", "x" * 100))
    async with Host({"my files": server}, approve=None) as host:
        names = [each.name async for each in host.tools()]
        texts = [text_of(await host.call_tool(name)) for name in names]

    assert texts == ["files.read", "x" * 100]
    assert all(len(name) <= 64 for name in names)


async def test_tool_is_found_without_listing_before() -> None:
    async with Host({"one": Scripted(tools=("files.read",))}, approve=None) as host:
        assert text_of(await host.call_tool("one_files_read_601e4eb6")) == "files.read"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("one_ecco", "no such tool: `one_ecco`; did you mean `one_echo`?"),
        ("tow_echo", "no such tool: `tow_echo`: no server has this prefix; did you mean `two`?"),
        ("echo", "no server has this prefix"),
    ],
)
async def test_unknown_tool_is_refused_with_the_nearest(name: str, message: str) -> None:
    async with Host({"one": plain(), "two": plain()}, approve=None) as host:
        with pytest.raises(InvalidParams) as refused:
            await host.call_tool(name)

    assert message in refused.value.message


async def test_unknown_server_is_refused() -> None:
    async with Host({"one": plain()}, approve=None) as host:
        with pytest.raises(ConfigError, match="no such server: `oen`; did you mean `one`"):
            await host.read_resource("oen", "text://readme")
        with pytest.raises(ConfigError, match="expected the name of the template"):
            await host.complete("resource", "page:///{name}", "name", "a")


async def test_completion_of_prompts_and_resource_templates() -> None:
    server = plain()

    async def page(name: str) -> str:
        """A page."""
        return name

    server.add_resource(page, "page:///{name}")
    server.add_completion(["about", "contact"], "resource", "page:///{name}", "name")
    server.add_completion(["Ada", "Bob"], "prompt", "greet", "who")
    async with Host({"wiki": server}, approve=None) as host:
        assert (await host.complete("resource", "page:///{name}", "name", "ab", server="wiki")).values == ("about",)
        assert (await host.complete("prompt", "wiki_greet", "who", "B")).values == ("Bob",)


async def test_progress_is_reported_before_the_result(autojump_clock: trio.abc.Clock) -> None:
    server = plain()

    async def count(ctx: Context) -> str:
        for number in (1, 2, 3):
            await ctx.report_progress(number, 3)
            await trio.sleep(0.2)
        return "done"

    server.add_tool(count)
    seen: list[Progress] = []
    async with Host({"one": server}, approve=None) as host:
        assert text_of(await host.call_tool("one_count", progress=seen.append)) == "done"

    assert [each.progress for each in seen][-1] == 3


async def test_slow_call_times_out(autojump_clock: trio.abc.Clock) -> None:
    async def never(*_: Any) -> None:
        await trio.sleep_forever()

    async with Host({"one": Scripted({"tools/call": never})}, approve=None) as host:
        with pytest.raises(RequestTimeout):
            await host.call_tool("one_echo", timeout=3)
        assert host.status["one"].state == "ready"


async def test_error_of_one_server_does_not_affect_another() -> None:
    async def refuse(*_: Any) -> Any:
        return -32000, "no"

    async with Host({"one": Scripted({"tools/call": refuse}), "two": plain()}, approve=None) as host:
        with pytest.raises(MCPError, match=r"^no$"):
            await host.call_tool("one_echo")
        assert text_of(await host.call_tool("two_echo")) == "plain"


async def test_arguments_that_are_not_json_are_refused() -> None:
    async with Host({"one": plain()}, approve=None) as host:
        with pytest.raises(TypeError):
            await host.call_tool("one_echo", {"text": object()})


async def test_host_gives_access_to_the_client_of_a_server() -> None:
    async with Host({"one": plain()}, approve=None) as host:
        assert await host.use("one", lambda client: client.ping()) >= 0


async def test_call_to_an_unreachable_server_times_out(autojump_clock: trio.abc.Clock) -> None:
    async def never(*_: Any) -> None:
        await trio.sleep_forever()

    silent = Scripted({"server/discover": never, "initialize": never})
    async with Host({"one": silent}, approve=None, options=HostOptions(ready_timeout=4)) as host:
        started = trio.current_time()
        with pytest.raises(ConnectionClosed, match="one is not connected: no connection within 4 s"):
            await host.call_tool("one_echo")
        assert trio.current_time() - started == pytest.approx(4)


async def test_host_is_opened_once_and_unusable_before() -> None:
    host = Host({"one": plain()}, approve=None, options=HostOptions(ready_timeout=0.01))
    with pytest.raises(ConnectionClosed):
        await host.call_tool("one_echo")
    async with host:
        pass
    with pytest.raises(ConfigError, match="opened only once"):
        async with host:
            pass


async def test_exception_of_the_body_is_raised_unwrapped() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with Host({"one": plain()}, approve=None):
            raise KeyError("mine")
