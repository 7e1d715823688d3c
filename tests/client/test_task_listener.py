"""One stream reports all tasks that a client follows. The client polls where the server does not report them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mcptrio import Client
from mcptrio.client import Form, Handlers
from mcptrio.client.task_listener import MAX_TASKS
from mcptrio.protocol.messages import Request
from tests.client.scripted import EVERYTHING, FORM, Script, play, text
from tests.client.slow_plugin import text_of
from tests.error_codes import METHOD_NOT_FOUND
from tests.interaction.applies import MODERN

__all__: list[str] = []

NEW = MODERN[-1]
TIME = "2026-11-27T09:00:00Z"
ELICIT = {"method": "elicitation/create", "params": FORM}
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"


def state(id: str = "t1", status: str = "working", **more: Any) -> dict[str, Any]:
    times = {"createdAt": TIME, "lastUpdatedAt": TIME, "ttlMs": None, "pollIntervalMs": 1000}
    return {"taskId": id, "status": status, **times, **more}


def completed(words: str) -> dict[str, Any]:
    return {"status": "completed", "result": {"resultType": "complete", **text(words)}}


@asynccontextmanager
async def played(**options: Any) -> AsyncIterator[tuple[Client, Script]]:
    capable = {**EVERYTHING, "extensions": {"io.modelcontextprotocol/tasks": {}}}
    async with play(NEW, capabilities=capable, **options) as (client, script):
        yield client, script


async def create(script: Script, id: str = "t1", **more: Any) -> None:
    """Answer the next call with a task."""
    await script.answer(await script.next_request("tools/call"), {"resultType": "task", **state(id, **more)})


async def accept(script: Script, *ids: str) -> Request:
    """Take the next stream, which must be of these tasks, and agree to report them."""
    request = await script.next_request("subscriptions/listen")
    assert sorted(ids_of(request)) == sorted(ids)
    await acknowledge(script, request, ids)
    return request


def ids_of(stream: Request) -> tuple[str, ...]:
    """Return the tasks of a stream. Trio starts calls that are made together in random order."""
    assert stream.params is not None
    assert stream.params["notifications"].keys() == {"taskIds"}
    return tuple(stream.params["notifications"]["taskIds"])


async def acknowledge(script: Script, request: Request, ids: tuple[str, ...]) -> None:
    params = {"notifications": {"taskIds": list(ids)}, "_meta": {SUBSCRIPTION_ID: request.id}}
    await script.notify("notifications/subscriptions/acknowledged", params)


async def report(script: Script, stream: Request, id: str = "t1", **more: Any) -> None:
    await script.notify("notifications/tasks", {**state(id, **more), "_meta": {SUBSCRIPTION_ID: stream.id}})


async def expect_end(script: Script, stream: Request) -> None:
    """The client ends this stream."""
    cancelled = await script.next_notification("notifications/cancelled")
    assert cancelled.params is not None
    assert cancelled.params["requestId"] == stream.id


async def test_reported_result_needs_no_poll(autojump_clock: MockClock) -> None:
    seen: list[str | None] = []
    async with played() as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            result = await client.call_tool("work", progress=lambda progress: seen.append(progress.message))
            assert text_of(result) == "done"

        nursery.start_soon(work)
        await create(script)
        stream = await accept(script, "t1")
        await report(script, stream, statusMessage="stones")
        await trio.sleep(3)
        started = trio.current_time()
        await report(script, stream, "another", **completed("of another call"))
        await report(script, stream, **completed("done"))
        await expect_end(script, stream)

        assert trio.current_time() == started
    assert seen == ["stones"]


async def test_reported_questions_are_answered(autojump_clock: MockClock) -> None:
    async def fill_in(form: Form) -> Any:
        return {"name": "Ada"}

    async with played(handlers=Handlers(elicit=fill_in)) as (client, script), trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "work")
        await create(script)
        stream = await accept(script, "t1")
        await report(script, stream, status="input_required", inputRequests={"a": ELICIT})
        update = await script.next_request("tasks/update")
        await script.answer(update)
        # The report of a moment before the answer.
        await report(script, stream, status="input_required", inputRequests={"a": ELICIT})
        await report(script, stream, **completed("done"))
        await expect_end(script, stream)


async def test_all_tasks_share_a_stream(autojump_clock: MockClock) -> None:
    """Calls made together are in the first stream; a later one replaces it with a stream of all."""
    results: list[str] = []
    async with played() as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            results.append(text_of(await client.call_tool("work")))

        nursery.start_soon(work)
        nursery.start_soon(work)
        await create(script, "t1")
        await create(script, "t2")
        first = await accept(script, "t1", "t2")
        await report(script, first, "t2", **completed("two"))
        nursery.start_soon(work)
        await create(script, "t3", pollIntervalMs=10_000)
        await expect_end(script, first)
        second = await accept(script, "t1", "t3")
        await report(script, second, "t3", **completed("three"))
        await report(script, second, "t1", **completed("one"))
        await expect_end(script, second)

    assert sorted(results) == ["one", "three", "two"]


async def test_lost_report_is_found_by_a_late_poll(autojump_clock: MockClock) -> None:
    async with played() as (client, script), trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "work")
        await create(script)
        started = trio.current_time()
        stream = await accept(script, "t1")
        poll = await script.next_request("tasks/get")

        assert trio.current_time() - started == pytest.approx(5)
        await script.answer(poll, state(**completed("done")))
        await expect_end(script, stream)


@pytest.mark.parametrize("how", ["an error", "an acknowledgement without the task"])
async def test_server_that_reports_no_tasks_is_asked_once(how: str, autojump_clock: MockClock) -> None:
    async with played() as (client, script), trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "work")
        await create(script)
        started = trio.current_time()
        stream = await script.next_request("subscriptions/listen")
        if how == "an error":
            await script.refuse(stream, METHOD_NOT_FOUND)
        else:
            await acknowledge(script, stream, ())
            await expect_end(script, stream)
        for _ in range(3):
            await script.answer(await script.next_request("tasks/get"), state())
        assert trio.current_time() - started == pytest.approx(3)
        await script.answer(await script.next_request("tasks/get"), state(**completed("done")))

        nursery.start_soon(client.call_tool, "work")
        await create(script, "t2")
        await script.answer(await script.next_request("tasks/get"), state("t2", **completed("done")))


async def test_task_outside_the_stream_is_polled(autojump_clock: MockClock) -> None:
    async with played() as (client, script), trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "work")
        nursery.start_soon(client.call_tool, "work")
        await create(script, "t1")
        await create(script, "t2")
        started = trio.current_time()
        stream = await script.next_request("subscriptions/listen")
        await acknowledge(script, stream, ("t2",))
        poll = await script.next_request("tasks/get")
        assert poll.params is not None

        assert poll.params["taskId"] == "t1"
        assert trio.current_time() - started == pytest.approx(1)
        await script.answer(poll, state(**completed("done")))
        await report(script, stream, "t2", **completed("done"))
        await expect_end(script, stream)


async def test_stream_has_a_bounded_number_of_tasks(autojump_clock: MockClock) -> None:
    async with played() as (client, script), trio.open_nursery() as nursery:
        ids = [f"t{number}" for number in range(MAX_TASKS + 1)]
        for id in ids:
            nursery.start_soon(client.call_tool, "work")
            await create(script, id, pollIntervalMs=10_000)
        first = await script.next_request("subscriptions/listen")
        await acknowledge(script, first, ids_of(first))
        # Its place is free now.
        done, *others = ids_of(first)
        assert len(others) == MAX_TASKS - 1
        await report(script, first, done, **completed("done"))
        await expect_end(script, first)
        script.lacks = frozenset({"tasks/get", "tasks/cancel"})
        await accept(script, *sorted(set(ids) - {done}))
        nursery.cancel_scope.cancel()


async def test_stream_that_breaks_is_opened_again(autojump_clock: MockClock) -> None:
    async with played() as (client, script), trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "work")
        await create(script)
        first = await accept(script, "t1")
        # The end of the stream, for example because the server is restarting.
        await script.answer(first, {"_meta": {SUBSCRIPTION_ID: first.id}})
        second = await accept(script, "t1")
        await report(script, second, **completed("done"))
        await expect_end(script, second)
