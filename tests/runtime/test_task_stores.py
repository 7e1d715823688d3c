"""Tasks whose store fails, changes or is slow at an inconvenient moment.

The tests simulate other processes by changing the records in the store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define, evolve, field
from trio.testing import MockClock

from mcptrio import Context, Elicit, Server
from mcptrio.abc import EffectClaim, Stores, TaskQueue, TaskRecord, TaskState, TaskStore
from mcptrio.errors import StoreFailed
from mcptrio.protocol.messages import Request
from mcptrio.stores import MemoryBus, StoreBounds, memory_stores
from mcptrio.tasks.document import TaskDocument
from tests.runtime.peers import Client, connected, envelope
from tests.runtime.test_effects import Till
from tests.runtime.test_shared_effects import Faulty
from tests.server_options import server_options

__all__: list[str] = []

CAPABILITIES = {
    "io.modelcontextprotocol/clientCapabilities": {
        "extensions": {"io.modelcontextprotocol/tasks": {}},
        "elicitation": {},
    }
}


async def nothing() -> None:
    pass


@define(eq=False)
class UnreliableTaskStore:
    """A task store whose methods can fail, and whose records a test can change like another process.

    Args:
        failing: The methods that fail.
        created: Called after a task was created, before the caller of ``create`` continues.
        claimed: Called after a task was claimed, before the caller of ``claim`` continues.
    """

    tasks: TaskStore
    failing: set[str] = field(factory=set)
    created: Callable[[], Awaitable[None]] = nothing
    claimed: Callable[[TaskRecord], Awaitable[None]] | None = None

    async def create(self, record: TaskRecord, *, keep: float | None = None) -> TaskRecord:
        self._check("create")
        created = await self.tasks.create(record, keep=keep)
        await self.created()
        return created

    async def load(self, id: str) -> TaskRecord | None:
        self._check("load")
        return await self.tasks.load(id)

    async def list(self, owner: str, after: str = "") -> list[TaskRecord]:
        return await self.tasks.list(owner, after)

    async def save(self, record: TaskRecord, *, held: bool = False) -> TaskRecord | None:
        self._check("save")
        return await self.tasks.save(record, held=held)

    async def claim(self, tools: Mapping[str, int]) -> TaskRecord | None:
        record = await self.tasks.claim(tools)
        if record is not None and self.claimed is not None:
            await self.claimed(record)
        return record

    async def queues(self) -> Sequence[TaskQueue]:
        return await self.tasks.queues()

    async def expire(self) -> int:
        return await self.tasks.expire()

    def _check(self, method: str) -> None:
        if method in self.failing:
            raise StoreFailed(f"the store is unavailable: {method}")

    # What other processes do

    async def change(self, id: str, **changes: Any) -> TaskRecord:
        """Change the data of a task, like a process that does not hold the task."""
        record = await self.tasks.load(id)
        assert record is not None
        document = evolve(TaskDocument.decode(record.data), **changes)
        saved = await self.tasks.save(evolve(record, data=document.encode()))
        assert saved is not None
        return saved

    async def queue(self, id: str) -> None:
        """Queue a task again, as if its process had died."""
        record = await self.tasks.load(id)
        assert record is not None
        assert await self.tasks.save(evolve(record, state=TaskState.QUEUED), held=True) is not None


@define(eq=False)
class Site:
    server: Server
    store: UnreliableTaskStore
    client: Client
    _ids: int = 0

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._ids += 1
        meta = {**envelope(), **CAPABILITIES}
        return await self.client.result(Request(self._ids, method, {**params, "_meta": meta}))

    async def begin(self, **arguments: Any) -> str:
        """Return the id of a new task."""
        created = await self.ask("tools/call", name="it", arguments=arguments)
        id: str = created["taskId"]
        return id

    async def until(self, id: str, status: str) -> dict[str, Any]:
        """Wait until a task has a status, and return its state. The long timeout needs ``autojump_clock``."""
        with trio.fail_after(200):
            while (state := await self.ask("tasks/get", taskId=id))["status"] != status:  # noqa: ASYNC110 - clients poll
                await trio.sleep(0.5)
        return state


@asynccontextmanager
async def site(
    function: Callable[..., Awaitable[str]],
    *,
    effects: Any = None,
    bounds: StoreBounds | None = None,
    resumable: bool = True,
    task: Any = "required",
    concurrency: int | None = None,
) -> AsyncIterator[Site]:
    """A server with one tool whose calls are tasks, over stores in memory."""
    stores = memory_stores(bounds or StoreBounds(), bus=MemoryBus())
    assert stores.tasks is not None
    store = UnreliableTaskStore(stores.tasks)
    shared: Stores = evolve(stores, tasks=store, **({"effects": effects} if effects is not None else {}))
    server = Server(**server_options({"stores": shared}))
    server.add_tool(function, name="it", task=task, resumable=resumable, concurrency=concurrency)
    async with connected(server, revision=None) as client:
        yield Site(server, store, client)


def accept(text: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"value": text}}


async def test_client_gets_an_error_while_the_store_fails(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> str:
        return "done"

    async with site(work) as served:
        id = await served.begin()
        served.store.failing |= {"create", "load"}
        for method, params in (("tools/call", {"name": "it", "arguments": {}}), ("tasks/get", {"taskId": id})):
            error = await served.client.error(
                Request(method, method, {**params, "_meta": {**envelope(), **CAPABILITIES}})
            )
            assert error.message == "the server's store is unavailable"
            assert error.data == {"retryAfter": 5.0}

    assert "it failed: the store is unavailable: create" in caplog.text
    assert "Traceback" not in caplog.text


async def test_cancellation_takes_effect_although_the_store_fails_at_that_moment(autojump_clock: MockClock) -> None:
    async def work() -> str:
        await trio.sleep_forever()
        raise AssertionError

    async with site(work) as served:
        id = await served.begin()
        await trio.sleep(1)
        served.store.failing.add("load")
        await served.store.change(id, is_cancelled=True)
        await trio.sleep(1)
        served.store.failing.clear()
        await served.until(id, "cancelled")


async def test_cancellation_takes_effect_between_a_claim_and_the_start_of_the_task(autojump_clock: MockClock) -> None:
    async def work() -> str:
        await trio.sleep_forever()
        raise AssertionError

    async with site(work, concurrency=1) as served:

        async def cancel(record: TaskRecord) -> None:
            await served.store.change(record.id, is_cancelled=True)

        served.store.claimed = cancel
        await served.until(await served.begin(), "cancelled")


async def test_question_stays_open_while_another_process_replays_the_handler(autojump_clock: MockClock) -> None:
    """A client that has answered it does not answer it again, so its answer must count in the meantime too."""
    runs = 0

    async def work(ctx: Context) -> str:
        nonlocal runs
        runs += 1
        if runs == 2:
            ctx.task.set_status("again")
            await trio.sleep(10)
        first, second = await ctx.ask_all(Elicit("first?", str), Elicit("second?", str))
        return f"{first} {second} {await ctx.ask('third?', str)}"

    async with site(work) as served:
        id = await served.begin()
        first = (await served.until(id, "input_required"))["inputRequests"]
        await served.store.queue(id)
        await trio.sleep(5)
        again = await served.until(id, "input_required")
        assert (runs, again["statusMessage"], again["inputRequests"]) == (2, "again", first)
        answers = {key: accept(asked["params"]["message"]) for key, asked in first.items()}
        await served.ask("tasks/update", taskId=id, inputResponses=answers)
        assert (await served.until(id, "working"))["statusMessage"] == "again"
        [(key, question)] = (await served.until(id, "input_required"))["inputRequests"].items()
        assert question["params"]["message"] == "third?"
        assert key not in first
        await served.ask("tasks/update", taskId=id, inputResponses={key: accept("third?")})
        assert (await served.until(id, "completed"))["result"]["content"][0]["text"] == "first? second? third?"


async def test_task_that_is_claimed_while_the_server_begins_to_stop_is_given_back(autojump_clock: MockClock) -> None:
    started = 0

    async def work() -> str:
        nonlocal started
        started += 1
        await trio.sleep_forever()
        raise AssertionError

    for resumable in (True, False):
        async with site(work, concurrency=1, resumable=resumable) as served, trio.open_nursery() as nursery:

            async def stop(record: TaskRecord, served: Site = served, nursery: trio.Nursery = nursery) -> None:
                nursery.start_soon(served.server.supervisor.drain)
                await trio.sleep(1)

            served.store.claimed = stop
            id = await served.begin()
            await trio.sleep(10)
            record = await served.store.tasks.load(id)
            assert record is not None
            assert (record.state, TaskDocument.decode(record.data).has_begun) == (TaskState.QUEUED, False)
    assert started == 0


async def test_call_that_becomes_a_task_while_the_server_begins_to_stop_is_given_back(
    autojump_clock: MockClock,
) -> None:
    reasons: list[str | None] = []

    async def work(ctx: Context) -> str:
        await ctx.task.begin()
        try:
            await trio.sleep_forever()
        finally:
            reasons.append(ctx.cancel_reason)
        raise AssertionError

    async with site(work, task="optional") as served, trio.open_nursery() as nursery:

        async def stop() -> None:
            nursery.start_soon(served.server.supervisor.drain)
            await trio.sleep(1)

        served.store.created = stop
        id = await served.begin()
        await trio.sleep(1)
        record = await served.store.tasks.load(id)
        assert record is not None
        assert record.state is TaskState.QUEUED
        assert reasons == ["the server is stopping"]


async def test_task_that_never_began_is_run_although_it_cannot_be_resumed(autojump_clock: MockClock) -> None:
    runs = 0

    async def work() -> str:
        nonlocal runs
        runs += 1
        await trio.sleep(10)
        return "done"

    async with site(work, concurrency=1, resumable=False) as served:
        first = await served.begin()
        await trio.sleep(1)
        second = await served.begin()
        # Another process claims it, and dies before it has begun.
        claimed = await served.store.tasks.claim({"it": 2})
        assert claimed is not None
        await served.store.queue(second)

        for id in (first, second):
            assert (await served.until(id, "completed"))["result"]["content"][0]["text"] == "done"
        assert runs == 2

        third = await served.begin()
        await trio.sleep(1)
        await served.store.queue(third)
        error = (await served.until(third, "failed"))["error"]
        assert error["message"] == "the process that ran this task has ended, and the tool cannot be resumed"
        assert runs == 3


async def test_task_waits_for_the_store_of_side_effects(autojump_clock: MockClock) -> None:
    till = Till()
    till.go_on.set()
    effects = memory_stores(bus=MemoryBus()).effects
    assert effects is not None
    faulty = Faulty(effects, failing={"claim"})

    async def work(ctx: Context) -> str:
        return f"receipt {await ctx.once(till.charge, 'ann', key='charge')}"

    async with site(work, effects=faulty) as served:
        id = await served.begin()
        await trio.sleep(30)
        assert (await served.until(id, "working"), till.charges)[1] == []
        faulty.failing.clear()
        completed = await served.until(id, "completed")
        assert completed["result"]["content"][0]["text"].startswith("receipt ")
        assert len(till.charges) == 1


async def test_call_that_becomes_a_task_waits_for_the_store_of_side_effects(autojump_clock: MockClock) -> None:
    """It becomes a task while its side effect waits for the store, which then fails."""

    class Slow(Faulty):
        async def claim(self, call: str, key: str) -> EffectClaim:
            await trio.sleep(20)
            return await Faulty.claim(self, call, key)

    till = Till()
    till.go_on.set()
    effects = memory_stores(bus=MemoryBus()).effects
    assert effects is not None
    slow = Slow(effects, failing={"claim"})

    async def work(ctx: Context) -> str:
        return f"{await ctx.ask('sure?', str)} {await ctx.once(till.charge, 'ann', key='charge')}"

    async with site(work, effects=slow, task="optional") as served:
        asking = await served.ask("tools/call", name="it", arguments={})
        answers = {key: accept("yes") for key in asking["inputRequests"]}
        retry = {"inputResponses": answers, "requestState": asking["requestState"]}
        id = (await served.ask("tools/call", name="it", arguments={}, **retry))["taskId"]
        await trio.sleep(30)
        slow.failing.clear()
        completed = await served.until(id, "completed")
        assert completed["result"]["content"][0]["text"].startswith("yes ")
        assert len(till.charges) == 1


async def test_what_is_too_large_for_the_store_fails_the_task_with_a_reason(autojump_clock: MockClock) -> None:
    async def work(ctx: Context, padding: str, result: int = 0, question: int = 0, error: int = 0) -> str:
        if question:
            await ctx.ask("q" * question, str)
        if error:
            ctx.task.set_status("s" * 1000)
        return "r" * result

    async with site(work, bounds=StoreBounds(task_bytes=20_000)) as served:
        for arguments in ({"result": 30_000}, {"question": 30_000}):
            # Without its parameters, the record has room for the reason.
            id = await served.begin(padding="p" * 18_900, **arguments)
            failed = await served.until(id, "failed")
            assert "the data of a task are too large: at most 20000 bytes, got " in failed["error"]["message"]
            assert "inputRequests" not in failed
        id = await served.begin(padding="p" * 18_000, result=18_000)
        assert len((await served.until(id, "completed"))["result"]["content"][0]["text"]) == 18_000


async def test_task_of_another_version_is_left_and_the_server_continues(autojump_clock: MockClock) -> None:
    """Two versions share a store during an update, so one may claim or follow what it cannot read."""

    async def work() -> str:
        await trio.sleep_forever()
        raise AssertionError

    async with site(work) as served:
        for at, data in enumerate((b'{"v": 2}', b'{"v": 1, "novelty": true}')):
            await served.store.create(TaskRecord(id=f"new {at}", tool="it", state=TaskState.QUEUED, data=data))
        claimed = await served.begin()
        record = await served.store.load(claimed)
        assert record is not None
        request = {**TaskDocument.decode(record.data).request, "capabilities": {"elicitation": 5}}
        await served.store.change(claimed, request=request)
        await served.store.queue(claimed)
        followed = await served.begin()
        meta = {**envelope(), **CAPABILITIES}
        listen = {"notifications": {"taskIds": [followed]}, "_meta": meta}
        await served.client.send(Request("listen", "subscriptions/listen", listen))
        await trio.sleep(1)
        record = await served.store.load(followed)
        assert record is not None
        assert await served.store.save(evolve(record, data=b'{"v": 2}')) is not None
        await trio.sleep(10)

        left = [await served.store.load(id) for id in ("new 0", "new 1", claimed)]
        assert [each.state for each in left if each is not None] == 3 * [TaskState.RUNNING]
        assert (await served.until(await served.begin(), "working"))["status"] == "working"
