"""Tasks of 2025-11-25: when the client asks for one, and how it takes the result from a server that a test plays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mcptrio import Client, MCPError, connect
from mcptrio.client import Form, Handlers, Progress
from mcptrio.errors import MethodNotFound, RequestTimeout, TaskCancelled
from mcptrio.protocol.messages import Notification, Request
from mcptrio.serving import memory_channel_pair
from tests.client.scripted import EVERYTHING, FORM, Script, play, text
from tests.client.slow_plugin import text_of
from tests.error_codes import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from tests.interaction.applies import HANDSHAKE

__all__: list[str] = []

OLD = HANDSHAKE[-1]
TASKS = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
TIME = "2026-11-27T09:00:00Z"
RELATED = {"_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t1"}}}


@asynccontextmanager
async def played(tasks: Any = TASKS, **options: Any) -> AsyncIterator[tuple[Client, Script]]:
    async with play(OLD, capabilities={**EVERYTHING, "tasks": tasks}, **options) as (client, script):
        yield client, script


def state(status: str = "working", **more: Any) -> dict[str, Any]:
    times = {"createdAt": TIME, "lastUpdatedAt": TIME}
    return {"taskId": "t1", "status": status, "ttl": None, "pollInterval": 500, **times, **more}


async def listed(script: Script, support: str | None = "required") -> None:
    execution = {} if support is None else {"execution": {"taskSupport": support}}
    work = {"name": "work", "inputSchema": {"type": "object"}, **execution}
    await script.answer(await script.next_request("tools/list"), {"tools": [work]})


async def created(script: Script) -> None:
    """List the tool, and answer its call with a task."""
    await listed(script)
    call = await script.next_request("tools/call")
    assert call.params is not None
    assert call.params["task"] == {}
    await script.answer(call, {"task": state()})


@pytest.mark.parametrize(
    ("support", "as_task", "asks"),
    [
        (None, True, False),
        ("forbidden", True, False),
        ("optional", False, False),
        ("optional", True, True),
        ("required", False, True),
    ],
)
async def test_client_asks_for_a_task_if_the_tool_requires_it(
    support: str | None, as_task: bool, asks: bool, autojump_clock: MockClock
) -> None:
    async with played() as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await listed(script, support)
            call = await script.next_request("tools/call")
            assert call.params is not None
            assert ("task" in call.params) is asks
            # A server may still answer at once.
            await script.answer(call, text("done"))

        nursery.start_soon(serve)
        assert text_of(await client.call_tool("work", as_task=as_task)) == "done"


@pytest.mark.parametrize("is_result", [True, False])
async def test_tool_that_is_listed_late_is_called_again_as_a_task(is_result: bool, autojump_clock: MockClock) -> None:
    """server-everything lists some of its tools a moment after the handshake."""
    async with played() as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await script.answer(await script.next_request("tools/list"), {"tools": []})
            plain = await script.next_request("tools/call")
            if is_result:
                await script.answer(plain, {**text("requires a task"), "isError": True})
            else:
                await script.refuse(plain, METHOD_NOT_FOUND)
            await created(script)
            await script.answer(await script.next_request("tasks/get"), state("completed"))
            await script.answer(await script.next_request("tasks/result"), text("done"))

        nursery.start_soon(serve)
        assert text_of(await client.call_tool("work")) == "done"


async def test_refused_call_of_an_unlisted_tool_is_not_repeated(autojump_clock: MockClock) -> None:
    async with played() as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await listed(script)
            await script.refuse(await script.next_request("tools/call"), METHOD_NOT_FOUND)
            await listed(script)

        nursery.start_soon(serve)
        with pytest.raises(MethodNotFound):
            await client.call_tool("play")


@pytest.mark.parametrize("tasks", [None, {}, {"requests": {}}, {"requests": {"tools": {}}}])
async def test_client_asks_for_no_task_if_the_server_makes_none(tasks: Any, autojump_clock: MockClock) -> None:
    async with played(tasks) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            call = await script.next_request("tools/call")
            assert call.params is not None
            assert "task" not in call.params
            await script.answer(call, text("done"))

        nursery.start_soon(serve)
        assert text_of(await client.call_tool("work", as_task=True)) == "done"


async def test_client_declares_that_it_follows_tasks() -> None:
    ours, theirs = memory_channel_pair()
    script = Script(theirs, OLD)
    async with trio.open_nursery() as nursery:

        async def initialize() -> None:
            request = await script.next_request("initialize")
            assert request.params is not None
            assert request.params["capabilities"] == {"tasks": {}}
            await script.refuse(request, INTERNAL_ERROR)

        nursery.start_soon(initialize)
        with pytest.raises(MCPError):
            async with connect(ours, revision=OLD):
                raise AssertionError


async def test_result_is_awaited_while_the_client_polls_and_answers(autojump_clock: MockClock) -> None:
    seen: list[Progress] = []

    async def fill_in(form: Form) -> Any:
        return {"name": "Ada"}

    async with played(handlers=Handlers(elicit=fill_in)) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await created(script)
            await script.answer(await script.next_request("tasks/get"), state(statusMessage="digging"))
            await script.answer(await script.next_request("tasks/get"), state("input_required"))
            waiting = await script.next_request("tasks/result")
            assert waiting.params == {"taskId": "t1"}
            await script.send(Request(1, "elicitation/create", {**FORM, **RELATED}))
            answer: Any = await script.take_any()
            assert answer.result == {"action": "accept", "content": {"name": "Ada"}}
            for message in ("going on", "nearly"):
                await script.answer(await script.next_request("tasks/get"), state(statusMessage=message))
            await script.answer(waiting, {**text("done"), **RELATED})

        nursery.start_soon(serve)
        assert text_of(await client.call_tool("work", progress=seen.append)) == "done"

    assert [each.message for each in seen] == ["digging", "going on", "nearly"]


@pytest.mark.parametrize("status", ["completed", "failed"])
async def test_result_of_an_ended_task_is_taken(status: str, autojump_clock: MockClock) -> None:
    async with played() as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await created(script)
            await script.answer(await script.next_request("tasks/get"), state(status))
            await script.answer(
                await script.next_request("tasks/result"), {**text("no"), "isError": status == "failed"}
            )

        nursery.start_soon(serve)
        result = await client.call_tool("work")

    assert (text_of(result), result.is_error) == ("no", status == "failed")


async def test_error_of_the_result_is_raised(autojump_clock: MockClock) -> None:
    async with played() as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await created(script)
            await script.answer(await script.next_request("tasks/get"), state("failed", statusMessage="broken"))
            await script.refuse(await script.next_request("tasks/result"), INTERNAL_ERROR, "broken", {"part": 1})

        nursery.start_soon(serve)
        with pytest.raises(MCPError, match="broken") as caught:
            await client.call_tool("work")

    assert caught.value.data == {"part": 1}


async def test_cancelled_task_raises_task_cancelled(autojump_clock: MockClock) -> None:
    async with played() as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await created(script)
            await script.answer(await script.next_request("tasks/get"), state("cancelled", statusMessage="enough"))

        nursery.start_soon(serve)
        with pytest.raises(TaskCancelled, match="enough"):
            await client.call_tool("work")


async def test_leaving_the_call_cancels_its_task(autojump_clock: MockClock) -> None:
    async with played() as (client, script), trio.open_nursery() as nursery:
        left = trio.CancelScope()

        async def serve() -> None:
            await created(script)
            await script.answer(await script.next_request("tasks/get"), state("input_required"))
            waiting = await script.next_request("tasks/result")
            left.cancel()
            last: list[Any] = [await script.take_any() for _ in range(2)]
            [abandoned] = [each for each in last if isinstance(each, Notification)]
            assert abandoned.params is not None
            assert abandoned.params["requestId"] == waiting.id
            [cancelled] = [each for each in last if isinstance(each, Request)]
            assert (cancelled.method, cancelled.params) == ("tasks/cancel", {"taskId": "t1"})
            await script.answer(cancelled, state("cancelled"))

        nursery.start_soon(serve)
        with left:
            await client.call_tool("work")
        assert left.cancelled_caught


async def test_missing_result_times_out(autojump_clock: MockClock) -> None:
    async with played() as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await created(script)
            await script.answer(await script.next_request("tasks/get"), state("completed"))
            await script.next_request("tasks/result")
            # What tells the server that the client has left both.
            for _ in range(2):
                message: Any = await script.take_any()
                if isinstance(message, Request):
                    await script.refuse(message, INVALID_PARAMS)

        nursery.start_soon(serve)
        with pytest.raises(RequestTimeout, match="task t1: no result within 30 s"):
            await client.call_tool("work")
