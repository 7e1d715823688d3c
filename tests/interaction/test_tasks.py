"""Tasks: calls that outlive their request, questions in them, their ends, and who may see them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import trio

from mcptrio import Context, Elicit, MCPError, Server, ToolError, tool
from mcptrio.abc import Principal
from mcptrio.serving import ServerLimits, Timeouts
from tests.error_codes import INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CLIENT_CAPABILITY
from tests.interaction.applies import HANDSHAKE, MODERN, only, without
from tests.interaction.client import SUBSCRIPTION_ID, Peer
from tests.interaction.serving import Serve

ONLY = "tasks are an extension of 2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"
CAPABLE: dict[str, Any] = {"extensions": {TASKS: {}}, "elicitation": {}}
QUICK = Timeouts(task_after=0.2)
NAME: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Site:
    """A plugin whose tools run until the test says so."""

    def __init__(self) -> None:
        self.go_on = trio.Event()
        self.started = 0
        self.most = 0
        self.running = 0
        self.ended: list[str] = []

    @tool(task="required", poll_interval=0.5, ttl=90)
    async def dig(self, ctx: Context) -> str:
        """Dig."""
        self.started += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.go_on.wait()
        except trio.Cancelled:
            self.ended.append(ctx.cancel_reason or "")
            raise
        finally:
            self.running -= 1
        return "dug"

    @tool(task="optional")
    async def build(self) -> str:
        """Build."""
        await self.go_on.wait()
        return "built"

    @tool(task="optional")
    async def ask_first(self, ctx: Context) -> str:
        """Ask in the call, then in the task."""
        first = await ctx.ask("Who?", NAME)
        await ctx.task.begin()
        second = await ctx.ask("And who?", NAME)
        return f"{first['name']} and {second['name']}, {ctx.task.id is not None}"

    @tool(task="required")
    async def ask(self, ctx: Context) -> str:
        """Ask two at once, then one more."""
        one, two = await ctx.ask_all(_who("one"), _who("two"))
        three = await ctx.ask("Who is one?", NAME)
        return " ".join(each["name"] for each in (one, two, three))

    @tool(task="required")
    async def report(self, ctx: Context) -> str:
        """Report."""
        await ctx.report_progress(1, 4, "stones")
        await self.go_on.wait()
        ctx.task.set_status("almost")
        return "reported"

    @tool(task="required")
    async def refuse(self) -> str:
        """Refuse as a tool does."""
        raise ToolError("no stones left")

    @tool(task="required")
    async def break_off(self) -> str:
        """Refuse as the protocol does."""
        raise MCPError("no site", data={"site": 3})

    @tool(task="required")
    def dig_in_thread(self) -> str:
        """Work without async."""
        return "dug in a thread"

    @tool(task="required", concurrency=1)
    async def dig_alone(self) -> str:
        """Work alone."""
        self.running += 1
        self.most = max(self.most, self.running)
        await trio.sleep(0.05)
        self.running -= 1
        return "dug alone"

    @tool(task="required", timeout=0.2)
    async def dig_in_time(self) -> str:
        """Work against the clock."""
        await trio.sleep_forever()
        raise AssertionError


def _who(name: str) -> Any:
    return Elicit(f"Who is {name}?", NAME)


def accept(name: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"name": name}}


async def begin(peer: Peer, name: str) -> dict[str, Any]:
    """Return the task of a call."""
    created = await peer.call(name)
    assert created["resultType"] == "task", created
    return created


async def get(peer: Peer, id: str) -> dict[str, Any]:
    return await peer.request("tasks/get", {"taskId": id})


async def until(peer: Peer, id: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return the state of a task once it is as wanted."""
    with peer.deadline():
        while True:
            state = await get(peer, id)
            if wanted(state):
                return state
            await trio.sleep(0.05)


async def ended(peer: Peer, id: str) -> dict[str, Any]:
    return await until(peer, id, lambda state: state["status"] in ("completed", "failed", "cancelled"))


async def asked(peer: Peer, id: str, count: int = 1) -> dict[str, Any]:
    """Return the open questions of a task by message: their keys."""
    state = await until(peer, id, lambda state: len(state.get("inputRequests", {})) == count)
    assert state["status"] == "input_required"
    return {question["params"]["message"]: key for key, question in state["inputRequests"].items()}


async def answer(peer: Peer, id: str, answers: dict[str, Any]) -> None:
    result = await peer.request("tasks/update", {"taskId": id, "inputResponses": answers})
    assert {**result, "_meta": None} == {"resultType": "complete", "_meta": None}


@only(revisions=MODERN, because=ONLY)
async def test_required_task_is_created_at_once_and_completed_later(serve: Serve) -> None:
    site = Site()
    peer = await serve(plugins=[site], capabilities=CAPABLE)

    created = await begin(peer, "dig")
    working = await get(peer, created["taskId"])
    site.go_on.set()
    completed = await ended(peer, created["taskId"])

    assert (created["status"], created["ttlMs"], created["pollIntervalMs"]) == ("working", 90_000, 500)
    assert len(created["taskId"]) >= 24
    assert "result" not in created
    assert working["resultType"] == "complete"
    assert working["createdAt"] == created["createdAt"] <= completed["lastUpdatedAt"]
    assert completed["status"] == "completed"
    assert completed["result"]["resultType"] == "complete"
    assert completed["result"]["content"] == [{"type": "text", "text": "dug"}]


@only(revisions=MODERN, because=ONLY)
async def test_extension_is_declared_if_a_tool_has_tasks(serve: Serve) -> None:
    async def plain() -> str:
        """No task."""
        return ""

    peer = await serve(tool(plain), capabilities=CAPABLE)
    before = await peer.request("server/discover")
    assert (await peer.error("tasks/get", {"taskId": "x"}))["code"] == METHOD_NOT_FOUND
    serve.server.add_tool(plain, name="slow", task="optional")
    after = await peer.request("server/discover")

    assert "extensions" not in before["capabilities"]
    assert after["capabilities"]["extensions"] == {TASKS: {}}


@only(revisions=MODERN, because=ONLY)
async def test_optional_task_is_created_only_for_a_long_call(serve: Serve) -> None:
    site = Site()
    peer = await serve(plugins=[site], capabilities=CAPABLE, timeouts=QUICK)

    long = await begin(peer, "build")
    site.go_on.set()
    result = (await ended(peer, long["taskId"]))["result"]
    short = await peer.call("build")

    assert short["resultType"] == "complete"
    assert short["content"] == result["content"] == [{"type": "text", "text": "built"}]


@only(revisions=MODERN, because=ONLY)
async def test_client_without_tasks_gets_the_result_or_an_error(serve: Serve) -> None:
    site = Site()
    site.go_on.set()
    peer = await serve(plugins=[site])

    assert await peer.text("build") == "built"
    required = {"extensions": {TASKS: {}}}
    for method, params in (
        ("tools/call", {"name": "dig", "arguments": {}}),
        ("tasks/get", {"taskId": "x"}),
        ("tasks/update", {"taskId": "x", "inputResponses": {}}),
        ("tasks/cancel", {"taskId": "x"}),
        ("subscriptions/listen", {"notifications": {"taskIds": ["x"]}}),
    ):
        error = await peer.error(method, params)
        assert (error["code"], error["data"]["requiredCapabilities"]) == (MISSING_CLIENT_CAPABILITY, required), method
    assert site.started == 0


@only(revisions=HANDSHAKE[:3], because="older revisions have no tasks")
async def test_handshake_clients_get_plain_calls(serve: Serve) -> None:
    site = Site()
    site.go_on.set()
    peer = await serve(plugins=[site], capabilities=CAPABLE)

    assert await peer.text("build") == "built"
    error = await peer.error("tools/call", {"name": "dig", "arguments": {}})
    assert "needs a client of 2026-07-28 with the extension io.modelcontextprotocol/tasks" in error["message"]
    assert (await peer.error("tasks/get", {"taskId": "x"}))["code"] == METHOD_NOT_FOUND


@only(revisions=MODERN, because=ONLY)
async def test_questions_before_the_task_are_asked_in_round_trips(serve: Serve) -> None:
    peer = await serve(plugins=[Site()], capabilities=CAPABLE)
    asking = await peer.call("ask_first")
    [(key, question)] = asking["inputRequests"].items()
    assert (asking["resultType"], question["params"]["message"]) == ("input_required", "Who?")

    params = {"name": "ask_first", "arguments": {}, "requestState": asking["requestState"]}
    created = await peer.request("tools/call", {**params, "inputResponses": {key: accept("Ada")}})
    assert (created["resultType"], "requestState" in created) == ("task", False)
    keys = await asked(peer, created["taskId"])
    await answer(peer, created["taskId"], {keys["And who?"]: accept("Eve")})
    completed = await ended(peer, created["taskId"])

    assert completed["result"]["content"][0]["text"] == "Ada and Eve, True"


@only(revisions=MODERN, because=ONLY)
async def test_answers_may_come_one_by_one_and_count_once(serve: Serve) -> None:
    peer = await serve(plugins=[Site()], capabilities=CAPABLE)
    id = (await begin(peer, "ask"))["taskId"]
    keys = await asked(peer, id, 2)

    await answer(peer, id, {keys["Who is one?"]: accept("Ada"), "unknown": accept("Eve")})
    assert await asked(peer, id) == {"Who is two?": keys["Who is two?"]}
    await answer(peer, id, {keys["Who is one?"]: accept("Mallory")})
    await answer(peer, id, {keys["Who is two?"]: accept("Bob")})
    third = await asked(peer, id)
    assert not set(third.values()) & set(keys.values()), "a key is never used twice, for an equal question neither"
    await answer(peer, id, {third["Who is one?"]: accept("Joe")})

    assert (await ended(peer, id))["result"]["content"][0]["text"] == "Ada Bob Joe"


@only(revisions=MODERN, because=ONLY)
async def test_answer_that_does_not_fit_ends_the_task(serve: Serve) -> None:
    peer = await serve(plugins=[Site()], capabilities=CAPABLE)
    id = (await begin(peer, "ask"))["taskId"]
    keys = await asked(peer, id, 2)

    await answer(peer, id, {keys["Who is one?"]: {"action": "accept", "content": {"name": 7}}})
    failed = await ended(peer, id)

    assert (failed["status"], failed["error"]["code"]) == ("failed", INVALID_PARAMS)
    assert "inputRequests" not in failed


@only(revisions=MODERN, because=ONLY)
async def test_cancelled_task_ends_and_its_handler_too(serve: Serve) -> None:
    site = Site()
    peer = await serve(plugins=[site], capabilities=CAPABLE)
    for name in ("dig", "ask"):
        id = (await begin(peer, name))["taskId"]
        await until(peer, id, lambda state: site.started > 0 or state["status"] == "input_required")
        await peer.request("tasks/cancel", {"taskId": id})
        cancelled = await ended(peer, id)
        await peer.request("tasks/cancel", {"taskId": id})

        assert cancelled["status"] == "cancelled"
        assert await get(peer, id) == cancelled, "nothing changes after the end"
    await peer.eventually(lambda: site.ended == ["the client has cancelled the task"])


@only(revisions=MODERN, because=ONLY)
async def test_each_kind_of_failure_has_its_final_status(serve: Serve) -> None:
    peer = await serve(plugins=[Site()], capabilities=CAPABLE)

    refused = await ended(peer, (await begin(peer, "refuse"))["taskId"])
    broken = await ended(peer, (await begin(peer, "break_off"))["taskId"])
    late = await ended(peer, (await begin(peer, "dig_in_time"))["taskId"])
    in_thread = await ended(peer, (await begin(peer, "dig_in_thread"))["taskId"])

    assert (refused["status"], refused["result"]["isError"]) == ("completed", True)
    assert refused["result"]["content"][0]["text"] == "no stones left"
    assert (broken["status"], broken["error"]["message"], broken["error"]["data"]) == ("failed", "no site", {"site": 3})
    assert late["status"] == "failed"
    assert "dig_in_time timed out after" in late["error"]["message"]
    assert in_thread["result"]["content"][0]["text"] == "dug in a thread"


@only(revisions=MODERN, because=ONLY)
async def test_progress_and_status_are_shown_as_text(serve: Serve) -> None:
    site = Site()
    peer = await serve(plugins=[site], capabilities=CAPABLE)
    id = (await begin(peer, "report"))["taskId"]

    await until(peer, id, lambda state: state.get("statusMessage") == "stones (1 of 4)")
    site.go_on.set()

    assert (await ended(peer, id))["statusMessage"] == "almost"
    assert peer.notes("notifications/progress") == []


@only(revisions=MODERN, because=ONLY)
async def test_subscribers_get_each_task_in_full(serve: Serve) -> None:
    site = Site()
    peer = await serve(plugins=[site], capabilities=CAPABLE)
    id = (await begin(peer, "dig"))["taskId"]
    listening = await peer.start("subscriptions/listen", {"notifications": {"taskIds": [id, "unknown"]}})
    acknowledged = await peer.until("notifications/subscriptions/acknowledged")
    first = await peer.until("notifications/tasks")

    site.go_on.set()
    last = await peer.until(lambda message: (message.get("params") or {}).get("status") == "completed")

    assert acknowledged["params"]["notifications"] == {"taskIds": [id]}
    assert first["params"]["status"] == "working"
    expected = await get(peer, id)
    del expected["resultType"], expected["_meta"]
    assert last["params"] == {**expected, "_meta": {SUBSCRIPTION_ID: listening.id}}
    await listening.cancel()


@only(revisions=MODERN, because=ONLY)
@without(transports=("http", "stdio"), because="the test sets the principal of each channel")
async def test_task_belongs_to_its_principal(serve: Serve) -> None:
    site = Site()
    await serve.start(plugins=[site])
    ada, eve = [
        await serve.connect(capabilities=CAPABLE, principal=Principal(subject=name, issuer="https://as.example"))
        for name in ("ada", "eve")
    ]
    id = (await begin(ada, "dig"))["taskId"]

    for method, more in (("tasks/get", {}), ("tasks/cancel", {}), ("tasks/update", {"inputResponses": {}})):
        error = await eve.error(method, {"taskId": id, **more})
        assert (error["code"], error["message"]) == (
            INVALID_PARAMS,
            f"taskId: no task with this id, or it has expired or belongs to another user: {id!r}",
        )
    site.go_on.set()
    assert (await ended(ada, id))["status"] == "completed"


@only(revisions=MODERN, because=ONLY)
async def test_task_survives_the_end_of_its_client(serve: Serve) -> None:
    site = Site()
    peer = await serve(plugins=[site], capabilities=CAPABLE)
    id = (await begin(peer, "dig"))["taskId"]
    if serve.transport == "memory":
        await peer.leave()
    other = await serve.connect(capabilities=CAPABLE) if serve.transport in ("memory", "http") else peer

    site.go_on.set()

    assert (await ended(other, id))["status"] == "completed"


@only(revisions=MODERN, because=ONLY)
async def test_running_tasks_are_bounded_and_in_the_status(serve: Serve) -> None:
    site = Site()
    peer = await serve(plugins=[site], capabilities=CAPABLE, limits=ServerLimits(tasks=2))
    ids = [(await begin(peer, "dig"))["taskId"] for _ in range(5)]

    await peer.eventually(lambda: site.started == 2)
    assert [task.label for task in serve.server.status.tasks] == ["dig", "dig"]
    site.go_on.set()
    for id in ids:
        assert (await ended(peer, id))["status"] == "completed"

    assert (site.started, site.most) == (5, 2)
    await peer.eventually(lambda: serve.server.status.tasks == ())


@only(revisions=MODERN, because=ONLY)
async def test_concurrency_of_a_tool_holds_for_its_tasks(serve: Serve) -> None:
    site = Site()
    peer = await serve(plugins=[site], capabilities=CAPABLE)
    ids = [(await begin(peer, "dig_alone"))["taskId"] for _ in range(4)]

    for id in ids:
        assert (await ended(peer, id))["status"] == "completed"
    assert site.most == 1


@only(revisions=MODERN, because=ONLY)
@without(transports=("http", "stdio"), because="only a mock clock reaches the expiry of a task")
async def test_task_ends_after_its_life_and_is_forgotten(serve: Serve) -> None:
    site = Site()
    peer = await serve(plugins=[site], capabilities=CAPABLE)
    id = (await begin(peer, "dig"))["taskId"]

    await trio.sleep(91)
    assert (await get(peer, id))["error"]["message"] == "dig timed out after 90 s"
    await trio.sleep(61)
    assert (await peer.error("tasks/get", {"taskId": id}))["code"] == INVALID_PARAMS


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"task": "sometimes"}, "sometimes"),
        ({"ttl": 5.0}, 'expected task="optional" or "required" with ttl or resumable, got "never"'),
        ({"task": "optional", "ttl": float("inf")}, "ttl"),
        ({"task": "optional", "poll_interval": 0}, "poll_interval"),
    ],
)
def test_options_of_tasks_are_checked(options: dict[str, Any], expected: str) -> None:
    async def work() -> str:
        """Work."""
        return ""

    with pytest.raises(ValueError, match=re.escape(expected)):
        Server().add_tool(work, **options)
