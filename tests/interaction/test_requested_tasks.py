"""Tasks of 2025-11-25, which the client asks for, and the tools that take their place for clients without tasks."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
import trio

from mcptrio import Context, PluginSetup, Server, hookimpl, tool
from mcptrio.abc import Principal
from tests.error_codes import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from tests.interaction.applies import HANDSHAKE, MODERN, only, without
from tests.interaction.client import Peer
from tests.interaction.serving import Serve
from tests.interaction.test_tasks import NAME, TASKS, Site, accept

T = TypeVar("T")
OLD = HANDSHAKE[3:]
ONLY = "the client asks for tasks in 2025-11-25 only"
RELATED = "io.modelcontextprotocol/related-task"
STATUS = "notifications/tasks/status"
CAPABLE: dict[str, Any] = {"tasks": {}, "elicitation": {}}
FORMS = {"elicitation/create": lambda params: accept(f"who asked {params['message']}")}


class Digging(Site):
    """The tools of a site, and those for clients without tasks."""

    @tool(task="required", fallback_tools=True, poll_interval=3)
    async def drain(self, ctx: Context, depth: int) -> str:
        """Drain."""
        if depth > 5:
            name = (await ctx.ask("Who pays?", NAME))["name"]
            return f"{name} pays for {depth}"
        await self.go_on.wait()
        return f"drained {depth}"

    @tool
    async def look(self) -> str:
        """Look."""
        return "looked"


async def begin(peer: Peer, name: str, *, ttl: int | None = None, **arguments: Any) -> dict[str, Any]:
    """Return the task of a call that asks for one."""
    task = {} if ttl is None else {"ttl": ttl}
    created = await peer.request("tools/call", {"name": name, "arguments": arguments, "task": task})
    assert set(created) == {"task"}
    found: dict[str, Any] = created["task"]
    return found


async def get(peer: Peer, id: str) -> dict[str, Any]:
    return await peer.request("tasks/get", {"taskId": id})


async def poll(peer: Peer, ask: Callable[[], Awaitable[T]], wanted: Callable[[T], bool]) -> T:
    """Ask until the answer is as wanted, and return it."""
    with peer.deadline():
        while True:
            answer = await ask()
            if wanted(answer):
                return answer
            await trio.sleep(0.05)


async def until(peer: Peer, id: str, status: str) -> dict[str, Any]:
    """Return the state of a task once it has a status."""
    return await poll(peer, partial(get, peer, id), lambda state: bool(state["status"] == status))


def texts(result: dict[str, Any]) -> list[str]:
    return [block["text"] for block in result["content"]]


@only(revisions=OLD, because=ONLY)
async def test_client_asks_for_a_task_and_takes_its_result(serve: Serve) -> None:
    site = Site()
    peer = await serve(plugins=[site], capabilities=CAPABLE)

    created = await begin(peer, "dig")
    working = await get(peer, created["taskId"])
    waiting = await peer.start("tasks/result", {"taskId": created["taskId"]})
    await peer.eventually(lambda: site.started == 1)
    site.go_on.set()
    result = await waiting.result()
    completed = await get(peer, created["taskId"])

    assert (created["status"], created["ttl"], created["pollInterval"]) == ("working", 90_000, 500)
    assert working == created
    assert result == {"content": [{"type": "text", "text": "dug"}], "_meta": {RELATED: {"taskId": created["taskId"]}}}
    assert {**completed, "lastUpdatedAt": ""} == {**created, "status": "completed", "lastUpdatedAt": ""}
    assert await peer.request("tasks/result", {"taskId": created["taskId"]}) == result


@only(revisions=OLD, because=ONLY)
async def test_capability_and_support_of_each_tool_are_declared(serve: Serve) -> None:
    peer = await serve(plugins=[Digging()], capabilities=CAPABLE)
    assert peer.initialized is not None

    capabilities = peer.initialized["capabilities"]
    listed = {each["name"]: each.get("execution") for each in (await peer.request("tools/list"))["tools"]}

    assert capabilities["tasks"] == {"cancel": {}, "requests": {"tools": {"call": {}}}}
    assert "extensions" not in capabilities
    assert (listed["dig"], listed["build"]) == ({"taskSupport": "required"}, {"taskSupport": "optional"})
    assert listed["look"] is None


@only(revisions=OLD, because=ONLY)
async def test_calls_are_plain_unless_the_client_asks(serve: Serve) -> None:
    site = Digging()
    site.go_on.set()
    peer = await serve(plugins=[site], capabilities=CAPABLE)

    assert await peer.text("build") == "built"
    assert await peer.text("look") == "looked"
    required = await peer.error("tools/call", {"name": "dig", "arguments": {}})
    never = await peer.error("tools/call", {"name": "look", "arguments": {}, "task": {}})

    assert required == {
        "code": METHOD_NOT_FOUND,
        "message": "tool `dig` always runs as a task: add the parameter `task`",
    }
    assert never == {
        "code": METHOD_NOT_FOUND,
        "message": "tool `look` never runs as a task: omit the parameter `task`",
    }


@only(revisions=OLD, because=ONLY)
async def test_server_without_tasks_ignores_the_wish_for_one(serve: Serve) -> None:
    async def look() -> str:
        """Look."""
        return "looked"

    peer = await serve(tool(look))

    result = await peer.request("tools/call", {"name": "look", "arguments": {}, "task": {"ttl": 5}})

    assert texts(result) == ["looked"]
    assert (await peer.error("tasks/get", {"taskId": "x"}))["code"] == METHOD_NOT_FOUND


@only(revisions=OLD, because=ONLY)
async def test_optional_tool_becomes_a_task_if_asked(serve: Serve) -> None:
    site = Site()
    peer = await serve(plugins=[site], capabilities=CAPABLE)

    created = await begin(peer, "build", ttl=5000)
    site.go_on.set()

    assert created["ttl"] == 5000
    assert texts(await peer.request("tasks/result", {"taskId": created["taskId"]})) == ["built"]


@pytest.mark.parametrize(("asked", "given"), [(0, 1000), (-1, 1000), (10**18, 90_000)])
@only(revisions=OLD, because=ONLY)
async def test_ttl_of_the_client_is_bounded(serve: Serve, asked: int, given: int) -> None:
    peer = await serve(plugins=[Site()], capabilities=CAPABLE)

    assert (await begin(peer, "dig", ttl=asked))["ttl"] == given


@only(revisions=OLD, because=ONLY)
async def test_questions_are_asked_while_the_client_waits_for_the_result(serve: Serve) -> None:
    peer = await serve(plugins=[Site()], capabilities=CAPABLE, answers=FORMS)
    id = (await begin(peer, "ask"))["taskId"]
    await until(peer, id, "input_required")
    assert peer.asked == []

    result = await peer.request("tasks/result", {"taskId": id})

    assert texts(result) == ["who asked Who is one? who asked Who is two? who asked Who is one?"]
    assert [params["_meta"] for _, params in peer.asked] == [{RELATED: {"taskId": id}}] * 3
    assert [params["message"] for _, params in peer.asked[2:]] == ["Who is one?"]


@only(revisions=OLD, because=ONLY)
async def test_client_that_waits_again_is_asked_again(serve: Serve) -> None:
    peer = await serve(plugins=[Digging()], capabilities=CAPABLE)
    id = (await begin(peer, "drain", depth=9))["taskId"]
    first = await peer.start("tasks/result", {"taskId": id})
    lost = await peer.until("elicitation/create")
    peer.answers.update(FORMS)

    second = await peer.request("tasks/result", {"taskId": id})

    assert texts(second) == ["who asked Who pays? pays for 9"]
    assert await first.result() == second
    assert (await peer.until("notifications/cancelled"))["params"]["requestId"] == lost["id"]


@only(revisions=OLD, because=ONLY)
async def test_refused_question_fails_the_task(serve: Serve) -> None:
    refusal = {"error": {"code": -1, "message": "not now"}}
    peer = await serve(plugins=[Digging()], capabilities=CAPABLE, answers={"elicitation/create": lambda _: refusal})
    id = (await begin(peer, "drain", depth=9))["taskId"]

    error = await peer.error("tasks/result", {"taskId": id})

    assert error == refusal["error"]
    assert (await get(peer, id))["statusMessage"] == "not now"


@only(revisions=OLD, because=ONLY)
async def test_status_is_sent_to_the_client_that_waits(serve: Serve) -> None:
    site = Site()
    peer = await serve(plugins=[site], capabilities=CAPABLE)
    id = (await begin(peer, "report"))["taskId"]
    waiting = await peer.start("tasks/result", {"taskId": id})
    await poll(peer, partial(get, peer, id), lambda state: "statusMessage" in state)
    site.go_on.set()
    await waiting.result()

    sent = peer.notes(STATUS)

    assert sent[-1] == await get(peer, id)
    assert (sent[-1]["status"], sent[-1]["statusMessage"]) == ("completed", "almost")


@only(revisions=OLD, because=ONLY)
async def test_failure_of_a_tool_is_a_failed_task(serve: Serve) -> None:
    peer = await serve(plugins=[Site()], capabilities=CAPABLE)
    refused, broken = [(await begin(peer, name))["taskId"] for name in ("refuse", "break_off")]

    result = await peer.request("tasks/result", {"taskId": refused})
    error = await peer.error("tasks/result", {"taskId": broken})

    assert (result["isError"], texts(result)) == (True, ["no stones left"])
    assert (await until(peer, refused, "failed"))["statusMessage"] == "no stones left"
    assert error == {"code": INTERNAL_ERROR, "message": "no site", "data": {"site": 3}}
    assert (await until(peer, broken, "failed"))["statusMessage"] == "no site"


@only(revisions=OLD, because=ONLY)
async def test_cancelled_task_is_cancelled_at_once_and_only_once(serve: Serve) -> None:
    site = Site()
    peer = await serve(plugins=[site], capabilities=CAPABLE)
    id = (await begin(peer, "dig"))["taskId"]
    await peer.eventually(lambda: site.started == 1)
    waiting = await peer.start("tasks/result", {"taskId": id})

    cancelled = await peer.request("tasks/cancel", {"taskId": id})
    again = await peer.error("tasks/cancel", {"taskId": id})

    assert (cancelled["taskId"], cancelled["status"]) == (id, "cancelled")
    assert again["code"] == INVALID_PARAMS
    assert "got one that is cancelled" in again["message"]
    assert (await waiting.error())["message"] == "the client has cancelled the task"
    await peer.eventually(lambda: site.ended == ["the client has cancelled the task"])
    assert (await get(peer, id))["status"] == "cancelled"


@only(revisions=OLD, because=ONLY)
async def test_cancelled_wait_leaves_the_task_running(serve: Serve) -> None:
    site = Site()
    peer = await serve(plugins=[site], capabilities=CAPABLE)
    id = (await begin(peer, "dig"))["taskId"]
    waiting = await peer.start("tasks/result", {"taskId": id})
    await peer.eventually(lambda: serve.server.status.in_flight == 1)

    await waiting.cancel()
    await peer.eventually(lambda: serve.server.status.in_flight == 0)
    site.go_on.set()

    assert (await until(peer, id, "completed"))["status"] == "completed"


@only(revisions=OLD, because=ONLY)
@without(transports=("http", "stdio"), because="the test sets the principal of each channel")
async def test_tasks_are_listed_for_their_principal_only(serve: Serve) -> None:
    await serve.start(plugins=[Site()])
    ada, eve = [
        await serve.connect(capabilities=CAPABLE, principal=Principal(subject=name, issuer="https://as.example"))
        for name in ("ada", "eve")
    ]
    ids = [(await begin(ada, "build"))["taskId"] for _ in range(3)]

    assert ada.initialized is not None
    assert ada.initialized["capabilities"]["tasks"]["list"] == {}
    page = await ada.request("tasks/list")
    assert [task["taskId"] for task in page["tasks"]] == ids
    assert page["tasks"][0] == await get(ada, ids[0])
    assert await ada.request("tasks/list", {"cursor": page["nextCursor"]}) == {"tasks": []}
    assert await eve.request("tasks/list") == {"tasks": []}
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        assert (await eve.error(method, {"taskId": ids[0]}))["code"] == INVALID_PARAMS
    assert (await eve.error("tasks/list", {"cursor": ids[0]}))["code"] == INVALID_PARAMS


@only(revisions=OLD, because=ONLY)
async def test_tasks_without_a_principal_are_not_listed(serve: Serve) -> None:
    peer = await serve(plugins=[Site()], capabilities=CAPABLE)

    error = await peer.error("tasks/list")

    assert error["code"] == METHOD_NOT_FOUND
    assert "expected a client with an identity" in error["message"]


@only(revisions=OLD, because=ONLY)
@without(transports=("stdio",), because="a channel has one client")
async def test_task_is_read_in_the_revision_of_each_client(serve: Serve) -> None:
    peer = await serve(plugins=[Site()], capabilities=CAPABLE, answers=FORMS)
    new = await serve.connect(revision=MODERN[0], capabilities={"extensions": {TASKS: {}}, "elicitation": {}})
    old_id = (await begin(peer, "refuse"))["taskId"]
    new_id = (await new.call("ask"))["taskId"]

    await until(peer, old_id, "failed")
    state = await new.request("tasks/get", {"taskId": old_id})
    result = await peer.request("tasks/result", {"taskId": new_id})

    assert (state["status"], state["result"]["resultType"]) == ("completed", "complete")
    assert "resultType" not in result
    assert texts(result) == ["who asked Who is one? who asked Who is two? who asked Who is one?"]


# --- clients without tasks

PLAIN = "clients without tasks, in every revision"


async def names(peer: Peer) -> list[str]:
    return [each["name"] for each in (await peer.request("tools/list"))["tools"]]


async def start(peer: Peer, **arguments: Any) -> str:
    match = re.search("with the id ([0-9a-f]{32})\\.", await peer.text("start_drain", arguments))
    assert match is not None
    return match[1]


async def settled(peer: Peer, id: str) -> str:
    """Return the text of drain_status once it is another one than that of running work."""
    return await poll(peer, partial(peer.text, "drain_status", {"id": id}), lambda text: text != "working")


async def test_fallback_tools_are_listed_for_clients_without_tasks(serve: Serve) -> None:
    await serve.start(plugins=[Digging()])
    several = serve.transport in ("memory", "http")
    plain = await serve.connect()
    modern = {"extensions": {TASKS: {}}}
    knows = await serve.connect(capabilities={"tasks": {}, **modern}) if several else None
    shows_tasks = plain.revision in (*OLD, *MODERN)

    for _ in range(2):
        assert {"start_drain", "drain_status"} <= set(await names(plain))
        assert "drain" not in await names(plain)
        if knows is not None:
            assert ("drain" in await names(knows)) is shows_tasks
            assert ("start_drain" in await names(knows)) is not shows_tasks
    listed = {each["name"]: each for each in (await plain.request("tools/list"))["tools"]}
    assert listed["start_drain"]["inputSchema"]["required"] == ["depth"]
    assert "drain_status" in listed["start_drain"]["description"]
    assert "execution" not in listed["start_drain"]


async def test_fallback_tools_start_a_task_and_show_its_result(serve: Serve) -> None:
    site = Digging()
    peer = await serve(plugins=[site])

    id = await start(peer, depth=3)
    assert await peer.text("drain_status", {"id": id}) == "working"
    site.go_on.set()

    assert await settled(peer, id) == "drained 3"
    if peer.revision not in HANDSHAKE[:3]:
        message = (await peer.error("tools/call", {"name": "drain", "arguments": {"depth": 3}}))["message"]
        assert message.endswith(", or call start_drain instead")


async def test_fallback_tools_are_refused_to_whom_their_tool_is_refused(serve: Serve) -> None:
    @hookimpl
    def setup(server: PluginSetup) -> None:
        server.add_authorizer(lambda component, principal: component.name != "drain")

    rules: Any = SimpleNamespace(__name__="rules", setup=setup)
    peer = await serve(plugins=[Digging(), rules])

    for name in ("start_drain", "drain_status", "drain"):
        refused = await peer.error("tools/call", {"name": name, "arguments": {}})
        assert refused["message"] == f"no such tool: `{name}`"


async def test_arguments_and_ids_of_fallback_tools_are_checked(serve: Serve) -> None:
    peer = await serve(plugins=[Digging()])

    assert "invalid arguments: " in await peer.failure("start_drain", {"depth": "deep"})
    assert "expected an id that start_drain has returned" in await peer.failure("drain_status", {"id": "x"})


async def test_fallback_tools_cancel_a_task(serve: Serve) -> None:
    peer = await serve(plugins=[Digging()])
    id = await start(peer, depth=3)

    await peer.call("drain_status", {"id": id, "cancel": True})

    result = await poll(peer, partial(peer.call, "drain_status", {"id": id}), lambda result: "isError" in result)
    assert texts(result) == ["cancelled: the client has cancelled the task"]


@without(revisions=HANDSHAKE[:2], because="no elicitation before 2025-06-18")
async def test_fallback_tools_pass_questions_on(serve: Serve) -> None:
    peer = await serve(plugins=[Digging()], capabilities={"elicitation": {}}, answers=FORMS)
    id = await start(peer, depth=9)

    text = await settled(peer, id)

    assert text == "who asked Who pays? pays for 9"
    assert [params["message"] for _, params in peer.asked] == ["Who pays?"]


@without(revisions=HANDSHAKE[:2], because="no elicitation before 2025-06-18")
@without(transports=("stdio",), because="a channel has one client")
async def test_fallback_tools_show_a_question_that_the_client_cannot_pass_on(serve: Serve) -> None:
    peer = await serve(plugins=[Digging()], capabilities={"elicitation": {}})
    other = await serve.connect()
    id = await start(peer, depth=9)

    text = await settled(other, id)

    assert text == "it waits for an answer from the user, but this client cannot ask the user: Who pays?"


async def test_fallback_tools_leave_with_their_tool(serve: Serve) -> None:
    async def dig() -> str:
        """Dig."""
        return "dug"

    peer = await serve()
    serve.server.add_tool(dig, task="required", fallback_tools=True)
    assert await names(peer) == ["start_dig", "dig_status"]

    serve.server.remove_tool("dig")

    assert await names(peer) == []
    assert (await peer.error("tools/call", {"name": "start_dig", "arguments": {}}))["code"] == INVALID_PARAMS


def test_fallback_tools_need_a_required_task() -> None:
    async def work() -> str:
        """Work."""
        return ""

    with pytest.raises(ValueError, match='expected task="required" with fallback_tools'):
        Server().add_tool(work, task="optional", fallback_tools=True)
