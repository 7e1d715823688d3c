"""Lifespans and background tasks: entered in order, exited in reverse order, each in its own task, with timeouts."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from mcptrio import PluginSetup, Server, hookimpl, tool
from mcptrio.errors import PluginError
from mcptrio.protocol.messages import Notification, Request
from mcptrio.serving import PluginManager, ServerSettings, Timeouts
from tests.runtime.peers import Client, connected, envelope, open_client

__all__: list[str] = []

Step = Callable[[], Awaitable[None]]


async def nothing() -> None:
    pass


class Plugin:
    """Records its events.

    Args:
        enter, leave: Awaited at entry and exit.
        tasks: Functions that run in the background.
        nursery: Functions that run in a nursery that the lifespan holds open.
    """

    def __init__(
        self,
        name: str,
        happened: list[str],
        *,
        enter: Step = nothing,
        leave: Step = nothing,
        tasks: Any = (),
        nursery: tuple[Step, ...] = (),
    ) -> None:
        self.__name__ = name
        self._happened = happened
        self._enter, self._leave, self._tasks, self._nursery = enter, leave, tasks, nursery

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        async def answer() -> str:
            return "done"

        server.add_tool(answer, name=self.__name__)
        for task in self._tasks:
            server.add_background(task)

    @hookimpl
    def lifespan(self, server: Server) -> Any:
        @asynccontextmanager
        async def live() -> AsyncIterator[str]:
            await self._enter()
            self._happened.append(f"enter {self.__name__}")
            try:
                async with trio.open_nursery() as nursery:
                    for task in self._nursery:
                        nursery.start_soon(task)
                    yield f"state of {self.__name__}"
                    nursery.cancel_scope.cancel()
            finally:
                await self._leave()
                self._happened.append(f"leave {self.__name__}")

        return live()


async def names(client: Client) -> list[str]:
    return sorted(each["name"] for each in (await client.result(Request("list", "tools/list", {})))["tools"])


async def fail() -> None:
    raise RuntimeError("no such luck")


async def fail_later() -> None:
    await trio.sleep(5)
    raise RuntimeError("no such luck")


def states(server: Server) -> dict[str, str]:
    return {name: plugin.state for name, plugin in server.plugins.plugins.items()}


async def test_lifespans_are_entered_in_order_and_exited_in_reverse() -> None:
    happened: list[str] = []

    async def pause() -> None:
        await trio.lowlevel.checkpoint()

    server = Server(plugins=[Plugin(name, happened, enter=pause, leave=pause) for name in "abc"])
    async with connected(server) as client:
        assert await names(client) == ["a", "b", "c"]
        assert server.plugins.plugins["b"].yielded == "state of b"

    assert happened == ["enter a", "enter b", "enter c", "leave c", "leave b", "leave a"]


async def test_lifespan_can_hold_a_nursery_open(autojump_clock: MockClock) -> None:
    """The lifespan is entered and exited in the same task, properly nested."""
    happened: list[str] = []
    beats: list[float] = []

    async def beat() -> None:
        while True:
            beats.append(trio.current_time())
            await trio.sleep(1)

    server = Server(plugins=[Plugin(name, happened, nursery=(beat,)) for name in "ab"])
    async with connected(server):
        await trio.sleep(2.5)

    assert len(beats) == 6
    assert happened[2:] == ["leave b", "leave a"]


@pytest.mark.parametrize("revision", ["2025-11-25", None])
async def test_failing_lifespan_affects_only_its_plugin_and_clients_are_notified(
    revision: str | None, autojump_clock: MockClock
) -> None:
    happened: list[str] = []
    server = Server(
        plugins=[Plugin("a", happened), Plugin("bad", happened, nursery=(fail_later,)), Plugin("c", happened)]
    )
    async with connected(server, revision=revision) as client:
        if revision is None:
            wanted = {"notifications": {"toolsListChanged": True}, "_meta": envelope()}
            await client.send(Request("listen", "subscriptions/listen", wanted))
            assert isinstance(await client.next(), Notification)
        notification = await client.next()
        assert isinstance(notification, Notification)
        assert notification.method == "notifications/tools/list_changed"
        assert trio.current_time() == pytest.approx(5)

        request = Request("list", "tools/list", {"_meta": envelope()} if revision is None else {})
        assert [each["name"] for each in (await client.result(request))["tools"]] == ["a", "c"]
        assert states(server) == {"a": "running", "bad": "quarantined", "c": "running"}
        assert server.plugins.plugins["bad"].failure == "lifespan failed: no such luck"
        assert not server.status.ready
        assert happened == ["enter a", "enter bad", "enter c", "leave bad"]

    assert happened[4:] == ["leave c", "leave a"]


async def test_lifespan_that_returns_early_is_an_error(autojump_clock: MockClock) -> None:
    class Ends:
        @hookimpl
        def lifespan(self, server: Server) -> Any:
            @asynccontextmanager
            async def live() -> AsyncIterator[None]:
                with trio.move_on_after(3):
                    yield

            return live()

    server = Server(plugins=[Ends()])
    async with connected(server):
        await trio.sleep(4)
        assert server.plugins.plugins["Ends"].failure == "lifespan failed: it ended while the server is open"


@pytest.mark.parametrize("strict", [False, True])
async def test_lifespan_that_fails_at_entry_quarantines_its_plugin(strict: bool) -> None:
    happened: list[str] = []
    plugins = [Plugin("a", happened), Plugin("bad", happened, enter=fail), Plugin("c", happened)]
    server = Server(plugins=plugins, settings=ServerSettings(strict=strict))
    if strict:
        with pytest.raises(PluginError, match=r"^plugin bad: lifespan failed: no such luck$"):
            await server.open().__aenter__()
        assert happened == ["enter a", "leave a"]
        return
    async with connected(server) as client:
        assert await names(client) == ["a", "c"]
        assert states(server)["bad"] == "quarantined"

    assert happened == ["enter a", "enter c", "leave c", "leave a"]


async def test_lifespan_failure_ends_a_strict_server(autojump_clock: MockClock) -> None:
    happened: list[str] = []
    server = Server(
        plugins=[Plugin("a", happened), Plugin("bad", happened, nursery=(fail_later,))],
        settings=ServerSettings(strict=True),
    )
    with pytest.raises(PluginError, match="no such luck"):
        async with server.open():
            await trio.sleep_forever()

    assert happened == ["enter a", "enter bad", "leave bad", "leave a"]


@pytest.mark.parametrize("hook", ["lifespan", "setup"])
@pytest.mark.parametrize("given", [5, RuntimeError("no such luck")])
async def test_lifespan_hook_with_another_result_is_an_error(hook: str, given: Any) -> None:
    def give(self: object, server: Any) -> Any:
        if isinstance(given, Exception):
            raise given
        if hook == "setup":
            server.add_background(given)
        return given

    Wrong = type("Wrong", (), {hook: hookimpl(give)})
    server = Server(plugins=[Wrong(), Plugin("a", [])])
    async with connected(server) as client:
        assert await names(client) == ["a"]
        failure = server.plugins.plugins["Wrong"].failure
        assert failure is not None
        assert failure.startswith(f"{hook} failed: ")


async def test_lifespans_are_exited_in_order_when_the_server_is_cancelled(autojump_clock: MockClock) -> None:
    """An exit may take its time, although the surrounding scopes are cancelled."""
    happened: list[str] = []

    async def exit_slowly() -> None:
        await trio.sleep(2)

    server = Server(plugins=[Plugin(name, happened, leave=exit_slowly) for name in "ab"])
    with trio.move_on_after(10) as scope:
        async with server.open():
            await trio.sleep_forever()

    assert scope.cancelled_caught
    assert trio.current_time() == pytest.approx(14)
    assert happened[2:] == ["leave b", "leave a"]


async def test_hanging_exit_is_cancelled_and_the_others_continue(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """It has the rest of ``timeouts.shutdown``; the next exit has its own second."""
    happened: list[str] = []

    async def half_a_second() -> None:
        await trio.sleep(0.5)

    plugins = [
        Plugin("a", happened, leave=half_a_second),
        Plugin("stuck", happened, leave=trio.sleep_forever),
        Plugin("c", happened),
    ]
    server = Server(plugins=plugins, settings=ServerSettings(timeouts=Timeouts(shutdown=3)))
    async with server.open():
        pass

    assert trio.current_time() == pytest.approx(3.5)
    assert happened[3:] == ["leave c", "leave a"]
    assert [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR] == [
        "stuck: lifespan cancelled, its end exceeded the shutdown timeout"
    ]


async def test_shielded_exit_does_not_delay_other_exits(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    happened: list[str] = []

    async def shielded() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(60)

    server = Server(plugins=[Plugin("a", happened), Plugin("stuck", happened, leave=shielded)])
    async with server.open():
        pass

    assert happened[2:] == ["leave a", "leave stuck"]
    assert "stuck: lifespan left running, it did not end after its cancellation" in caplog.text


async def test_failing_exit_is_logged_and_the_others_continue(caplog: pytest.LogCaptureFixture) -> None:
    happened: list[str] = []
    server = Server(plugins=[Plugin("a", happened), Plugin("bad", happened, leave=fail), Plugin("c", happened)])
    async with server.open():
        pass

    assert happened[3:] == ["leave c", "leave a"]
    assert "bad failed, and is left out: lifespan failed: no such luck" in caplog.text


async def test_lifespan_entry_is_cancelled_with_the_server(autojump_clock: MockClock) -> None:
    happened: list[str] = []
    server = Server(plugins=[Plugin("a", happened), Plugin("stuck", happened, enter=trio.sleep_forever)])
    with trio.move_on_after(2):
        async with server.open():
            raise AssertionError("unreachable")

    assert trio.current_time() == pytest.approx(2)
    assert happened == ["enter a", "leave a"]
    assert not server.is_open


async def test_requests_end_before_the_first_lifespan_exits(autojump_clock: MockClock) -> None:
    happened: list[str] = []

    @tool
    async def work() -> str:
        try:
            await trio.sleep_forever()
        finally:
            happened.append("work is over")
        raise AssertionError("unreachable")

    server = Server(plugins=[Plugin("a", happened)], settings=ServerSettings(timeouts=Timeouts(shutdown=1)))
    server.add_tool(work)
    async with server.open(), open_client(server) as client:
        await client.send(Request(0, "tools/call", {"name": "work", "arguments": {}, "_meta": envelope()}))
        await trio.sleep(1)
        await server.supervisor.drain()

    assert happened == ["enter a", "work is over", "leave a"]


# Background tasks


async def test_failing_background_task_is_restarted_with_backoff(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    starts: list[float] = []

    async def poll() -> None:
        starts.append(trio.current_time())
        await fail()

    server = Server(plugins=[Plugin("a", [], tasks=[poll]), Plugin("b", [])])
    async with connected(server) as client:
        await trio.sleep(250)
        assert await names(client) == ["a", "b"]

    assert starts == pytest.approx([0, 1, 3, 7, 15, 31, 63, 123, 183, 243])
    assert "poll failed, started again in 60 s" in caplog.text
    assert "RuntimeError: no such luck" in caplog.text


async def test_long_running_background_task_is_restarted(autojump_clock: MockClock) -> None:
    starts: list[float] = []

    async def poll() -> None:
        starts.append(trio.current_time())
        await trio.sleep(100 if len(starts) == 4 else 0)
        await fail()

    server = Server(plugins=[Plugin("a", [], tasks=[poll])])
    async with server.open():
        await trio.sleep(110)

    assert starts == pytest.approx([0, 1, 3, 7, 108, 110])


async def test_background_task_that_returns_is_not_restarted(autojump_clock: MockClock) -> None:
    starts: list[float] = []

    async def once() -> None:
        starts.append(trio.current_time())

    async with Server(plugins=[Plugin("a", [], tasks=[once])]).open():
        await trio.sleep(100)

    assert starts == [0]


async def test_background_tasks_run_within_the_lifespan_of_their_plugin() -> None:
    happened: list[str] = []

    async def poll() -> None:
        happened.append("poll")
        try:
            await trio.sleep_forever()
        finally:
            happened.append("polled")

    manager = PluginManager()
    plugin = manager.register(Plugin("a", happened, tasks=[poll]))
    async with Server(plugins=manager).open():
        await trio.testing.wait_all_tasks_blocked()
        assert plugin.state == "running"

    assert happened == ["enter a", "poll", "polled", "leave a"]
