"""A server that crashes, hangs, floods, violates the protocol or breaks our own code does not affect other servers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.testing

from mcptrio import ConnectionClosed, Host, MCPTrioError
from mcptrio.abc import MessageChannel
from mcptrio.errors import RemoteProtocolError
from mcptrio.host import HostOptions
from mcptrio.protocol.messages import Request
from mcptrio.serve.http import serve_http
from tests.host.scripted import Scripted, note, plain, text_of

__all__: list[str] = []


async def never(*_: Any) -> None:
    await trio.sleep_forever()


async def others_work(host: Host, *, within: float = 30.0) -> None:
    """Check that the server ``good`` answers as usual."""
    with trio.fail_after(within):
        assert text_of(await host.call_tool("good_echo", {"text": "fine"})) == "fine"
        tools = await host.tools().all()
    assert "good_echo" in [each.name for each in tools.items]


class Broken(Scripted):
    """A target whose transport raises an unexpected error."""

    async def serve(self, channel: MessageChannel, *, principal: object = None) -> None:
        raise ZeroDivisionError("a bug")


async def hang_up(server: Scripted, channel: MessageChannel, params: dict[str, Any]) -> None:
    await channel.aclose()


@pytest.mark.parametrize(
    ("make", "state", "message"),
    [
        (lambda: Scripted({"server/discover": hang_up, "initialize": hang_up}), "failed", "closed"),
        (lambda: Scripted({"initialize": lambda *_: _refused()}), "failed", "no room"),
        (lambda: Scripted({"initialize": lambda *_: _answer({"protocolVersion": "1999-01-01"})}), "failed", ""),
        (lambda: Scripted({"initialize": lambda *_: _answer("hello")}), "failed", ""),
        (Broken, "failed", "ZeroDivisionError"),
    ],
    ids=["hangs up", "refuses", "another protocol", "nonsense", "breaks the transport"],
)
async def test_server_that_cannot_be_connected_does_not_affect_others(
    make: Callable[[], Any], state: str, message: str, autojump_clock: trio.abc.Clock
) -> None:
    async with Host({"bad": make(), "good": plain()}, approve=None, options=HostOptions(ready_timeout=0.5)) as host:
        status = (await host.settle())["bad"]
        await others_work(host, within=0.1)
        with pytest.raises(ConnectionClosed, match="bad is not connected"):
            await host.call_tool("bad_echo")

    assert status.state == state
    assert message in (status.reason or "")


async def test_missing_program_does_not_affect_others() -> None:
    missing = ["/nowhere/there-is-no-such-program"]
    # Tried once: with restarts, the call would wait for the next attempts.
    options = HostOptions(restart=False)
    async with Host({"bad": missing, "good": plain()}, approve=None, options=options) as host:
        status = (await host.settle())["bad"]
        await others_work(host)
        with pytest.raises(ConnectionClosed, match="bad is not connected"):
            await host.call_tool("bad_echo")

    assert status.state == "failed"
    assert "there-is-no-such-program" in (status.reason or "")


async def _refused() -> Any:
    return -32000, "no room"


async def _answer(result: Any) -> Any:
    return result if isinstance(result, dict) else {"serverInfo": result}


async def test_silent_server_does_not_affect_others(autojump_clock: trio.abc.Clock) -> None:
    silent = Scripted({"server/discover": never, "initialize": never})
    async with Host({"bad": silent, "good": plain()}, approve=None, options=HostOptions(ready_timeout=1)) as host:
        await others_work(host, within=1.5)
        assert host.status["bad"].state == "connecting"
        status = (await host.settle(timeout=100))["bad"]

    assert status.state == "failed"
    assert "did not answer within 30 s" in (status.reason or "")


async def test_server_that_disconnects_during_a_call_does_not_affect_others() -> None:
    dying = Scripted({"tools/call": hang_up})
    async with Host({"bad": dying, "good": plain()}, approve=None) as host:
        with pytest.raises(ConnectionClosed):
            await host.call_tool("bad_echo")
        await others_work(host)


async def test_flooding_server_does_not_affect_others() -> None:
    """It sends notifications, requests and unknown messages without end, while the host calls the other server."""

    async def flood(channel: MessageChannel) -> None:
        async def pour() -> None:
            number = 0
            with suppress(ConnectionClosed):
                while True:
                    number += 1
                    await channel.send(
                        [
                            note("notifications/tools/list_changed"),
                            note("notifications/resources/updated", uri=f"x:{number}"),
                            note("notifications/message", level="info", data="x" * 1000),
                            note("notifications/progress", progressToken=1, progress=number),
                            note("notifications/cancelled", requestId=number),
                            note("nobody/knows", what=number),
                            Request(id=number, method="sampling/createMessage", params={}),
                        ]
                    )

        nursery.start_soon(pour)

    async with trio.open_nursery() as nursery:
        flooding = Scripted(begins=flood)
        async with Host({"bad": flooding, "good": plain()}, approve=None) as host:
            async with host.subscribe(tools=True, uris={"bad": ["x:"]}) as changes:
                await host.settle()
                for _ in range(20):
                    await others_work(host)
                assert (await anext(changes)).kind in ("server", "tools", "resource")


async def test_server_with_an_invalid_result_does_not_affect_others() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def listed(*_: Any) -> Any:
        return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}, "outputSchema": schema}]}

    async def call(*_: Any) -> Any:
        return {"content": [], "structuredContent": {"n": "one"}}

    lying = Scripted({"tools/list": listed, "tools/call": call})
    async with Host({"bad": lying, "good": plain()}, approve=None) as host:
        with pytest.raises(RemoteProtocolError, match="structured content"):
            await host.call_tool("bad_echo")
        await others_work(host)
        assert host.status["bad"].state == "ready"


async def test_tool_named_like_that_of_another_server_gets_its_own_prefix() -> None:
    """A server may choose any tool names; the host puts the server's name before them."""
    lying = Scripted(tools=("echo", "good_echo"))
    async with Host({"bad": lying, "good": plain()}, approve=None) as host:
        names = [(each.name, each.server) async for each in host.tools()]
        await others_work(host)

    assert names == [("bad_echo", "bad"), ("bad_good_echo", "bad"), ("good_echo", "good")]


async def test_stopped_http_server_does_not_affect_others() -> None:
    """Over a real socket."""
    shutdown, gone = trio.Event(), trio.Event()

    async def serve(*, task_status: trio.TaskStatus[list[str]]) -> None:
        await serve_http(plain("web"), port=0, shutdown=shutdown, task_status=task_status)
        gone.set()

    async with trio.open_nursery() as nursery:
        [url] = await nursery.start(serve)
        async with Host({"web": url, "good": plain()}, approve=None) as host:
            assert text_of(await host.call_tool("web_echo")) == "web"
            shutdown.set()
            with trio.fail_after(30):
                await gone.wait()
            with pytest.raises(MCPTrioError):
                await host.call_tool("web_echo")
            await others_work(host)


async def test_unexpected_error_is_logged_in_full(caplog: pytest.LogCaptureFixture) -> None:
    async with Host({"bad": Broken(), "good": plain()}, approve=None) as host:
        await host.settle()
        await others_work(host)

    assert "bad: the client failed" in caplog.text
    assert "a bug" in caplog.text


async def test_leaving_the_host_ends_all_tasks(autojump_clock: trio.abc.Clock) -> None:
    """The host has servers in every state. trio.run would not return while one of their tasks runs."""
    servers = {
        "silent": Scripted({"server/discover": never, "initialize": never}),
        "hanging": Scripted({"tools/call": never}),
        "good": plain(),
    }

    async def call() -> None:
        with pytest.raises((ConnectionClosed, MCPTrioError)):
            await host.call_tool("hanging_echo", timeout=1000)

    async with trio.open_nursery() as nursery:
        async with Host(servers, approve=None) as host:
            nursery.start_soon(call)
            await trio.sleep(5)
        with trio.fail_after(5):
            await trio.testing.wait_all_tasks_blocked()
    assert host.status["good"].state == "removed"
