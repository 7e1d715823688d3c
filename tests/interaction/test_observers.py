"""Events that observers of a server receive, and requests and sessions that an operator ends."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from mcptrio import Context, MCPError, PluginSetup, ToolError, hookimpl, tool
from mcptrio.serving import Observer, RequestEnded, ServerLimits, ServerSettings, SessionEnded, TaskEnded
from tests.error_codes import INTERNAL_ERROR
from tests.interaction.applies import HANDSHAKE, only
from tests.interaction.serving import Serve


class RecordingObserver:
    """Keeps the events that it receives."""

    def __init__(self) -> None:
        self.requests: list[RequestEnded] = []
        self.refused: list[tuple[str, str]] = []
        self.sessions: list[SessionEnded] = []
        self.tasks: list[TaskEnded] = []

    def request_ended(self, request: RequestEnded) -> None:
        self.requests.append(request)

    def request_refused(self, method: str, reason: str) -> None:
        self.refused.append((method, reason))

    def session_ended(self, session: SessionEnded) -> None:
        self.sessions.append(session)

    def task_ended(self, task: TaskEnded) -> None:
        self.tasks.append(task)

    def calls(self) -> list[RequestEnded]:
        return [each for each in self.requests if each.method == "tools/call"]


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
async def fail() -> str:
    """Fail."""
    raise ToolError("no luck")


@tool
async def refuse() -> str:
    """Refuse."""
    raise MCPError("not today", code=-32050)


@tool(timeout=0.2)
async def late() -> str:
    """Take too long."""
    await trio.sleep(60)
    return ""


@tool
async def wait() -> str:
    """Wait."""
    await trio.sleep(600)
    return ""


@tool
async def ask(ctx: Context) -> str:
    """Ask."""
    return str(len(await ctx.list_roots()))


async def test_observer_is_notified_how_each_request_ends(serve: Serve) -> None:
    peer = await serve(add, fail, refuse, late)
    observer: Observer = (watching := RecordingObserver())
    forget = serve.server.add_observer(observer)

    await peer.call("add", {"a": 1, "b": 2})
    await peer.call("fail")
    for name in ("refuse", "late"):
        await (await peer.start_call(name)).wait()
    await peer.eventually(lambda: len(watching.calls()) == 4)
    forget()
    await peer.call("add", {"a": 1, "b": 2})

    calls = watching.calls()
    assert [(each.label, each.outcome, each.code) for each in calls] == [
        ("add", "result", None),
        ("fail", "tool_error", None),
        ("refuse", "error", -32050),
        ("late", "timeout", INTERNAL_ERROR),
    ]
    assert calls[2].message == "not today"
    assert calls[3].seconds == pytest.approx(0.2, abs=5)
    assert {each.revision for each in calls} == {serve.revision}
    assert {each.plugin for each in calls} == {"SimpleNamespace"}
    assert {each.principal for each in calls} == {None}


async def test_observer_is_notified_of_a_cancelled_request(serve: Serve) -> None:
    peer = await serve(wait)
    watching = RecordingObserver()
    serve.server.add_observer(watching)
    call = await peer.start_call("wait")
    await peer.eventually(lambda: serve.server.status.working == 1)
    await call.cancel()
    await peer.eventually(lambda: bool(watching.calls()))

    assert watching.calls()[0].outcome == "cancelled"
    assert watching.calls()[0].message


async def test_observer_is_notified_of_a_question(serve: Serve) -> None:
    peer = await serve(ask, capabilities={"roots": {}})
    watching = RecordingObserver()
    serve.server.add_observer(watching)
    call = await peer.start_call("ask")
    if peer.handshake:
        question = await peer.until("roots/list")
        await peer.respond(question["id"], {"roots": []})
    await call.result()
    await peer.eventually(lambda: bool(watching.calls()))

    ended = watching.calls()[0]
    assert ended.outcome == ("result" if peer.handshake else "question")
    assert 0 <= ended.waited <= ended.seconds


async def test_observer_is_notified_of_a_refused_request(serve: Serve) -> None:
    peer = await serve(wait, settings=ServerSettings(limits=ServerLimits(requests=1)))
    watching = RecordingObserver()
    serve.server.add_observer(watching)
    call = await peer.start_call("wait")
    await peer.eventually(lambda: serve.server.status.working == 1)
    await (await peer.start("ping" if peer.handshake else "tools/list", {})).wait()

    assert [reason for _, reason in watching.refused] == ["requests"]
    await call.cancel()
    await peer.eventually(lambda: serve.server.status.in_flight == 0)


@only(revisions=HANDSHAKE, transports=("memory", "stdio"), because="other sessions end with their transport's close")
async def test_observer_is_notified_of_the_end_of_a_session(serve: Serve) -> None:
    peer = await serve(add)
    watching = RecordingObserver()
    serve.server.add_observer(watching)
    (session,) = serve.server.status.sessions

    assert serve.server.end_session(session.number, "for a test") is True
    await peer.eventually(lambda: bool(watching.sessions))

    assert watching.sessions[0].number == session.number
    assert (watching.sessions[0].client, watching.sessions[0].revision) == ("raw", serve.revision)
    assert watching.sessions[0].reason == "for a test"
    assert serve.server.end_session(session.number, "again") is False


async def test_operator_cancels_a_request(serve: Serve) -> None:
    peer = await serve(wait)
    call = await peer.start_call("wait", id="w")
    await peer.eventually(lambda: serve.server.status.working == 1)
    (session,) = [each for each in serve.server.status.sessions if each.requests]

    assert serve.server.cancel_request(session.number, "other", "for a test") is False
    assert serve.server.cancel_request(session.number, "w", "for a test") is True

    response = await call.wait()
    assert response["error"]["message"] == "wait was cancelled: for a test"


async def test_failing_observer_is_removed(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(RecordingObserver):
        def request_ended(self, request: RequestEnded) -> None:
            raise ValueError("broken")

    peer = await serve(add)
    serve.server.add_observer(Broken())
    serve.server.add_observer(watching := RecordingObserver())
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            await peer.call("add", {"a": 1, "b": 2})
    await peer.eventually(lambda: len(watching.calls()) == 2)

    assert len([each for each in caplog.records if each.name == "mcptrio.observers"]) == 1


async def test_observer_of_a_plugin_leaves_with_it(serve: Serve) -> None:
    watching = RecordingObserver()

    @hookimpl
    def setup(server: PluginSetup) -> None:
        server.add_observer(watching)

    watcher: Any = SimpleNamespace(__name__="watcher", setup=setup)
    peer = await serve(add, plugins=[watcher])
    await peer.call("add", {"a": 1, "b": 2})
    await peer.eventually(lambda: len(watching.calls()) == 1)
    await serve.server.disable_plugin("watcher")
    await peer.call("add", {"a": 1, "b": 2})

    assert len(watching.calls()) == 1
