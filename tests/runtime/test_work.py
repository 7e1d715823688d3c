"""Code that runs for a request is counted, and its places are kept, until it has really ended."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import mcptrio
from mcptrio import Context, Endpoint, MCPError, PluginSetup, Server, hookimpl
from mcptrio import tool as mark
from mcptrio.abc import Principal
from mcptrio.protocol.messages import ErrorResponse, Notification, Request
from mcptrio.serve.http import serve_http
from mcptrio.serving import (
    HTTPOptions,
    ServerLimits,
    ServerSettings,
    ThreadStatus,
    Timeouts,
)
from tests.function_guard import FunctionGuard
from tests.runtime.peers import connected, tool
from tests.runtime.test_round_trips import accept, keys, retry, text

__all__: list[str] = []

REVISIONS = pytest.mark.parametrize("revision", [None, "2025-11-25"])


class Shop:
    """A plugin whose handlers clean up for a second with the state of its lifespan."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.begun = trio.Event()

    @hookimpl
    def lifespan(self, server: Server) -> Any:
        @asynccontextmanager
        async def live() -> AsyncIterator[str]:
            yield "state"
            self.happened.append("left")

        return live()

    async def _work(self, ctx: Context, ask: bool) -> str:
        try:
            self.begun.set()
            if ask:
                await ctx.elicit("sure?", str, key="sure")
            await trio.sleep_forever()
            return "unreachable"
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            self.happened.append("cleaned up")

    @mark
    async def sell(self, ctx: Context) -> str:
        """Work until it is cancelled."""
        return await self._work(ctx, ask=False)

    @mark
    async def ask(self, ctx: Context) -> str:
        """Send a form, and continue to work."""
        return await self._work(ctx, ask=True)


@REVISIONS
@pytest.mark.parametrize("how", ["running", "cancelled", "asking"])
async def test_lifespan_exits_after_the_handlers_have_ended(
    how: str, revision: str | None, autojump_clock: MockClock
) -> None:
    shop = Shop()
    server = Server(plugins=[shop], settings=ServerSettings(timeouts=Timeouts(shutdown=5)))
    async with connected(server, revision=revision) as client:
        name = "ask" if how == "asking" else "sell"
        await client.send(tool(1, name, modern=revision is None))
        await shop.begun.wait()
        if how == "asking":
            # The request, or the result that contains it.
            await client.next()
        elif how == "cancelled":
            await client.send(Notification("notifications/cancelled", {"requestId": 1}))
        await trio.testing.wait_all_tasks_blocked()
        await server.disable_plugin("Shop")
        assert shop.happened == ["cleaned up", "left"]
        assert server.status.working == 0


async def test_quarantined_plugin_has_no_parked_handlers(autojump_clock: MockClock) -> None:
    shop = Shop()
    server = Server(plugins=[shop])
    async with connected(server, revision=None) as client:
        await client.result(tool(1, "ask", modern=True))
        server.running_plugins.quarantine(server.plugins.plugins["Shop"], "it is faulty")
        assert server.status.parked == ()
        await trio.sleep(2)
        assert shop.happened == ["cleaned up", "left"]


class Threads:
    """Sync tools that wait until they are released.

    Attributes:
        begun, most: The number of calls so far, and the most calls that ran at once.
        first: Set when the first call has begun.
    """

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.first = threading.Event()
        self.inside = self.most = self.begun = 0
        self._lock = threading.Lock()

    def hold(self) -> str:
        """Wait."""
        with self._lock:
            self.begun += 1
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.first.set()
        self.go_on.wait(60)
        with self._lock:
            self.inside -= 1
        return "held"

    @contextmanager
    def held(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.go_on.set()


async def ended(server: Server) -> None:
    """Wait until no thread is busy."""
    with trio.fail_after(60):
        while server.status.threads.busy:  # noqa: ASYNC110 - an abandoned thread sets no event
            await trio.sleep(0.01)


@REVISIONS
async def test_abandoned_thread_keeps_its_place_in_its_tool(revision: str | None) -> None:
    threads = Threads()
    server = Server()
    server.add_tool(threads.hold, concurrency=1, timeout=0.02)
    async with server.open(), mcptrio.connect(server, revision=revision) as client:
        with threads.held():
            with pytest.raises(MCPError, match="timed out"):
                await client.call_tool("hold")
            for _ in range(2):
                with trio.move_on_after(0.05):
                    await client.call_tool("hold")
            await trio.to_thread.run_sync(threads.first.wait)
            assert (threads.begun, server.status.threads.busy) == (1, 1)
        await ended(server)
        assert threads.most == 1


class Named:
    """A plugin with one tool."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.__name__ = name
        self._function = function

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        server.add_tool(self._function, name=self.__name__)


@REVISIONS
async def test_abandoned_threads_do_not_delay_other_plugins(revision: str | None) -> None:
    threads = Threads()
    plugins = [Named("slow", threads.hold), Named("quick", lambda: "quick")]
    config = {"slow": {"timeout": 0.02}}
    server = Server(plugins=plugins, config=config, settings=ServerSettings(limits=ServerLimits(threads=2)))
    async with server.open(), mcptrio.connect(server, revision=revision) as client:
        with threads.held():
            for _ in range(2):
                with pytest.raises(MCPError, match="timed out"):
                    await client.call_tool("slow")
            assert server.status.threads == ThreadStatus(busy=2, limit=2)
            with trio.fail_after(30):
                assert (await client.call_tool("quick")).content[0].text == "quick"  # type: ignore[union-attr]
        await ended(server)


@REVISIONS
async def test_sync_functions_in_all_places_can_start_threads(revision: str | None) -> None:
    """They would wait for each other if those threads used the same places."""
    together = threading.Barrier(2, timeout=60)

    def outer(ctx: Context) -> str:
        together.wait()
        return trio.from_thread.run(partial(trio.to_thread.run_sync, lambda: "inner", limiter=ctx.server.threads))

    config = {"nesting": {"timeout": 30}}
    server = Server(
        plugins=[Named("nesting", outer)], config=config, settings=ServerSettings(limits=ServerLimits(threads=2))
    )
    messages: list[Any] = []
    async with server.open(), mcptrio.connect(server, revision=revision) as client:

        async def call() -> None:
            messages.append((await client.call_tool("nesting")).content[0].text)  # type: ignore[union-attr]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            nursery.start_soon(call)
    assert messages == ["inner", "inner"]


@REVISIONS
@pytest.mark.parametrize("bound", ["tool", "plugin"])
async def test_timeout_starts_when_the_call_begins(bound: str, revision: str | None, autojump_clock: MockClock) -> None:
    begun: list[float] = []

    async def work() -> str:
        begun.append(trio.current_time())
        await trio.sleep(0.4)
        return "done"

    if bound == "tool":
        server = Server()
        server.add_tool(work, concurrency=1, timeout=0.7)
    else:
        server = Server(plugins=[Named("work", work)], config={"work": {"concurrency": 1, "timeout": 0.7}})
    async with connected(server, revision=revision) as client:
        await client.send(*[tool(id, "work", modern=revision is None) for id in range(6)])
        for _ in range(6):
            answer = await client.next()
            assert not isinstance(answer, ErrorResponse), answer
        assert [later - begun[0] for later in begun] == pytest.approx([0.4 * n for n in range(6)])


@REVISIONS
async def test_expired_queued_call_is_not_started(revision: str | None, autojump_clock: MockClock) -> None:
    begun: list[int] = []

    async def work(number: int) -> str:
        begun.append(number)
        await trio.sleep(1)
        return "done"

    server = Server()
    server.add_tool(work, concurrency=1)
    async with connected(server, revision=revision) as client:
        # The second call expires at the moment at which its turn comes.
        for id, meta in ((1, {}), (2, {"mcptrio/timeout": 1.0}), (3, {})):
            await client.send(tool(id, "work", {"number": id}, modern=revision is None, _meta=meta))
        answers = [await client.next() for _ in range(3)]
        assert begun == [1, 3]
        (error,) = [answer for answer in answers if isinstance(answer, ErrorResponse)]
        assert error.id == 2


@REVISIONS
async def test_sync_tool_can_send_a_request_to_the_client(revision: str | None) -> None:
    starts: list[int] = []
    failed: list[Exception] = []

    def ask(ctx: Context) -> str:
        starts.append(1)
        try:
            first = trio.from_thread.run(lambda: ctx.ask("first?", str, key="first"))
            second = trio.from_thread.run(lambda: ctx.ask("second?", str, key="second"))
        except Exception as error:
            failed.append(error)
            raise
        return f"{first} {second}"

    server = Server()
    server.add_tool(ask)
    async with connected(server, revision=revision) as client:
        if revision is None:
            one = await client.result(tool(1, "ask", modern=True))
            await ended(server)
            two = await client.result(retry(2, "ask", one, {"first": accept("a")}))
            assert (keys(one), keys(two)) == (["first"], ["second"])
            done = await client.result(retry(3, "ask", two, {"second": accept("b")}))
            # Each answer replays the handler, because a waiting handler would keep its thread.
            assert (text(done), len(starts)) == ("a b", 3)
        else:
            await client.send(tool(1, "ask"))
            for value in ("a", "b"):
                asked = await client.next()
                assert isinstance(asked, Request)
                await client.send(mcptrio.protocol.messages.Response(asked.id, accept(value)))
            answer = await client.next()
            assert answer.result["content"][0]["text"] == "a b"  # type: ignore[union-attr]
        await ended(server)
        assert failed == []


@REVISIONS
async def test_sync_tool_that_waits_for_the_client_ends_when_cancelled(revision: str | None) -> None:
    messages: list[BaseException] = []
    over = threading.Event()

    def ask(ctx: Context) -> str:
        try:
            trio.from_thread.run(lambda: ctx.elicit("sure?", str, key="sure"))
        except BaseException as error:
            messages.append(error)
            raise
        finally:
            over.set()
        return "unreachable"

    server = Server()
    server.add_tool(ask)
    async with connected(server, revision=revision) as client:
        await client.send(tool(1, "ask", modern=revision is None))
        await client.next()
        await client.send(Notification("notifications/cancelled", {"requestId": 1}))
        with trio.fail_after(60):
            await trio.to_thread.run_sync(over.wait, abandon_on_cancel=True)
        await ended(server)
        assert isinstance(messages[0], trio.Cancelled)


async def test_notification_handler_ends_before_the_lifespan_exits(autojump_clock: MockClock) -> None:
    happened: list[str] = []
    started = trio.Event()

    class Listener:
        @hookimpl
        def setup(self, server: PluginSetup) -> None:
            async def hear() -> None:
                started.set()
                await trio.sleep(1)
                happened.append("heard")

            server.add_method(hear, "com.example/said", notification=True)

        @hookimpl
        def lifespan(self, server: Server) -> Any:
            @asynccontextmanager
            async def live() -> AsyncIterator[None]:
                yield
                happened.append("left")

            return live()

    server = Server(plugins=[Listener()])
    async with connected(server) as client:
        await client.send(Notification("com.example/said"))
        await started.wait()
        await server.disable_plugin("Listener")
        assert happened == ["heard", "left"]


@REVISIONS
async def test_calls_over_the_rate_of_a_plugin_get_retry_after(revision: str | None, autojump_clock: MockClock) -> None:
    async def wave() -> str:
        return "hello"

    server = Server(plugins=[Named("wave", wave)], config={"wave": {"rate": 0.5}})
    async with connected(server, revision=revision) as client:
        await client.result(tool(1, "wave", modern=revision is None))
        await trio.sleep(0.5)
        refused = await client.error(tool(2, "wave", modern=revision is None))
        assert refused.data is not None
        assert refused.data["retryAfter"] == pytest.approx(1.5, abs=0.5)


async def test_effect_of_a_thread_ends_with_its_call() -> None:
    happened: list[str] = []
    started = trio.Event()

    async def effect() -> None:
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            happened.append("effect")

    def work(ctx: Context) -> str:
        try:
            trio.from_thread.run(ctx.once, effect)
        finally:
            happened.append("thread")
        return "unreachable"

    server = Server()
    server.add_tool(work)
    async with connected(server) as client:
        await client.send(tool(1, "work"))
        await started.wait()
        await client.send(Notification("notifications/cancelled", {"requestId": 1}))
        await ended(server)
    assert happened == ["effect", "thread"]


@REVISIONS
async def test_context_of_an_ended_request_sends_no_requests(revision: str | None, autojump_clock: MockClock) -> None:
    kept: list[Context] = []

    async def keep(ctx: Context) -> str:
        kept.append(ctx)
        return "done"

    async def nothing() -> None:
        pass

    server = Server()
    server.add_tool(keep)
    async with connected(server, revision=revision) as client:
        await client.result(tool(1, "keep", modern=revision is None))
        with pytest.raises(mcptrio.ConnectionClosed, match="request keep has ended"):
            await kept[0].elicit("sure?", str)
        with pytest.raises(mcptrio.ConnectionClosed, match="request keep has ended"):
            await kept[0].once(nothing)


@pytest.mark.parametrize("helpers", [False, True], ids=["calls", "threads that calls start"])
async def test_thread_calls_of_one_client_do_not_delay_other_clients(helpers: bool) -> None:
    threads = Threads()

    async def start(ctx: Context, slow: bool) -> str:
        return await trio.to_thread.run_sync(work, slow, limiter=ctx.server.threads, abandon_on_cancel=True)

    def work(slow: bool) -> str:
        return threads.hold() if slow else "quick"

    def judge(headers: Mapping[str, str]) -> Principal:
        return Principal(subject=headers["authorization"])

    server = Server(settings=ServerSettings(limits=ServerLimits(threads=4)))
    server.add_tool(start if helpers else work, name="work")
    options = HTTPOptions(auth=FunctionGuard(judge))
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            url, *_ = await nursery.start(partial(serve_http, server, port=0, options=options))
            async with (
                mcptrio.connect(Endpoint(url=url, headers={"authorization": "greedy"})) as greedy,
                mcptrio.connect(Endpoint(url=url, headers={"authorization": "modest"})) as modest,
            ):
                with threads.held():
                    for _ in range(20):
                        nursery.start_soon(greedy.call_tool, "work", {"slow": True})
                    await trio.to_thread.run_sync(threads.first.wait)
                    for _ in range(3):
                        assert (await modest.call_tool("work", {"slow": False})).text == "quick"
                    assert threads.most <= 3
                await ended(server)
            nursery.cancel_scope.cancel()


@REVISIONS
async def test_clients_alternate_in_the_places_of_a_tool(revision: str | None, autojump_clock: MockClock) -> None:
    served: list[str] = []

    async def work(who: str) -> None:
        served.append(who)
        await trio.sleep(1)

    server = Server()
    server.add_tool(work, concurrency=1)
    async with (
        server.open(),
        mcptrio.connect(server, revision=revision) as greedy,
        mcptrio.connect(server, revision=revision) as modest,
        trio.open_nursery() as nursery,
    ):
        for _ in range(10):
            nursery.start_soon(greedy.call_tool, "work", {"who": "greedy"})
        await trio.sleep(0.5)
        for _ in range(2):
            nursery.start_soon(modest.call_tool, "work", {"who": "modest"})
    assert served == ["greedy", "greedy", "modest", "greedy", "modest", *["greedy"] * 7]
