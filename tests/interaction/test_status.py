"""The status of a server: plugins, sessions, and requests in both directions."""

from __future__ import annotations

import json

import pytest
import trio
from attrs import asdict

from mcptrio import Context, tool
from mcptrio.serving import (
    ParkedStatus,
    PluginStatus,
    QuestionStatus,
    RequestStatus,
    ServerStatus,
    SessionStatus,
    ThreadStatus,
)
from tests.interaction.applies import HANDSHAKE, only
from tests.interaction.serving import Serve


@tool(timeout=600)
async def work(ctx: Context) -> str:
    """Work, and report."""
    await ctx.report_progress(3, 10)
    await trio.sleep(30)
    return ""


@tool
async def ask(ctx: Context) -> str:
    """Ask."""
    return str(len(await ctx.list_roots()))


async def test_status_of_an_idle_server_is_empty(serve: Serve) -> None:
    await serve(work)

    status: ServerStatus = serve.server.status

    assert (status.name, status.version, status.ready) == ("tested", "7", True)
    assert (status.in_flight, status.draining, status.parked) == (0, False, ())
    assert status.threads == ThreadStatus(busy=0, limit=40)
    plugins: tuple[PluginStatus, ...] = status.plugins
    (plugin,) = plugins
    assert plugin.offers == {"tools": ("work",)}
    json.dumps(asdict(status))


async def test_status_shows_age_deadline_and_progress_of_a_request(serve: Serve) -> None:
    peer = await serve(work)
    call = await peer.start_call("work", id="w", meta={"progressToken": 1})
    await peer.until("notifications/progress")

    status = serve.server.status

    requests: list[RequestStatus] = [request for session in status.sessions for request in session.requests]
    (request,) = requests
    assert (request.id, request.method, request.label) == ("w", "tools/call", "work")
    assert (request.revision, request.plugin) == (serve.revision, "SimpleNamespace")
    assert (request.progress, request.total) == (3, 10)
    assert request.deadline is not None
    assert 500 < request.deadline <= 600
    assert 0 <= request.age < 100
    assert request.cancelled is None
    json.dumps(asdict(status))
    await call.cancel()
    await peer.eventually(lambda: serve.server.status.in_flight == 0)


@only(revisions=HANDSHAKE, because="2026-07-28 has no sessions with their own client")
async def test_status_of_a_session_shows_its_client(serve: Serve) -> None:
    await serve(work)

    sessions: tuple[SessionStatus, ...] = serve.server.status.sessions
    (session,) = sessions

    assert (session.client, session.revision, session.principal) == ("raw", serve.revision, None)


async def test_status_shows_a_pending_request_to_the_client(serve: Serve) -> None:
    peer = await serve(ask, capabilities={"roots": {}})
    call = await peer.start_call("ask")

    if peer.handshake:
        await peer.until("roots/list")
        status = serve.server.status
        (session,) = status.sessions
        assert session.requests[0].waiting_for_input is True
        questions: tuple[QuestionStatus, ...] = session.questions
        assert questions[0].method == "roots/list"
        await call.cancel()
        await peer.eventually(lambda: serve.server.status.in_flight == 0)
    else:
        result = await call.result()
        waiting: tuple[ParkedStatus, ...] = serve.server.status.parked
        (parked,) = waiting
        assert parked.label == "ask"
        assert parked.age == pytest.approx(0, abs=5)
        await (
            await peer.start(
                "tools/call",
                {
                    "name": "ask",
                    "requestState": result["requestState"],
                    "inputResponses": {key: {"roots": []} for key in result["inputRequests"]},
                },
            )
        ).result()
