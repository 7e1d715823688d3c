"""Tasks of servers: one approval a call, questions as in any call, the task in the audit record, and cancellation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from mcptrio import Context, Host, MCPError, Server, tool
from mcptrio.client import Form, Handlers
from mcptrio.host import ApprovalRequest, AuditFile, AuditRecord, HostChange, HostChanges
from tests.host.scripted import text_of

__all__: list[str] = []


class Site:
    """A plugin whose calls become tasks."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    @tool(task="required", poll_interval=1)
    async def ask(self, ctx: Context) -> str:
        """Ask, after some time."""
        await trio.sleep(10)
        return f"Hello, {await ctx.ask('Who is there?', str)}"

    @tool(task="required", poll_interval=1)
    async def dig(self, ctx: Context) -> str:
        """Dig without end."""
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            self.ended.append(ctx.cancel_reason or "")
            raise
        return ""

    @tool(task="required", poll_interval=1)
    async def break_off(self) -> str:
        """Fail as the protocol does."""
        raise MCPError("no site")

    @tool
    async def walk(self) -> str:
        """End at once."""
        return "walked"


async def test_call_is_approved_once_and_recorded_with_its_task(autojump_clock: MockClock) -> None:
    requests: list[ApprovalRequest] = []
    records: list[AuditRecord] = []

    async def approve(request: ApprovalRequest) -> bool:
        requests.append(request)
        return True

    async def fill_in(form: Form) -> Any:
        return {"value": "Ada"}

    server = Server(plugins=[Site()])
    handlers = Handlers(elicit=fill_in)
    async with Host({"site": server}, approve=approve, audit=records.append, handlers=handlers) as host:
        assert text_of(await host.call_tool("site_ask")) == "Hello, Ada"
        await host.call_tool("site_walk")

    assert [request.kind for request in requests] == ["tool", "form", "tool"]
    form, ask, walk = records
    assert [(each.kind, each.outcome) for each in records] == [("form", "ok"), ("tool", "ok"), ("tool", "ok")]
    assert (ask.name, walk.name) == ("ask", "walk")
    assert ask.task_id is not None
    assert len(ask.task_id) >= 24
    assert ask.seconds >= 10
    assert form.task_id is walk.task_id is None


async def test_failed_task_is_an_error_with_its_task(autojump_clock: MockClock, tmp_path: Path) -> None:
    with AuditFile(tmp_path / "audit.jsonl") as audit:
        async with Host({"site": Server(plugins=[Site()])}, approve=None, audit=audit) as host:
            with pytest.raises(MCPError, match="no site"):
                await host.call_tool("site_break_off")
    [record] = map(json.loads, (tmp_path / "audit.jsonl").read_text().splitlines())

    assert (record["outcome"], record["detail"]) == ("error", "-32603: no site")
    assert len(record["task_id"]) >= 24


@pytest.mark.parametrize("leaves", ["the call", "the host"])
@pytest.mark.parametrize("attempt", range(3))
async def test_cancelled_call_cancels_its_task(leaves: str, attempt: int, autojump_clock: MockClock) -> None:
    """Trio wakes cancelled tasks in random order, so one attempt may succeed by chance."""
    site, records = Site(), list[AuditRecord]()
    server = Server(plugins=[site])
    async with server.open():
        with trio.move_on_after(5) as scope:
            async with Host({"site": server}, approve=None, audit=records.append) as host:
                with trio.move_on_after(3 if leaves == "the call" else 60):
                    await host.call_tool("site_dig")
                scope.cancel()
        await trio.testing.wait_all_tasks_blocked()

        assert site.ended == ["the client has cancelled the task"]
    assert [(each.outcome, each.task_id is None) for each in records] == [("cancelled", False)]


async def seen(changes: HostChanges, found: list[HostChange]) -> None:
    while True:
        change = await anext(changes)
        if change.kind != "server":
            found.append(change)


async def test_subscription_reports_the_states_of_a_task(autojump_clock: MockClock) -> None:
    results: list[HostChange] = []

    async def fill_in(form: Form) -> Any:
        await trio.sleep(5)
        return {"value": "Ada"}

    server = Server(plugins=[Site()])
    async with Host({"site": server}, approve=None, handlers=Handlers(elicit=fill_in)) as host:
        async with host.subscribe(tasks=True) as changes, host.subscribe(tools=True) as others:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(seen, changes, results)
                other: list[HostChange] = []
                nursery.start_soon(seen, others, other)
                await host.call_tool("site_ask")
                await host.call_tool("site_walk")
                with pytest.raises(MCPError):
                    await host.call_tool("site_break_off")
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()

    tasks = [each.task for each in results if each.task is not None]
    assert [(each.server, each.kind) for each in results] == [("site", "task")] * len(tasks)
    assert [(each.tool, each.status, each.has_ended) for each in tasks] == [
        ("site_ask", "working", False),
        ("site_ask", "input_required", False),
        ("site_ask", "working", False),
        ("site_ask", "completed", True),
        ("site_break_off", "working", False),
        ("site_break_off", "failed", True),
    ]
    assert (len({each.id for each in tasks}), tasks[-1].message) == (2, "no site")
    assert other == []


async def test_task_of_a_cancelled_call_is_over(autojump_clock: MockClock) -> None:
    async with Host({"site": Server(plugins=[Site()])}, approve=None) as host:
        async with host.subscribe(tasks=True) as changes:
            with trio.move_on_after(5):
                await host.call_tool("site_dig")
            # Only the newest state of a task is kept until it is read.
            while (change := await anext(changes)).kind == "server":
                pass

    assert change.task is not None
    assert (change.task.status, change.task.has_ended) == ("working", True)
