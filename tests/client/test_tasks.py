"""Tasks of a server: the client follows them, answers their questions, cancels or detaches them, and resists faults."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from mcptrio import Client, ConnectionClosed, Context, InvalidParams, MCPError, Server, connect, tool
from mcptrio.client import Form, Handlers, Progress
from mcptrio.errors import MethodNotFound, RemoteProtocolError, RequestFailed, RequestTimeout, TaskCancelled
from mcptrio.protocol.messages import Request
from mcptrio.serving import ServerSettings, Timeouts, memory_channel_pair
from tests.client.scripted import EVERYTHING, FORM, TOOL, Script, play, text
from tests.client.slow_plugin import text_of
from tests.error_codes import INTERNAL_ERROR
from tests.http.web import ReceivedRequest, Wire, answer
from tests.http.web import serving as serving_http
from tests.interaction.applies import HANDSHAKE, MODERN

__all__: list[str] = []

NEW = MODERN[-1]
ELICIT = {"method": "elicitation/create", "params": FORM}
ADA = {"action": "accept", "content": {"name": "Ada"}}
TIME = "2026-11-27T09:00:00Z"
both = pytest.mark.parametrize("revision", [HANDSHAKE[-1], NEW])
"""The revisions with tasks."""


class Site:
    """A plugin whose tools run until the test says so."""

    def __init__(self) -> None:
        self.go_on = trio.Event()
        self.ended: list[str] = []

    @tool(task="required", poll_interval=1)
    async def dig(self, ctx: Context) -> str:
        """Dig."""
        await ctx.report_progress(1, 4, "stones")
        try:
            await self.go_on.wait()
        except trio.Cancelled:
            self.ended.append(ctx.cancel_reason or "")
            raise
        return "dug"

    @tool(task="optional")
    async def build(self) -> str:
        """Build."""
        await self.go_on.wait()
        return "built"

    @tool(task="required", poll_interval=1)
    async def ask(self, ctx: Context) -> str:
        """Ask twice."""
        names = [await ctx.ask("Your name?", str), await ctx.ask("Your name?", str)]
        return " ".join(names)

    @tool(task="required", poll_interval=1)
    async def break_off(self) -> str:
        """Fail as the protocol does."""
        raise MCPError("no site", data={"site": 3})


@asynccontextmanager
async def site(site: Site, **options: Any) -> AsyncIterator[Client]:
    async with connect(serving(site), **options) as client:
        yield client


def serving(site: Site) -> Server:
    return Server(plugins=[site], settings=ServerSettings(timeouts=Timeouts(task_after=3)))


@asynccontextmanager
async def played(**options: Any) -> AsyncIterator[tuple[Client, Script]]:
    """Yield a client, and a server that does not report its tasks."""
    capable = {**EVERYTHING, "extensions": {"io.modelcontextprotocol/tasks": {}}}
    async with play(NEW, capabilities=capable, **options) as (client, script):
        script.lacks = frozenset({"subscriptions/listen"})
        yield client, script


# --- an mcptrio server


@both
async def test_call_returns_the_result_of_its_task(revision: str, autojump_clock: MockClock) -> None:
    plugin, seen = Site(), list[Progress]()
    async with site(plugin, revision=revision) as client, trio.open_nursery() as nursery:

        async def dig() -> None:
            assert text_of(await client.call_tool("dig", progress=seen.append)) == "dug"

        nursery.start_soon(dig)
        await trio.sleep(600)
        plugin.go_on.set()

    assert [(each.progress, each.total, each.message) for each in seen] == [(1, None, "stones (1 of 4)")]


async def test_call_that_becomes_a_task_outlives_the_idle_timeout(autojump_clock: MockClock) -> None:
    plugin = Site()
    async with site(plugin) as client, trio.open_nursery() as nursery:

        async def build() -> None:
            assert text_of(await client.call_tool("build")) == "built"

        nursery.start_soon(build)
        await trio.sleep(3000)
        plugin.go_on.set()


@both
async def test_handlers_answer_the_questions_of_a_task(revision: str, autojump_clock: MockClock) -> None:
    names = iter(["Ada", "Eve"])

    async def fill_in(form: Form) -> Any:
        return {"value": next(names)}

    async with site(Site(), revision=revision, handlers=Handlers(elicit=fill_in)) as client:
        assert text_of(await client.call_tool("ask")) == "Ada Eve"


@both
async def test_failure_of_a_task_is_raised_as_its_error(revision: str, autojump_clock: MockClock) -> None:
    async with site(Site(), revision=revision) as client:
        with pytest.raises(MCPError, match="no site") as caught:
            await client.call_tool("break_off")

    assert caught.value.data == {"site": 3}


@both
async def test_leaving_the_call_cancels_its_task(revision: str, autojump_clock: MockClock) -> None:
    plugin = Site()
    async with site(plugin, revision=revision) as client:
        with trio.move_on_after(5):
            await client.call_tool("dig")
        await trio.testing.wait_all_tasks_blocked()

        assert plugin.ended == ["the client has cancelled the task"]


@both
@pytest.mark.parametrize("attempt", range(5))
async def test_leaving_the_client_cancels_the_task_of_its_call(
    revision: str, attempt: int, autojump_clock: MockClock
) -> None:
    """Trio wakes cancelled tasks in random order, so one attempt may succeed by chance."""
    plugin = Site()
    async with serving(plugin).open() as running, trio.open_nursery() as nursery:
        ours, theirs = memory_channel_pair()
        nursery.start_soon(running.serve, theirs)
        with trio.move_on_after(5):
            async with connect(ours, revision=revision) as client:
                await client.call_tool("dig")
        await trio.testing.wait_all_tasks_blocked()

        assert plugin.ended == ["the client has cancelled the task"]


@both
async def test_task_that_another_program_cancels_raises_task_cancelled(
    revision: str, autojump_clock: MockClock
) -> None:
    async with site(Site(), revision=revision) as client, client.start_tool("dig") as call:
        # The first report is that of the task.
        await anext(call)
        assert call.task_id is not None
        await client.task(call.task_id).cancel()
        with pytest.raises(TaskCancelled):
            await call.result()

        assert call.status == "cancelled"


@both
async def test_started_call_shows_its_task_and_its_texts(revision: str, autojump_clock: MockClock) -> None:
    plugin = Site()
    async with site(plugin, revision=revision) as client, client.start_tool("dig") as call:
        assert (call.task_id, call.status) == (None, None)
        async for progress in call:
            assert progress.message == "stones (1 of 4)"
            break
        assert (call.task_id is not None, call.status) == (True, "working")
        plugin.go_on.set()

        assert text_of(await call.result()) == "dug"
        assert call.status == "completed"
        assert await call.detach() is None


@both
async def test_detached_call_continues_without_its_client(revision: str, autojump_clock: MockClock) -> None:
    plugin = Site()
    async with serving(plugin).open() as running, trio.open_nursery() as nursery:

        @asynccontextmanager
        async def client() -> AsyncIterator[Client]:
            ours, theirs = memory_channel_pair()
            nursery.start_soon(running.serve, theirs)
            async with connect(ours, revision=revision) as client:
                yield client

        async with client() as first:
            async with first.start_tool("build", as_task=True) as call:
                id = await call.detach()
                assert id == call.task_id == await call.detach()
                with pytest.raises(RequestFailed, match=f"the call was detached; task {id} has its result"):
                    await call.result()
        assert id is not None

        async with client() as second:
            task = second.task(id)
            state = await task.state()
            assert (state.id, state.status, state.message) == (id, "working", None)
            assert state.ttl is not None
            plugin.go_on.set()
            assert text_of(await task.result()) == "built"
            assert (await task.state()).status == "completed"
            assert text_of(await task.result()) == "built", "the result can be read again"


@both
async def test_waiting_for_a_task_leaves_it_running(revision: str, autojump_clock: MockClock) -> None:
    plugin = Site()
    async with site(plugin, revision=revision) as client:
        async with client.start_tool("dig") as call:
            id = await call.detach()
        assert id is not None
        with trio.move_on_after(30) as scope:
            await client.task(id).result()
        assert (scope.cancelled_caught, plugin.ended) == (True, [])

        await client.task(id).cancel()
        with pytest.raises(TaskCancelled):
            await client.task(id).result()


@both
async def test_unknown_task_raises(revision: str, autojump_clock: MockClock) -> None:
    async with site(Site(), revision=revision) as client:
        for wait in (client.task("x").state, client.task("x").result, client.task("x").cancel):
            with pytest.raises(InvalidParams, match="no task with this id"):
                await wait()


@pytest.mark.parametrize("revision", HANDSHAKE[:3])
async def test_older_server_has_no_tasks(revision: str, autojump_clock: MockClock) -> None:
    async with site(Site(), revision=revision) as client:
        with pytest.raises(MethodNotFound):
            await client.task("x").state()


# --- a server that is played


def state(status: str = "working", **more: Any) -> dict[str, Any]:
    return {
        "taskId": "t1",
        "status": status,
        "createdAt": TIME,
        "lastUpdatedAt": TIME,
        "ttlMs": None,
        "pollIntervalMs": 500,
        **more,
    }


async def create(script: Script, **more: Any) -> None:
    """Answer the next call with a task."""
    await script.answer(await script.next_request("tools/call"), {"resultType": "task", **state(**more)})


async def poll(script: Script, status: str = "working", **more: Any) -> Request:
    """Answer the next poll."""
    request = await script.next_request("tasks/get")
    assert request.params is not None
    assert request.params["taskId"] == "t1"
    await script.answer(request, state(status, **more))
    return request


async def expect_cancel(script: Script) -> None:
    await script.answer(await script.next_request("tasks/cancel"))


def completed(words: str) -> dict[str, Any]:
    return {"status": "completed", "result": {"resultType": "complete", **text(words)}}


async def test_polls_at_the_interval_that_the_server_asks_for(autojump_clock: MockClock) -> None:
    intervals = {500: 0.5, None: 2, 0: 0.05, -1: 0.05, 10**9: 60}
    async with played() as (client, script), trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "work")
        await create(script)
        before = 0.5
        for interval, seconds in intervals.items():
            started = trio.current_time()
            await poll(script, pollIntervalMs=interval)
            assert trio.current_time() - started == pytest.approx(before)
            before = seconds
        await poll(script, **completed("done"))


async def test_question_is_answered_once_per_key(autojump_clock: MockClock) -> None:
    asked: list[str] = []

    async def fill_in(form: Form) -> Any:
        asked.append(form.message)
        return {"name": "Ada"}

    async with played(handlers=Handlers(elicit=fill_in)) as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            assert text_of(await client.call_tool("work")) == "done"

        nursery.start_soon(work)
        await create(script)
        for keys, fresh in ((("a",), ["a"]), (("a",), []), (("a", "b", "c"), ["b", "c"])):
            await poll(script, "input_required", inputRequests=dict.fromkeys(keys, ELICIT))
            if fresh:
                update = await script.next_request("tasks/update")
                assert update.params is not None
                assert update.params["inputResponses"] == dict.fromkeys(fresh, ADA)
                await script.answer(update)
        await poll(script, **completed("done"))

    assert len(asked) == 3


async def test_question_that_cannot_be_answered_cancels_the_task(autojump_clock: MockClock) -> None:
    async with played() as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            with pytest.raises(InvalidParams, match="elicitation by form is not declared"):
                await client.call_tool("work")

        nursery.start_soon(work)
        await create(script)
        await poll(script, "input_required", inputRequests={"a": ELICIT})
        await expect_cancel(script)


async def test_unchanged_task_ends_after_the_timeout(autojump_clock: MockClock) -> None:
    async with played() as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            with pytest.raises(RequestTimeout, match="task t1: no change within 7 s"):
                await client.call_tool("work", timeout=7)

        nursery.start_soon(work)
        await create(script, pollIntervalMs=5000)
        started = trio.current_time()
        await poll(script, lastUpdatedAt="2026-11-27T09:00:01Z", pollIntervalMs=60_000)
        await poll(script, lastUpdatedAt="2026-11-27T09:00:01Z", pollIntervalMs=60_000)
        await expect_cancel(script)

        assert trio.current_time() - started == pytest.approx(12)


async def test_polls_again_while_the_server_cannot_answer(autojump_clock: MockClock) -> None:
    async with played() as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            assert text_of(await client.call_tool("work")) == "done"

        nursery.start_soon(work)
        await create(script)
        # More often than one request is repeated.
        for _ in range(20):
            await script.refuse(await script.next_request("tasks/get"), INTERNAL_ERROR, data={"retryAfter": 1})
        await poll(script, **completed("done"))


async def test_polls_again_over_http_after_failures_of_every_kind() -> None:
    """The client repeats each request twice before the task sees the failure, so there are more failures than that."""
    failures = iter([503, None, 502, 503, None])
    polls: list[str] = []

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        cacheable = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        match seen.message["method"]:
            case "server/discover":
                can = {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
                await wire.reply(answer(seen, **cacheable, supportedVersions=[NEW], capabilities=can))
            case "tools/list":
                await wire.reply(answer(seen, **cacheable, tools=[TOOL]))
            case "tools/call":
                await wire.reply(answer(seen, resultType="task", **state(pollIntervalMs=10)))
            case "subscriptions/listen":
                await wire.reply("busy", 503)
            case "tasks/get":
                polls.append(seen.headers["mcp-name"])
                status = next(failures, 200)
                if status is None:
                    # No answer: the connection breaks.
                    wire.closed = True
                    await wire.socket.aclose()
                elif status == 200:
                    await wire.reply(answer(seen, **{"resultType": "complete", **state(), **completed("done")}))
                else:
                    await wire.reply("busy", status)

    with trio.fail_after(60):
        async with serving_http(handle) as web, connect(web.url, revision=NEW) as client:
            assert text_of(await client.call_tool("work")) == "done"

    assert polls == ["t1"] * 6, "the header routes to the process that has the task"


async def test_lost_connection_ends_a_call_that_cannot_reconnect(autojump_clock: MockClock) -> None:
    async with played() as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            with pytest.raises(ConnectionClosed):
                await client.call_tool("work")

        nursery.start_soon(work)
        await create(script)
        await script.close()


async def test_server_that_asks_without_end_is_refused(autojump_clock: MockClock) -> None:
    async def fill_in(form: Form) -> Any:
        return {"name": "Ada"}

    async with played(handlers=Handlers(elicit=fill_in)) as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            with pytest.raises(RemoteProtocolError, match="expected at most 1000 questions of one task, got more"):
                await client.call_tool("work")

        nursery.start_soon(work)
        await create(script)
        for number in range(10):
            await poll(script, "input_required", inputRequests={f"{number}:{each}": ELICIT for each in range(100)})
            await script.answer(await script.next_request("tasks/update"))
        await poll(script, "input_required", inputRequests={"one more": ELICIT})
        await expect_cancel(script)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (state("sleeping"), "status"),
        (state("completed"), "expected the result of completed task t1, got none"),
        (state("completed", result={"content": 7}), "the result of task t1: .*content"),
        (state("completed", result="done"), "result"),
        (state("failed"), "expected the error of failed task t1, got {}"),
        (state("failed", error={"code": "x", "message": "no"}), "expected the error of failed task t1"),
        (state("input_required", inputRequests=["a"]), "inputRequests"),
        (state("input_required", inputRequests={"a": {"method": "tools/call"}}), "a question of task t1"),
        (state("working", taskId="t2"), "expected the state of task t1, got that of 't2'"),
        (state("working", taskId=7), "taskId"),
        ({"taskId": "t1", "status": "working"}, "createdAt"),
        ({"resultType": "task", **state()}, "unexpected result type 'task'"),
    ],
)
async def test_malformed_state_ends_the_call(answer: Any, expected: str, autojump_clock: MockClock) -> None:
    async with played() as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            with pytest.raises(RemoteProtocolError, match=expected):
                await client.call_tool("work")

        nursery.start_soon(work)
        await create(script)
        await script.answer(await script.next_request("tasks/get"), answer)
        await expect_cancel(script)


async def test_only_a_tool_call_may_be_answered_with_a_task(autojump_clock: MockClock) -> None:
    async with played() as (client, script), trio.open_nursery() as nursery:

        async def get() -> None:
            with pytest.raises(RemoteProtocolError, match="unexpected result type 'task'"):
                await client.get_prompt("work")

        nursery.start_soon(get)
        await script.answer(await script.next_request("prompts/get"), {"resultType": "task", **state()})


async def test_result_of_a_task_is_checked_against_the_schema(autojump_clock: MockClock) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    async with played() as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            with pytest.raises(RemoteProtocolError, match="work"):
                await client.call_tool("work")

        nursery.start_soon(work)
        await create(script)
        wrong = {"resultType": "complete", "content": [], "structuredContent": {"n": "seven"}}
        await poll(script, "completed", result=wrong)
        await script.answer(await script.next_request("tools/list"), {"tools": [{**TOOL, "outputSchema": schema}]})
