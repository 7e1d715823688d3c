"""Handshake sessions over real sockets: initialize, POST, GET, DELETE, expiry."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from mcptrio.abc import Principal
from mcptrio.errors import AuthorizationError
from mcptrio.protocol.messages import Notification
from mcptrio.serving import HTTPLimits
from mcptrio.stores.memory import MemorySessionStore
from tests.error_codes import INVALID_PARAMS, INVALID_REQUEST
from tests.function_guard import FunctionGuard

from .conftest import Starter, call
from .web import eventually

INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


async def test_initialize_opens_a_session(start: Starter) -> None:
    server = await start()
    response = await server.client.initialize()

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json()["result"] == {"protocolVersion": "2025-11-25"}
    id = response.headers["mcp-session-id"]
    assert id.isascii()
    assert len(id) >= 24
    record = await server.sessions.load(id)
    assert record is not None
    assert not record.initialized
    assert (await server.client.post(INITIALIZED)).status_code == 202
    record = await server.sessions.load(id)
    assert record is not None
    assert record.initialized


async def test_failed_initialize_leaves_no_session(start: Starter) -> None:
    server = await start()
    response = await server.client.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})

    assert "mcp-session-id" not in response.headers
    assert response.json()["error"]["code"] == INVALID_PARAMS
    assert server.engine.sessions == set()


async def test_initialize_in_a_session_is_refused(start: Starter) -> None:
    server = await start()
    await server.client.initialize()
    message = {"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    response = await server.client.post(message)

    assert response.status_code == 400
    assert response.json()["id"] == 3


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_quick_response_is_plain_json_in_every_revision(start: Starter, version: str) -> None:
    server = await start()
    await server.client.initialize(version)
    response = await server.client.post(call("echo", {"a": 1}))

    assert response.headers["content-type"] == "application/json"
    assert response.json()["result"] == {"echo": {"a": 1}}


async def test_request_without_an_existing_session_is_refused(start: Starter) -> None:
    server = await start()
    message = call("echo", id=4)
    missing = await server.client.post(message)
    unknown = await server.client.post(message, mcp_session_id="nope")

    assert (missing.status_code, missing.json()["id"]) == (400, 4)
    assert unknown.status_code == 404
    for method in ("GET", "DELETE"):
        headers = {"accept": "text/event-stream"}
        assert (await server.client.http.request(method, "/mcp", headers=headers)).status_code == 400
        headers["mcp-session-id"] = "nope"
        assert (await server.client.http.request(method, "/mcp", headers=headers)).status_code == 404


async def test_version_header_is_checked_if_present(start: Starter) -> None:
    server = await start()
    await server.client.initialize("2025-06-18")

    assert (await server.client.post(call("echo"), mcp_protocol_version="2025-06-18")).status_code == 200
    assert (await server.client.post(call("echo"))).status_code == 200
    refused = await server.client.post(call("echo"), mcp_protocol_version="1999-01-01")
    assert refused.status_code == 400


async def test_deleted_session_gets_404(start: Starter) -> None:
    server = await start()
    await server.client.initialize()
    headers = {"mcp-session-id": server.client.session or ""}

    assert (await server.client.http.delete("/mcp", headers=headers)).status_code == 204
    assert (await server.client.http.delete("/mcp", headers=headers)).status_code == 404
    assert (await server.client.post(call("echo"))).status_code == 404
    assert server.engine.sessions == set()


async def test_delete_ends_open_streams_and_cancels_requests(start: Starter) -> None:
    server = await start(limits=HTTPLimits(stream_delay=0.01))
    await server.client.initialize()
    headers = {"mcp-session-id": server.client.session or ""}
    ends: list[Any] = []

    async def post() -> None:
        async with server.client.stream("POST", call("slow")) as events:
            ends.append((await events.rest())[1:])

    async def get() -> None:
        async with server.client.stream("GET") as events:
            ends.append((await events.rest())[1:])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(post)
        nursery.start_soon(get)
        await server.engine.started.wait()
        (session,) = server.engine.sessions
        await session.attached.wait()
        await trio.sleep(0.1)
        with trio.fail_after(30):
            assert (await server.client.http.delete("/mcp", headers=headers)).status_code == 204

    assert ends == [[], []]
    assert server.engine.in_flight == 0
    assert server.events._sessions == {}


async def test_session_expires_when_idle(start: Starter) -> None:
    """The store determines the expiry; the periodic check drops the local part of the session."""
    server = await start(sessions=MemorySessionStore(idle_timeout=0.1))
    await server.client.initialize()
    await trio.sleep(0.15)

    assert (await server.client.post(call("echo"))).status_code == 404
    assert server.engine.sessions == set()


async def test_local_part_of_an_idle_session_is_released_and_the_session_continues(start: Starter) -> None:
    server = await start(limits=HTTPLimits(idle_timeout=0))
    await server.client.initialize()
    await server.app._sessions._expire_idle()
    assert server.engine.sessions == set()

    assert (await server.client.post(call("echo"))).status_code == 200
    assert len(server.engine.sessions) == 1


async def test_local_part_of_a_busy_session_is_not_released(start: Starter) -> None:
    server = await start(limits=HTTPLimits(idle_timeout=0))
    await server.client.initialize()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.client.post, call("slow"))
        await server.engine.started.wait()
        await server.app._sessions._expire_idle()
        assert len(server.engine.sessions) == 1
        server.engine.go.set()


async def test_changed_record_is_stored(start: Starter) -> None:
    server = await start()
    await server.client.initialize()
    message = {"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "debug"}}
    assert (await server.client.post(message)).json()["result"] == {}
    record = await server.sessions.load(server.client.session or "")

    assert record is not None
    assert record.log_level == "debug"


async def test_disconnect_does_not_cancel_the_request(start: Starter) -> None:
    server = await start()
    await server.client.initialize()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.client.post, call("slow"))
        await server.engine.started.wait()
        nursery.cancel_scope.cancel()
    await trio.sleep(0.1)
    assert server.engine.in_flight == 1
    server.engine.go.set()
    await eventually(lambda: server.engine.in_flight == 0)

    assert server.engine.cancelled == []


async def test_cancelled_request_gets_no_response(start: Starter) -> None:
    server = await start()
    await server.client.initialize()
    responses: list[Any] = []

    async def slow() -> None:
        responses.append(await server.client.post(call("slow", id=77)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(slow)
        await server.engine.started.wait()
        params = {"requestId": 77}
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        assert (await server.client.post(cancelled)).status_code == 202

    assert responses[0].status_code == 202
    assert len(server.engine.cancelled) == 1


async def test_server_request_is_sent_on_the_stream_of_its_call(start: Starter) -> None:
    server = await start()
    await server.client.initialize()
    async with server.client.stream("POST", call("ask")) as events:
        question = await events.next()
        while question is not None and question["data"] is None:
            question = await events.next()
        assert question is not None
        reply = {"jsonrpc": "2.0", "id": question["data"]["id"], "result": {"colour": "red"}}
        assert (await server.client.post(reply)).status_code == 202
        answer = await events.next()
        assert answer is not None
        assert answer["data"]["result"] == {"answer": {"colour": "red"}}
        assert await events.next() is None


async def test_server_request_to_a_client_without_event_streams_fails_at_once(start: Starter) -> None:
    server = await start()
    await server.client.initialize()
    with trio.fail_after(60):
        answer = await server.client.post(call("ask"), accept="application/json")

    assert answer.status_code == 200
    assert "text/event-stream" in answer.json()["result"]["answer"]["error"]


async def test_server_request_to_a_client_without_event_streams_uses_the_session_stream(start: Starter) -> None:
    server = await start()
    await server.client.initialize()
    answers = []

    async def ask() -> None:
        answers.append(await server.client.post(call("ask"), accept="application/json"))

    async with server.client.stream("GET") as events, trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        with trio.fail_after(60):
            question = await events.next()
            while question is not None and question["data"] is None:
                question = await events.next()
        assert question is not None
        reply = {"jsonrpc": "2.0", "id": question["data"]["id"], "result": {"colour": "red"}}
        assert (await server.client.post(reply)).status_code == 202

    assert answers[0].json()["result"] == {"answer": {"colour": "red"}}


async def test_get_stream_carries_messages_unrelated_to_requests(start: Starter) -> None:
    server = await start()
    await server.client.initialize()
    async with server.client.stream("GET") as events:
        priming = await events.next()
        assert priming is not None
        assert priming["data"] is None
        assert events.retry == 1000
        (session,) = server.engine.sessions
        await session.sinks[0].send(Notification("notifications/tools/list_changed"))
        event = await events.next()
        assert event is not None
        assert event["data"]["method"] == "notifications/tools/list_changed"


async def test_each_message_goes_to_the_newest_get_stream(start: Starter) -> None:
    """Several may be open, and no message is broadcast; when the newest closes, the one before it is used again."""
    server = await start()
    await server.client.initialize("2025-03-26")
    async with server.client.stream("GET") as old:
        (session,) = server.engine.sessions
        await session.attached.wait()
        async with server.client.stream("GET") as new:
            stream: Any = session.sinks[0]
            await eventually(lambda: len(stream.readers) == 2)
            await session.sinks[0].send(Notification("notifications/one"))
            event = await new.next()
            assert event is not None
            assert event["data"]["method"] == "notifications/one"
        await eventually(lambda: len(stream.readers) == 1)
        await session.sinks[0].send(Notification("notifications/two"))
        event = await old.next()
        assert event is not None
        assert event["data"]["method"] == "notifications/two"
    assert len(session.sinks) == 1


async def test_batch_is_answered_as_an_array(start: Starter) -> None:
    server = await start()
    await server.client.initialize("2025-03-26")
    response = await server.client.post([call("echo", id=1), INITIALIZED, call("echo", id=2)])

    assert [reply["id"] for reply in response.json()] == [1, 2]
    assert (await server.client.post([INITIALIZED, INITIALIZED])).status_code == 202


async def test_batch_is_refused_in_revisions_without_batches(start: Starter) -> None:
    server = await start()
    await server.client.initialize("2025-11-25")
    for batch in ([call("echo")], [INITIALIZED], [call("echo", id=1), call("echo", id=2)]):
        response = await server.client.post(batch)
        assert response.status_code == 400
        assert response.json()["error"]["code"] == INVALID_REQUEST


async def test_session_is_available_to_its_own_principal_only(start: Starter) -> None:
    def authenticate(headers: Any) -> Principal:
        name = headers.get("authorization", "")
        if not name:
            raise AuthorizationError("who are you?", challenge='Bearer realm="x"')
        if name == "weak":
            raise AuthorizationError("not enough", status=403, challenge='Bearer error="insufficient_scope"')
        return Principal(subject=name)

    server = await start(guard=FunctionGuard(authenticate))
    await server.client.initialize(authorization="alice")

    assert (await server.client.post(call("echo"), authorization="alice")).status_code == 200
    assert (await server.client.post(call("echo"), authorization="mallory")).status_code == 404
    anonymous = await server.client.post(call("echo"))
    assert anonymous.status_code == 401
    assert anonymous.headers["www-authenticate"] == 'Bearer realm="x"'
    assert (await server.client.post(call("echo"), authorization="weak")).status_code == 403


async def test_session_over_the_limit_gets_503(start: Starter) -> None:
    server = await start()
    server.engine.limit = 0
    response = await server.client.initialize()

    assert response.status_code == 503
    assert response.headers["retry-after"] == "3"


async def test_client_without_event_streams_gets_json(start: Starter) -> None:
    server = await start()
    await server.client.initialize()
    response = await server.client.post(call("progress"), accept="application/json")
    assert response.json()["result"] == {"done": True}
    only_events = await server.client.post(call("echo"), accept="text/event-stream")
    assert json.loads(only_events.text.rpartition("data: ")[2])["result"] == {"echo": {}}


async def test_modern_request_with_a_session_id_is_served_without_the_session(start: Starter) -> None:
    server = await start()
    await server.client.initialize()
    response = await server.client.modern("echo", mcp_session_id=server.client.session or "")

    assert response.status_code == 200
