"""Requests under way: deadlines and what moves them, progress, cancellation, and who notices the end of a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mcptrio import Client, ConnectionClosed, Context, MCPError, MCPTrioError, RequestTimeout, Server, connect, tool
from mcptrio.client import ClientTimeouts, Form, Handlers, Progress
from mcptrio.errors import Code, LocalProtocolError, RemoteProtocolError
from mcptrio.protocol.messages import Incoming, Message, Request, Response
from mcptrio.serve.stream import serve_stream
from mcptrio.serving import (
    ServerLimits,
    ServerSettings,
    memory_channel_pair,
)
from mcptrio.transports.memory import MemoryChannel
from mcptrio.types import CallToolResult, TextContent
from tests.client.scripted import FORM, lives, play, text
from tests.interaction.applies import HANDSHAKE, REVISIONS

__all__: list[str] = []

OLD, NEW = HANDSHAKE[-1], REVISIONS[-1]


def said(result: CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


class Slow:
    """A plugin whose tools take their time."""

    def __init__(self) -> None:
        self.started = trio.Event()
        self.ended: list[str] = []

    @tool
    async def wait(self) -> str:
        """Wait for ever."""
        self.started.set()
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            self.ended.append("cancelled")
            raise

    @tool
    async def count(self, ctx: Context, to: int) -> str:
        """Count, and tell."""
        for number in range(1, to + 1):
            await ctx.report_progress(number, to, f"number {number}")
            await trio.sleep(1)
        return f"counted to {to}"


# --- deadlines


@pytest.mark.parametrize("revision", REVISIONS)
async def test_call_is_given_up_and_the_server_told(revision: str, autojump_clock: object) -> None:
    async with play(revision, timeouts=ClientTimeouts(idle=30)) as (client, script):
        began = trio.current_time()
        with pytest.raises(RequestTimeout, match=r"tools/call: no answer from memory within 30 s") as caught:
            await client.call_tool("work")

        assert trio.current_time() - began == pytest.approx(30)
        assert caught.value.seconds == pytest.approx(30)
        request = await script.asked("tools/call")
        cancelled = await script.told("notifications/cancelled")
        assert cancelled.params is not None
        assert cancelled.params["requestId"] == request.id


class Valve:
    """A channel to a server that takes a message only when a test lets it."""

    name = "valve"

    def __init__(self, inner: MemoryChannel) -> None:
        self._inner = inner
        self.is_shut = False
        self.passes = trio.Semaphore(0)

    async def receive(self) -> list[Incoming]:
        return await self._inner.receive()

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        if self.is_shut:
            await self.passes.acquire()
        await self._inner.send(messages)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def test_calls_that_wait_for_room_are_given_up_too(autojump_clock: object) -> None:
    """Whoever was overtaken when there was room for some is not forgotten."""
    late: list[RequestTimeout] = []
    server = Server(plugins=[Slow()])
    async with server.open() as running, trio.open_nursery() as nursery:
        ours, theirs = memory_channel_pair()
        nursery.start_soon(running.serve, theirs)
        valve = Valve(ours)
        async with connect(valve, revision=OLD, ping_interval=0) as client, trio.open_nursery() as calls:

            async def call() -> None:
                with pytest.raises(RequestTimeout) as raised:
                    await client.call_tool("wait", timeout=5)
                late.append(raised.value)

            valve.is_shut = True
            # One is being written, a thousand are queued, and the rest waits for room.
            for count in (1, 1000, 1100):
                for _ in range(count):
                    calls.start_soon(call)
                await wait_all_tasks_blocked()
            valve.passes.release()
            await wait_all_tasks_blocked()
            with trio.fail_after(10):
                while len(late) < 2101:  # noqa: ASYNC110 - as many as there are calls
                    await trio.sleep(1)
            valve.is_shut = False
            for _ in range(3):
                valve.passes.release()
        nursery.cancel_scope.cancel()


async def test_a_late_answer_is_nobodys(autojump_clock: object) -> None:
    async with play(OLD) as (client, script), trio.open_nursery() as nursery:
        with pytest.raises(RequestTimeout):
            await client.call_tool("work", timeout=1)
        late = await script.asked("tools/call")
        await script.told("notifications/cancelled")
        await script.answer(late, text("too late"))

        nursery.start_soon(_answer, script.asked, script.answer, "in time")
        assert said(await client.call_tool("work")) == "in time"


async def _answer(
    asked: Callable[[str], Awaitable[Request]], answer: Callable[[Request, Any], Awaitable[None]], words: str
) -> None:
    await answer(await asked("tools/call"), text(words))


async def test_call_may_state_its_own_deadline(autojump_clock: object) -> None:
    async with play(OLD, timeouts=ClientTimeouts(idle=30)) as (client, script), trio.open_nursery() as nursery:
        began = trio.current_time()
        with pytest.raises(RequestTimeout):
            await client.call_tool("work", timeout=5)
        assert trio.current_time() - began == pytest.approx(5)
        await script.asked("tools/call")
        await script.told("notifications/cancelled")

        async def answer_after_a_week() -> None:
            request = await script.asked("tools/call")
            await trio.sleep(7 * 24 * 3600)
            await script.answer(request, text("at last"))

        nursery.start_soon(answer_after_a_week)
        assert said(await client.call_tool("work", timeout=inf)) == "at last"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_progress_keeps_a_call_alive(revision: str, autojump_clock: object) -> None:
    """Nobody need listen for that."""
    async with (
        play(revision, timeouts=ClientTimeouts(idle=30)) as (client, script),
        trio.open_nursery() as nursery,
    ):

        async def work() -> None:
            request = await script.asked("tools/call")
            for step in range(1, 6):
                await trio.sleep(29)
                await script.progress(request, step)
            await trio.sleep(29)
            await script.answer(request, text("done"))

        nursery.start_soon(work)
        assert said(await client.call_tool("work")) == "done"


async def test_progress_keeps_a_call_alive_only_so_long(autojump_clock: object) -> None:
    timeouts = ClientTimeouts(idle=30, request=100)
    async with play(OLD, timeouts=timeouts) as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            request = await script.asked("tools/call")
            for step in range(20):
                await script.progress(request, step)
                await trio.sleep(20)

        nursery.start_soon(work)
        began = trio.current_time()
        with pytest.raises(RequestTimeout, match="within 100 s"):
            await client.call_tool("work")
        assert trio.current_time() - began == pytest.approx(100)
        nursery.cancel_scope.cancel()


async def test_progress_of_another_request_keeps_nothing_alive(autojump_clock: object) -> None:
    async with play(OLD, timeouts=ClientTimeouts(idle=30)) as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            request = await script.asked("tools/call")
            for step in range(20):
                for token in (request.id + 1000, str(request.id), "unknown"):  # type: ignore[operator]
                    await script.tell("notifications/progress", {"progressToken": token, "progress": step})
                await trio.sleep(20)

        nursery.start_soon(work)
        began = trio.current_time()
        with pytest.raises(RequestTimeout):
            await client.call_tool("work", progress=_never)
        assert trio.current_time() - began == pytest.approx(30)
        nursery.cancel_scope.cancel()


def _never(progress: Progress) -> None:
    raise AssertionError(progress)


async def test_clock_stands_still_while_a_handler_is_asked(autojump_clock: object) -> None:
    """The server waits for the user, not we for the server; afterwards it has its whole time again."""

    async def elicit(form: Form) -> dict[str, Any]:
        await trio.sleep(500)
        return {"name": "Ada"}

    async with (
        play(OLD, handlers=Handlers(elicit=elicit), timeouts=ClientTimeouts(idle=30)) as (client, script),
        trio.open_nursery() as nursery,
    ):

        async def work() -> None:
            request = await script.asked("tools/call")
            await trio.sleep(20)
            await script.send(Request("question", "elicitation/create", FORM))
            answer = await script.take(Response)
            assert answer.result["content"] == {"name": "Ada"}
            await trio.sleep(29)
            await script.answer(request, text("hello Ada"))

        nursery.start_soon(work)
        assert said(await client.call_tool("work")) == "hello Ada"
        assert trio.current_time() - 549 == pytest.approx(0, abs=1)


async def test_server_that_goes_silent_after_its_question_is_given_up(autojump_clock: object) -> None:
    async def elicit(form: Form) -> dict[str, Any]:
        await trio.sleep(500)
        return {"name": "Ada"}

    async with (
        play(OLD, handlers=Handlers(elicit=elicit), timeouts=ClientTimeouts(idle=30)) as (client, script),
        trio.open_nursery() as nursery,
    ):

        async def work() -> None:
            await script.asked("tools/call")
            await script.send(Request("question", "elicitation/create", FORM))

        nursery.start_soon(work)
        began = trio.current_time()
        with pytest.raises(RequestTimeout):
            await client.call_tool("work")
        assert trio.current_time() - began == pytest.approx(530)


async def test_deadlines_of_all_calls_stand_still_and_of_new_ones_too(autojump_clock: object) -> None:
    """Which call the question belongs to cannot be told."""

    async def elicit(form: Form) -> None:
        await trio.sleep(100)

    given_up: dict[str, float] = {}
    async with play(OLD, handlers=Handlers(elicit=elicit), timeouts=ClientTimeouts(idle=30)) as (client, script):

        async def call(name: str, after: float) -> None:
            await trio.sleep(after)
            with pytest.raises(RequestTimeout):
                await client.call_tool(name)
            given_up[name] = trio.current_time()

        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, "before", 0)
            nursery.start_soon(call, "meanwhile", 50)
            await trio.sleep(10)
            await script.send(Request("question", "elicitation/create", FORM))

    assert {name: round(when - began) for name, when in given_up.items()} == {"before": 140, "meanwhile": 140}


async def test_time_a_callback_takes_is_not_the_servers(autojump_clock: object) -> None:
    """The answer came in time; who listens to progress may take longer."""

    async def listen(progress: Progress) -> None:
        await trio.sleep(100)

    async with play(OLD, timeouts=ClientTimeouts(idle=30)) as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            request = await script.asked("tools/call")
            await script.progress(request, 1)
            await script.answer(request, text("done"))

        nursery.start_soon(work)
        assert said(await client.call_tool("work", progress=listen)) == "done"


# --- progress


@pytest.mark.parametrize("revision", REVISIONS)
async def test_reports_of_a_server_of_ours_come_in_order_and_before_the_result(
    revision: str, autojump_clock: object
) -> None:
    heard: list[Progress] = []
    async with connect(Server(plugins=[Slow()]), revision=revision) as client:
        result = await client.call_tool("count", {"to": 5}, progress=heard.append)

        assert said(result) == "counted to 5"
        with_text = revision != "2024-11-05"
        assert heard == [Progress(n, 5, f"number {n}" if with_text else None) for n in range(1, 6)]


async def test_reports_come_before_the_result_however_close(autojump_clock: object) -> None:
    heard: list[float] = []

    async def listen(progress: Progress) -> None:
        await trio.sleep(1)
        heard.append(progress.progress)

    async with play(OLD) as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            request = await script.asked("tools/call")
            for step in range(50):
                await script.progress(request, step)
            await script.answer(request, text("done"))

        nursery.start_soon(work)
        await client.call_tool("work", progress=listen)
        assert heard == list(range(50))


async def test_of_a_flood_of_reports_the_newest_are_heard(autojump_clock: object) -> None:
    heard: list[float] = []
    go_on = trio.Event()

    async def listen(progress: Progress) -> None:
        await go_on.wait()
        heard.append(progress.progress)

    async with play(OLD) as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            request = await script.asked("tools/call")
            for step in range(1000):
                await script.progress(request, step)
            await script.answer(request, text("done"))
            go_on.set()

        nursery.start_soon(work)
        assert said(await client.call_tool("work", progress=listen)) == "done"

    assert heard[0] == 0
    assert 50 < len(heard) < 100
    assert heard[1:] == list(range(1000))[-len(heard) + 1 :]


@pytest.mark.parametrize("waits", [False, True], ids=["plain", "async"])
async def test_callback_that_fails_ends_its_call_and_no_other(waits: bool) -> None:
    def fail(progress: Progress) -> None:
        raise KeyError("mine")

    async def fail_later(progress: Progress) -> None:
        await trio.lowlevel.checkpoint()
        raise KeyError("mine")

    async with play(OLD) as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            request = await script.asked("tools/call")
            await script.progress(request, 1)
            cancelled = await script.told("notifications/cancelled")
            assert cancelled.params is not None
            assert cancelled.params["requestId"] == request.id
            told.set()
            await _answer(script.asked, script.answer, "still here")

        told = trio.Event()
        nursery.start_soon(work)
        with pytest.raises(KeyError, match="mine"):
            await client.call_tool("work", progress=fail_later if waits else fail)
        await told.wait()
        assert said(await client.call_tool("work")) == "still here"


# --- cancellation


@pytest.mark.parametrize("revision", REVISIONS)
async def test_cancelling_reaches_the_handler_of_a_server_of_ours(revision: str) -> None:
    plugin = Slow()
    server = Server(plugins=[plugin])
    async with connect(server, revision=revision) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "wait")
            await plugin.started.wait()
            nursery.cancel_scope.cancel()
        with trio.fail_after(30):
            while not plugin.ended:
                await wait_all_tasks_blocked()

        assert plugin.ended == ["cancelled"]
        assert server.status.in_flight == 0
        assert said(await client.call_tool("count", {"to": 0})) == "counted to 0"


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("listens", [False, True], ids=["", "with progress"])
async def test_server_is_told_once_of_a_cancelled_call(revision: str, listens: bool) -> None:
    async with play(revision) as (client, script):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: client.call_tool("work", progress=_never if listens else None))
            request = await script.asked("tools/call")
            nursery.cancel_scope.cancel()

        cancelled = await script.told("notifications/cancelled")
        assert cancelled.params is not None
        assert cancelled.params["requestId"] == request.id
        await script.silent()


async def test_call_that_never_left_is_not_taken_back() -> None:
    async with play(OLD) as (client, script):
        with trio.CancelScope() as scope:
            scope.cancel()
            await client.call_tool("work")

        await script.silent()


# --- one call's end is not the others'


async def test_errors_come_as_the_server_put_them() -> None:
    async with play(OLD) as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            await script.refuse(await script.asked("tools/call"), -32050, "no luck", [1, {"two": None}])

        nursery.start_soon(work)
        with pytest.raises(MCPError, match="no luck") as caught:
            await client.call_tool("work")
        assert (caught.value.code, caught.value.data) == (-32050, [1, {"two": None}])


@pytest.mark.parametrize("revision", [OLD, NEW])
@pytest.mark.parametrize(
    "result",
    [
        {"content": 5},
        {"content": [{"type": "text"}]},
        {"content": [5]},
        {"content": [], "isError": "no"},
    ],
    ids=["no list", "no text", "no block", "no boolean"],
)
async def test_result_that_cannot_be_read_fails_its_call_alone(revision: str, result: dict[str, Any]) -> None:
    async with play(revision) as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            first, second = await script.asked("tools/call"), await script.asked("tools/call")
            await script.answer(first, result)
            await script.answer(second, text("fine"))

        nursery.start_soon(work)
        async with trio.open_nursery() as calls:

            async def fail() -> None:
                with pytest.raises(RemoteProtocolError, match=r"the server's result of tools/call: .* @ \$"):
                    await client.call_tool("first")

            calls.start_soon(fail)
            await wait_all_tasks_blocked()
            assert said(await client.call_tool("second")) == "fine"


async def test_answers_find_their_calls_in_any_order() -> None:
    answers: dict[str, str] = {}
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:

        async def call(name: str) -> None:
            answers[name] = said(await client.call_tool(name))

        names = [f"tool {number}" for number in range(20)]
        for name in names:
            nursery.start_soon(call, name)
        requests = [await script.asked("tools/call") for _ in names]
        for request in reversed(requests):
            assert request.params is not None
            await script.answer(request, text(f"I am {request.params['name']}"))

    assert answers == {name: f"I am {name}" for name in names}
    assert len({request.id for request in requests}) == 20


async def test_end_of_the_connection_fails_calls_under_way_and_to_come() -> None:
    async with play(OLD) as (client, script):

        async def fail() -> None:
            with pytest.raises(ConnectionClosed, match="the server closed the connection"):
                await client.call_tool("work")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            nursery.start_soon(fail)
            await script.asked("tools/call")
            await script.asked("tools/call")
            await script.close()
        await fail()
        assert client.revision == OLD


# --- a call that is followed


@pytest.mark.parametrize("revision", REVISIONS)
async def test_followed_call_gives_its_reports_and_then_its_result(revision: str, autojump_clock: object) -> None:
    async with connect(Server(plugins=[Slow()]), revision=revision) as client:
        async with client.start_tool("count", {"to": 3}) as call:
            assert [progress.progress async for progress in call] == [1, 2, 3]
            assert said(await call.result()) == "counted to 3"
            assert said(await call.result()) == "counted to 3"


async def test_reports_of_a_followed_call_need_not_be_read(autojump_clock: object) -> None:
    async with connect(Server(plugins=[Slow()])) as client:
        async with client.start_tool("count", {"to": 200}) as call:
            assert said(await call.result()) == "counted to 200"


async def test_followed_call_raises_what_a_call_raises(autojump_clock: object) -> None:
    async with play(OLD) as (client, _), client.start_tool("work", timeout=5) as call:
        assert [progress async for progress in call] == []
        with pytest.raises(RequestTimeout):
            await call.result()


async def test_leaving_a_followed_call_cancels_it() -> None:
    plugin = Slow()
    async with connect(Server(plugins=[plugin])) as client:
        async with client.start_tool("wait") as call:
            await plugin.started.wait()
        with trio.fail_after(30):
            while not plugin.ended:
                await wait_all_tasks_blocked()
        assert plugin.ended == ["cancelled"]

        assert [progress async for progress in call] == []
        with trio.fail_after(30), pytest.raises(MCPTrioError, match="left before its result"):
            await call.result()


async def test_what_is_raised_in_the_body_of_a_followed_call_comes_out_alone() -> None:
    async with play(OLD) as (client, script):

        async def fail() -> None:
            async with client.start_tool("work"):
                await script.asked("tools/call")
                raise ValueError("mine")

        with pytest.raises(ValueError, match="mine"):
            await fail()
        await script.told("notifications/cancelled")


# --- signs of life


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_silent_server_is_pinged_and_left_when_it_does_not_answer(revision: str, autojump_clock: object) -> None:
    timeouts = ClientTimeouts(ping=5)
    async with play(revision, ping_interval=10, timeouts=timeouts) as (client, script):
        began = trio.current_time()
        await script.answer(await script.asked("ping"))
        assert trio.current_time() - began == pytest.approx(10)
        await script.asked("ping")
        assert trio.current_time() - began == pytest.approx(20)

        with pytest.raises(ConnectionClosed, match="the server did not answer a ping within 5 s"):
            await client.call_tool("work")


async def test_server_that_wakes_up_too_late_breaks_nothing(autojump_clock: object) -> None:
    """It takes no more messages, so the last ones keep the link open for a while after it was given up."""
    timeouts = ClientTimeouts(ping=5)
    async with play(OLD, ping_interval=10, timeouts=timeouts) as (client, script):
        for _ in range(40):
            await client.notify("notifications/roots/list_changed")
            await wait_all_tasks_blocked()
        await trio.sleep(15.5)
        await script.send(Request("question", "elicitation/create", FORM), Request("life", "ping"))
        await trio.sleep(0.1)

        with pytest.raises(ConnectionClosed, match="the server did not answer a ping within 5 s"):
            await client.call_tool("work")


async def test_server_that_answers_something_is_not_pinged(autojump_clock: object) -> None:
    async with play(OLD, ping_interval=10) as (client, script), trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(_answer, script.asked, script.answer, "here")
            await client.call_tool("work")
            await trio.sleep(8)

    assert [message for message in script.received if getattr(message, "method", "") == "ping"] == []


async def test_server_that_refuses_pings_is_alive(autojump_clock: object) -> None:
    async with play(OLD, ping_interval=10) as (client, script), trio.open_nursery() as nursery:
        for _ in range(3):
            await script.refuse(await script.asked("ping"), Code.METHOD_NOT_FOUND)
        nursery.start_soon(_answer, script.asked, script.answer, "here")
        assert said(await client.call_tool("work")) == "here"


@pytest.mark.parametrize(("revision", "interval"), [(OLD, 0), (NEW, 10)])
async def test_nothing_is_pinged_where_it_was_not_asked_for_or_cannot_be(
    revision: str, interval: float, autojump_clock: object
) -> None:
    async with play(revision, ping_interval=interval) as (_, script):
        await trio.sleep(1000)
        await script.silent()


# --- an answer and a cancellation at the same time


@pytest.mark.parametrize("revision", [OLD, NEW])
async def test_answer_that_comes_with_a_cancellation_ends_one_call_only(revision: str) -> None:
    """Whichever of the two the event loop looks at first, in one turn or in the next ones."""
    async with play(revision) as (client, script):
        for turns in [0, 1, 2, 3] * 25:
            answered = False

            async def call() -> None:
                nonlocal answered
                await client.call_tool("work")
                answered = True

            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(call)
                    request = await script.asked("tools/call")
                    with trio.CancelScope(shield=True):
                        async with trio.open_nursery() as answering:
                            answering.start_soon(script.answer, request, text("here"))
                            for _ in range(turns):
                                await trio.lowlevel.checkpoint()
                            scope.cancel()
            if not answered:
                await script.told("notifications/cancelled")

        assert await lives(client, script)


async def test_more_calls_than_both_sides_can_queue_are_all_answered(tmp_path: Path) -> None:
    """With requests and answers larger than the buffers between them, a side that stops reading would stop both."""

    @tool
    async def echo(value: str) -> str:
        """Return the value."""
        return value

    server = Server(settings=ServerSettings(limits=ServerLimits(requests_per_session=10_000, outbox=20)))
    server.add_tool(echo)
    answered: list[str] = []

    async def call(client: Client, number: int) -> None:
        answered.append(said(await client.call_tool("echo", {"value": f"{number} {'x' * 8000}"})))

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            [url] = await nursery.start(partial(serve_stream, server, f"unix:{tmp_path / 'socket'}"))
            async with connect(url, revision=OLD) as client, trio.open_nursery() as calls:
                for number in range(2500):
                    calls.start_soon(call, client, number)
            nursery.cancel_scope.cancel()

    assert sorted(int(each.split()[0]) for each in answered) == list(range(2500))


# --- arguments that JSON cannot carry


@pytest.mark.parametrize("revision", [OLD, NEW])
@pytest.mark.parametrize(
    "value", [2**70, float("nan"), object(), "a\udcff"], ids=["integer", "nan", "object", "surrogate"]
)
async def test_arguments_that_json_cannot_carry_are_refused_before_they_are_sent(revision: str, value: object) -> None:
    async with play(revision) as (client, script):
        with pytest.raises(LocalProtocolError, match=r"cannot be sent as JSON: .* @ \$.arguments.keep"):
            await client.call_tool("wipe", {"keep": value})
        with pytest.raises(LocalProtocolError, match=r"cannot be sent as JSON: .* @ \$.keep"):
            await client.notify("notifications/own", {"keep": value})

        assert await lives(client, script)
