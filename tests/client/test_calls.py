"""Requests in flight: progress, cancellation, and the end of a call."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mcptrio import Client, ConnectionClosed, MCPError, MCPTrioError, RequestTimeout, Server, connect, tool
from mcptrio.client import Progress
from mcptrio.errors import LocalProtocolError, RemoteProtocolError
from mcptrio.serve.stream import serve_stream
from mcptrio.serving import (
    ServerLimits,
    ServerSettings,
)
from tests.client.scripted import is_usable, play, text
from tests.client.slow_plugin import Slow, answer_with, never_called, text_of
from tests.interaction.applies import HANDSHAKE, REVISIONS

__all__: list[str] = []

OLD, NEW = HANDSHAKE[-1], REVISIONS[-1]


# --- progress


@pytest.mark.parametrize("revision", REVISIONS)
async def test_progress_of_an_mcptrio_server_arrives_in_order_before_the_result(
    revision: str, autojump_clock: object
) -> None:
    received: list[Progress] = []
    async with connect(Server(plugins=[Slow()]), revision=revision) as client:
        result = await client.call_tool("count", {"to": 5}, progress=received.append)

        assert text_of(result) == "counted to 5"
        with_text = revision != "2024-11-05"
        assert received == [Progress(n, 5, f"number {n}" if with_text else None) for n in range(1, 6)]


async def test_progress_callback_receives_all_reports_before_the_result(autojump_clock: object) -> None:
    received: list[float] = []

    async def listen(progress: Progress) -> None:
        await trio.sleep(1)
        received.append(progress.progress)

    async with play(OLD) as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            request = await script.next_request("tools/call")
            for step in range(50):
                await script.progress(request, step)
            await script.answer(request, text("done"))

        nursery.start_soon(work)
        await client.call_tool("work", progress=listen)
        assert received == list(range(50))


async def test_flood_of_progress_keeps_the_newest_reports(autojump_clock: object) -> None:
    received: list[float] = []
    go_on = trio.Event()

    async def listen(progress: Progress) -> None:
        await go_on.wait()
        received.append(progress.progress)

    async with play(OLD) as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            request = await script.next_request("tools/call")
            for step in range(1000):
                await script.progress(request, step)
            await script.answer(request, text("done"))
            go_on.set()

        nursery.start_soon(work)
        assert text_of(await client.call_tool("work", progress=listen)) == "done"

    assert received[0] == 0
    assert 50 < len(received) < 100
    assert received[1:] == list(range(1000))[-len(received) + 1 :]


@pytest.mark.parametrize("waits", [False, True], ids=["plain", "async"])
async def test_failing_progress_callback_ends_only_its_call(waits: bool) -> None:
    def fail(progress: Progress) -> None:
        raise KeyError("mine")

    async def fail_later(progress: Progress) -> None:
        await trio.lowlevel.checkpoint()
        raise KeyError("mine")

    async with play(OLD) as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            request = await script.next_request("tools/call")
            await script.progress(request, 1)
            cancelled = await script.next_notification("notifications/cancelled")
            assert cancelled.params is not None
            assert cancelled.params["requestId"] == request.id
            notified.set()
            await answer_with(script.next_request, script.answer, "still here")

        notified = trio.Event()
        nursery.start_soon(work)
        with pytest.raises(KeyError, match="mine"):
            await client.call_tool("work", progress=fail_later if waits else fail)
        await notified.wait()
        assert text_of(await client.call_tool("work")) == "still here"


# --- cancellation


@pytest.mark.parametrize("revision", REVISIONS)
async def test_cancellation_reaches_the_handler_of_an_mcptrio_server(revision: str) -> None:
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
        assert text_of(await client.call_tool("count", {"to": 0})) == "counted to 0"


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("listens", [False, True], ids=["", "with progress"])
async def test_server_receives_one_cancellation(revision: str, listens: bool) -> None:
    async with play(revision) as (client, script):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: client.call_tool("work", progress=never_called if listens else None))
            request = await script.next_request("tools/call")
            nursery.cancel_scope.cancel()

        cancelled = await script.next_notification("notifications/cancelled")
        assert cancelled.params is not None
        assert cancelled.params["requestId"] == request.id
        await script.expect_nothing()


async def test_call_cancelled_before_it_is_sent_sends_nothing() -> None:
    async with play(OLD) as (client, script):
        with trio.CancelScope() as scope:
            scope.cancel()
            await client.call_tool("work")

        await script.expect_nothing()


# --- isolation of calls


async def test_server_error_is_raised_with_its_code_message_and_data() -> None:
    async with play(OLD) as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            await script.refuse(await script.next_request("tools/call"), -32050, "no luck", [1, {"two": None}])

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
async def test_invalid_result_fails_only_its_call(revision: str, result: dict[str, Any]) -> None:
    async with play(revision) as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            first, second = await script.next_request("tools/call"), await script.next_request("tools/call")
            await script.answer(first, result)
            await script.answer(second, text("fine"))

        nursery.start_soon(work)
        async with trio.open_nursery() as calls:

            async def fail() -> None:
                with pytest.raises(RemoteProtocolError, match=r"the server's result of tools/call: .*"):
                    await client.call_tool("first")

            calls.start_soon(fail)
            await wait_all_tasks_blocked()
            assert text_of(await client.call_tool("second")) == "fine"


async def test_responses_are_matched_to_calls_in_any_order() -> None:
    answers: dict[str, str] = {}
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:

        async def call(name: str) -> None:
            answers[name] = text_of(await client.call_tool(name))

        names = [f"tool {number}" for number in range(20)]
        for name in names:
            nursery.start_soon(call, name)
        requests = [await script.next_request("tools/call") for _ in names]
        for request in reversed(requests):
            assert request.params is not None
            await script.answer(request, text(f"I am {request.params['name']}"))

    assert answers == {name: f"I am {name}" for name in names}
    assert len({request.id for request in requests}) == 20


async def test_closed_connection_fails_pending_and_later_calls() -> None:
    async with play(OLD) as (client, script):

        async def fail() -> None:
            with pytest.raises(ConnectionClosed, match="the server closed the connection"):
                await client.call_tool("work")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            nursery.start_soon(fail)
            await script.next_request("tools/call")
            await script.next_request("tools/call")
            await script.close()
        await fail()
        assert client.revision == OLD


# --- calls with an iterator of reports


@pytest.mark.parametrize("revision", REVISIONS)
async def test_started_call_yields_its_reports_and_its_result(revision: str, autojump_clock: object) -> None:
    async with connect(Server(plugins=[Slow()]), revision=revision) as client:
        async with client.start_tool("count", {"to": 3}) as call:
            assert [progress.progress async for progress in call] == [1, 2, 3]
            assert text_of(await call.result()) == "counted to 3"
            assert text_of(await call.result()) == "counted to 3"


async def test_started_call_returns_its_result_with_unread_reports(autojump_clock: object) -> None:
    async with connect(Server(plugins=[Slow()])) as client:
        async with client.start_tool("count", {"to": 200}) as call:
            assert text_of(await call.result()) == "counted to 200"


async def test_started_call_raises_request_timeout(autojump_clock: object) -> None:
    async with play(OLD) as (client, _), client.start_tool("work", timeout=5) as call:
        assert [progress async for progress in call] == []
        with pytest.raises(RequestTimeout):
            await call.result()


async def test_leaving_a_started_call_cancels_it() -> None:
    plugin = Slow()
    async with connect(Server(plugins=[plugin])) as client:
        async with client.start_tool("wait") as call:
            await plugin.started.wait()
        with trio.fail_after(30):
            while not plugin.ended:
                await wait_all_tasks_blocked()
        assert plugin.ended == ["cancelled"]

        assert [progress async for progress in call] == []
        with trio.fail_after(30), pytest.raises(MCPTrioError, match="ended before its result"):
            await call.result()


async def test_exception_in_the_body_of_a_started_call_is_raised_unwrapped() -> None:
    async with play(OLD) as (client, script):

        async def fail() -> None:
            async with client.start_tool("work"):
                await script.next_request("tools/call")
                raise ValueError("mine")

        with pytest.raises(ValueError, match="mine"):
            await fail()
        await script.next_notification("notifications/cancelled")


# --- a response and a cancellation at the same time


@pytest.mark.parametrize("revision", [OLD, NEW])
async def test_response_racing_with_a_cancellation_ends_one_call(revision: str) -> None:
    """Repeated with response and cancellation in the same and in later event loop turns."""
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
                    request = await script.next_request("tools/call")
                    with trio.CancelScope(shield=True):
                        async with trio.open_nursery() as answering:
                            answering.start_soon(script.answer, request, text("here"))
                            for _ in range(turns):
                                await trio.lowlevel.checkpoint()
                            scope.cancel()
            if not answered:
                await script.next_notification("notifications/cancelled")

        assert await is_usable(client, script)


async def test_more_calls_than_the_buffers_hold_are_all_answered(tmp_path: Path) -> None:
    """Requests and responses are larger than the buffers between client and server, so neither may stop reading."""

    @tool
    async def echo(value: str) -> str:
        """Return the value."""
        return value

    server = Server(settings=ServerSettings(limits=ServerLimits(requests_per_session=10_000, outbox=20)))
    server.add_tool(echo)
    answered: list[str] = []

    async def call(client: Client, number: int) -> None:
        answered.append(text_of(await client.call_tool("echo", {"value": f"{number} {'x' * 8000}"})))

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            [url] = await nursery.start(partial(serve_stream, server, f"unix:{tmp_path / 'socket'}"))
            async with connect(url, revision=OLD) as client, trio.open_nursery() as calls:
                for number in range(2500):
                    calls.start_soon(call, client, number)
            nursery.cancel_scope.cancel()

    assert sorted(int(each.split()[0]) for each in answered) == list(range(2500))


# --- arguments that JSON cannot represent


@pytest.mark.parametrize("revision", [OLD, NEW])
@pytest.mark.parametrize(
    "value", [2**70, float("nan"), object(), "a\udcff"], ids=["integer", "nan", "object", "surrogate"]
)
async def test_argument_that_json_cannot_represent_is_refused_before_sending(revision: str, value: object) -> None:
    async with play(revision) as (client, script):
        with pytest.raises(LocalProtocolError, match=r"cannot be sent as JSON: .*.arguments.keep"):
            await client.call_tool("wipe", {"keep": value})
        with pytest.raises(LocalProtocolError, match=r"cannot be sent as JSON: .*.keep"):
            await client.notify("notifications/own", {"keep": value})

        assert await is_usable(client, script)
