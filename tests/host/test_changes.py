"""Changes of all servers, each with its server, for the duration of a subscription."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from mcptrio import ConfigError, ConnectionClosed, Host, Server
from mcptrio.host import HostChange, HostChanges
from tests.error_codes import METHOD_NOT_FOUND
from tests.host.scripted import Scripted, note, plain

__all__: list[str] = []


async def read(changes: HostChanges, count: int) -> list[HostChange]:
    results: list[HostChange] = []
    with trio.fail_after(30):
        while len(results) < count:
            results.append(await anext(changes))
    return results


async def settled(host: Host) -> None:
    await host.settle()
    await trio.testing.wait_all_tasks_blocked(0.05)


async def test_list_changes_of_both_eras_are_reported() -> None:
    """One server reports on a requested stream, the other sends notifications unrequested."""
    new, old = plain(), Scripted()

    async def another() -> str:
        return "another"

    async with Host({"new": new, "old": old}, approve=None) as host:
        await settled(host)
        async with host.subscribe(tools=True) as changes:
            await trio.testing.wait_all_tasks_blocked(0.05)
            new.add_tool(another)
            [first] = await read(changes, 1)
            await old.channel.send([note("notifications/tools/list_changed")])
            [second] = await read(changes, 1)

    assert (first, second) == (HostChange("new", "tools"), HostChange("old", "tools"))


async def test_resource_changes_of_a_server_are_reported() -> None:
    server = plain()
    async with Host({"one": server, "two": plain()}, approve=None) as host:
        await settled(host)
        async with host.subscribe({"one": ["text://readme"]}) as changes:
            await trio.testing.wait_all_tasks_blocked(0.05)
            server.notify_resource_updated("text://readme")
            assert await read(changes, 1) == [HostChange("one", "resource", "text://readme")]


async def test_added_and_removed_servers_are_always_reported() -> None:
    async with Host({}, approve=None) as host, host.subscribe() as changes:
        host.add("one", plain())
        assert await read(changes, 1) == [HostChange("one", "server")]
        await host.settle()
        await host.remove("one")
        assert await read(changes, 1) == [HostChange("one", "server")]


async def test_added_server_is_subscribed() -> None:
    server = Scripted()
    async with Host({}, approve=None) as host, host.subscribe(tools=True) as changes:
        host.add("one", server)
        await settled(host)
        await server.channel.send([note("notifications/tools/list_changed")])
        assert await read(changes, 2) == [HostChange("one", "server"), HostChange("one", "tools")]


async def test_lost_connection_reports_every_change(autojump_clock: trio.abc.Clock) -> None:
    """Changes during the interruption are unknown."""
    server = Scripted()
    async with Host({"one": server}, approve=None) as host:
        await host.settle()
        async with host.subscribe({"one": ["x:1"]}, tools=True) as changes:
            await trio.sleep(1)
            await server.channel.aclose()
            await trio.sleep(5)
            notifications = set(await read(changes, 3))
        assert host.status["one"].connections == 2

    assert notifications == {
        HostChange("one", "server"),
        HostChange("one", "tools"),
        HostChange("one", "resource", "x:1"),
    }


async def test_server_that_refuses_a_subscription_is_named_as_missing() -> None:
    async def refuse(*_: Any) -> Any:
        return METHOD_NOT_FOUND, "no subscriptions here"

    silent, other = Scripted({"resources/subscribe": refuse}), Scripted()
    async with Host({"silent": silent, "other": other}, approve=None) as host:
        await settled(host)
        async with host.subscribe({"silent": ["x:1"], "other": ["x:2"]}) as changes:
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert changes.missing == {"silent": "no subscriptions here"}
            await other.channel.send([note("notifications/resources/updated", uri="x:2")])
            assert await read(changes, 1) == [HostChange("other", "resource", "x:2")]


async def test_changes_that_a_server_does_not_report_are_named_as_missing() -> None:
    """The server has neither prompts nor resources."""
    server = Server()
    server.add_tool(early)
    async with Host({"one": server}, approve=None) as host:
        await settled(host)
        async with host.subscribe({"one": ["x:1"]}, tools=True, prompts=True) as changes:
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert changes.missing == {"one": "the server does not report prompts, x:1"}
            server.add_tool(early, name="late")
            assert await read(changes, 1) == [HostChange("one", "tools")]


def early() -> str:
    """The tool of the test."""
    return ""


async def test_flood_of_one_server_does_not_hide_changes_of_another(autojump_clock: trio.abc.Clock) -> None:
    loud, quiet = Scripted(), Scripted()
    async with Host({"loud": loud, "quiet": quiet}, approve=None) as host:
        await settled(host)
        async with host.subscribe({"loud": ["x:"], "quiet": ["x:"]}) as changes:
            await trio.testing.wait_all_tasks_blocked(0.05)
            await loud.channel.send([note("notifications/resources/updated", uri=f"x:/{n}") for n in range(5000)])
            await quiet.channel.send([note("notifications/resources/updated", uri="x:/1")])
            await trio.testing.wait_all_tasks_blocked(0.05)
            notifications = await read(changes, 2)
            rest = []
            with trio.move_on_after(0.5):
                async for change in changes:
                    rest.append(change)  # noqa: PERF401 - what is cut off is kept

    assert HostChange("quiet", "resource", "x:/1") in notifications
    assert len(rest) <= 256
    assert HostChange("loud", "server") in rest, "what was dropped is told as a whole"


async def test_subscribing_requires_an_open_host_and_a_known_server() -> None:
    host = Host({"one": plain()}, approve=None)
    with pytest.raises(ConnectionClosed, match="not open"):
        async with host.subscribe():
            pass
    async with host:
        with pytest.raises(ConfigError, match="no such server: `two`"):
            async with host.subscribe({"two": ["x:1"]}):
                pass


async def test_subscription_ends_when_the_host_closes() -> None:
    async def read_all(changes: HostChanges) -> None:
        with pytest.raises(ConnectionClosed, match="the host is closed"):
            async for _ in changes:
                pass
        ended.set()

    ended = trio.Event()
    async with trio.open_nursery() as nursery:
        async with Host({"one": plain()}, approve=None) as host:
            await settled(host)
            manager = host.subscribe(tools=True)
            changes = await manager.__aenter__()
            nursery.start_soon(read_all, changes)
            await trio.testing.wait_all_tasks_blocked(0.05)
            await manager.__aexit__(None, None, None)
        nursery.cancel_scope.cancel()
