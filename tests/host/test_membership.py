"""Servers are added to and removed from an open host, and restarted after a failure; their status reports it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from mcptrio import Command, ConfigError, ConnectionClosed, Host
from mcptrio.abc import MessageChannel
from mcptrio.host import ConnectionStatus, HostOptions
from mcptrio.protocol.messages import Request
from mcptrio.serving import memory_channel_pair
from tests.error_codes import INTERNAL_ERROR, METHOD_NOT_FOUND
from tests.host.scripted import Scripted, plain, text_of

__all__: list[str] = []


async def never(*_: Any) -> None:
    await trio.sleep_forever()


async def hang_up(server: Scripted, channel: MessageChannel, params: dict[str, Any]) -> None:
    await channel.aclose()


async def test_status_of_a_connected_server() -> None:
    server = Scripted(name="its own name")
    async with Host({"one": server}, approve=None) as host:
        assert host.status["one"].state == "connecting"
        status: ConnectionStatus = (await host.settle())["one"]

    assert (status.state, status.reason, status.revision) == ("ready", None, "2025-11-25")
    assert status.info is not None
    assert status.info.name == "its own name"
    assert (status.connections, status.has_ended) == (1, False)


async def test_server_is_added_and_removed() -> None:
    async with Host({}, approve=None) as host:
        host.add("one", plain("1"))
        assert text_of(await host.call_tool("one_echo")) == "1"
        await host.remove("one")
        assert host.status == {}
        host.add("one", plain("another"))
        assert text_of(await host.call_tool("one_echo")) == "another"


async def test_removing_a_server_fails_its_pending_calls(autojump_clock: trio.abc.Clock) -> None:
    async def call() -> None:
        with pytest.raises(ConnectionClosed, match="one: it was removed"):
            await host.call_tool("one_echo", timeout=1000)

    async with Host({"one": Scripted({"tools/call": never}), "two": plain()}, approve=None) as host:
        await host.settle()
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call)
                await trio.testing.wait_all_tasks_blocked()
                await host.remove("one")
        assert text_of(await host.call_tool("two_echo")) == "plain"


async def test_removing_an_unresponsive_server_returns_in_time(autojump_clock: trio.abc.Clock) -> None:
    silent = Scripted({"server/discover": never, "initialize": never})
    async with Host({"one": silent}, approve=None) as host:
        await trio.sleep(1)
        with trio.fail_after(5):
            await host.remove("one")


async def test_server_is_removed_before_the_host_is_opened() -> None:
    host = Host({"one": plain(), "two": plain()}, approve=None)
    await host.remove("one")
    async with host:
        assert list(await host.settle()) == ["two"]


@pytest.mark.parametrize(
    ("name", "message"), [("", "a server's name"), ("x" * 201, "a server's name"), ("a\nb", "a server's name")]
)
async def test_invalid_server_name_is_refused(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Host({name: plain()}, approve=None)


async def test_duplicate_server_name_is_refused() -> None:
    host = Host({"one": plain()}, approve=None)
    with pytest.raises(ConfigError, match="expected a name with another prefix than"):
        host.add("one", plain())
    with pytest.raises(ConfigError, match="no such server: `two`"):
        await host.remove("two")


async def test_closed_host_refuses_new_servers() -> None:
    async with Host({}, approve=None) as host:
        pass
    with pytest.raises(ConnectionClosed, match="the host is closed"):
        host.add("one", plain())


async def test_server_name_with_the_prefix_of_another_is_refused() -> None:
    """A server name that is encoded in tool names may equal the name of another server."""
    host = Host({"my_notes": plain()}, approve=None)
    with pytest.raises(ConfigError, match="another prefix than `my_notes`, got 'my-notes-c23dc8'"):
        host.add("my-notes-c23dc8", plain())


async def test_invalid_target_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="target"):
        Host({"one": 7}, approve=None)  # type: ignore[dict-item]


async def test_lost_server_is_reconnected(autojump_clock: trio.abc.Clock) -> None:
    server = Scripted()
    async with Host({"one": server}, approve=None) as host:
        assert text_of(await host.call_tool("one_echo")) == "echo"
        await server.channel.aclose()
        await trio.testing.wait_all_tasks_blocked(0.01)
        lost = host.status["one"]
        assert text_of(await host.call_tool("one_echo")) == "echo"
        again = host.status["one"]

    assert (lost.state, lost.reason, lost.has_ended) == ("failed", "the server closed the connection", False)
    assert (again.state, again.reason, again.connections) == ("ready", None, 2)


async def test_server_that_starts_late_is_retried_until_it_is_connected(autojump_clock: trio.abc.Clock) -> None:
    async def refuse(*_: Any) -> Any:
        if trio.current_time() - began < 60:
            return INTERNAL_ERROR, "starting"
        return METHOD_NOT_FOUND, "no such method"

    async def handshake(server: Scripted, channel: MessageChannel, params: dict[str, Any]) -> Any:
        if trio.current_time() - began < 60:
            return INTERNAL_ERROR, "starting"
        return server._usual(Request(id=0, method="initialize"))

    began = trio.current_time()
    server = Scripted({"server/discover": refuse, "initialize": handshake})
    async with Host({"one": server}, approve=None, options=HostOptions(ready_timeout=120)) as host:
        status = (await host.settle())["one"]
        assert (status.state, status.reason) == ("failed", "starting")
        assert text_of(await host.call_tool("one_echo")) == "echo"

    assert trio.current_time() - began < 110
    assert 5 <= server.connected <= 12, "each attempt comes later than the one before"


async def test_lost_server_stays_lost_without_restart(autojump_clock: trio.abc.Clock) -> None:
    server = Scripted({"tools/call": hang_up})
    async with Host({"one": server}, approve=None, options=HostOptions(restart=False)) as host:
        with pytest.raises(ConnectionClosed):
            await host.call_tool("one_echo")
        await trio.sleep(100)
        status = host.status["one"]
        with pytest.raises(ConnectionClosed, match="one is not connected: the server closed the connection"):
            await host.call_tool("one_echo")

    assert (status.state, status.has_ended, server.connected) == ("failed", True, 1)


async def test_closed_channel_is_not_reconnected(autojump_clock: trio.abc.Clock) -> None:
    ours, theirs = memory_channel_pair()
    server = Scripted({"tools/call": hang_up})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve, theirs)
        async with Host({"one": ours}, approve=None) as host:
            with pytest.raises(ConnectionClosed):
                await host.call_tool("one_echo")
            await trio.sleep(1)
            assert host.status["one"].has_ended


DIES = """
import os
from mcptrio import tool

@tool
def number() -> int:
    return os.getpid()

@tool
def die() -> int:
    os._exit(3)
"""


async def test_exited_process_is_restarted(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text(DIES)
    command = Command(args=[sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", "dies.py"], cwd=tmp_path)
    with trio.fail_after(120):
        async with Host({"one": command, "two": plain()}, approve=None, options=HostOptions(ready_timeout=60)) as host:
            first = text_of(await host.call_tool("one_number"))
            with pytest.raises(ConnectionClosed, match="3"):
                await host.call_tool("one_die")
            assert text_of(await host.call_tool("two_echo")) == "plain"
            second = text_of(await host.call_tool("one_number"))
            status = host.status["one"]

    assert first != second
    assert (status.state, status.connections) == ("ready", 2)
