"""Per-request revisions over real sockets: statuses, forms of the response, disconnects."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
import trio

from mcptrio.http.engine.limits import ConnectionLimits
from mcptrio.serving import HTTPLimits
from tests.error_codes import INVALID_PARAMS, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION

from .conftest import ACCEPT, MODERN, Starter, call, modern_headers
from .web import eventually


def raw(message: dict[str, Any], **headers: str) -> bytes:
    body = json.dumps(message).encode()
    lines = {"host": "localhost", "content-type": "application/json", "content-length": str(len(body))}
    head = "".join(f"{k}: {v}\r\n" for k, v in (lines | modern_headers(message, **headers)).items())
    return b"POST /mcp HTTP/1.1\r\n" + head.encode() + b"\r\n" + body


async def test_quick_response_is_plain_json(start: Starter) -> None:
    server = await start()
    response = await server.client.modern("echo", {"text": "hi"}, id="seven")

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in response.headers
    assert response.json() == {"jsonrpc": "2.0", "id": "seven", "result": {"echo": {"text": "hi"}}}


async def test_notification_before_the_response_starts_a_stream(start: Starter) -> None:
    server = await start()
    response = await server.client.modern("progress", {"steps": 2})

    assert response.headers["content-type"] == "text/event-stream"
    assert response.headers["cache-control"] == "no-cache, no-transform"
    assert response.headers["x-accel-buffering"] == "no"
    data = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]
    assert [d.get("params", {}).get("progress") for d in data[:2]] == [0, 1]
    assert data[2]["result"] == {"done": True}
    assert "id: " not in response.text


async def test_coalesced_notification_starts_a_stream(start: Starter) -> None:
    server = await start()
    response = await server.client.modern("offer")

    data = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]
    assert [d.get("params") for d in data] == [{"progress": 1}, {"progress": 2}, None]


async def test_client_without_event_streams_gets_json(start: Starter) -> None:
    server = await start()
    response = await server.client.modern("progress", accept="application/json")

    assert response.headers["content-type"] == "application/json"
    assert response.json()["result"] == {"done": True}


async def test_client_without_json_gets_an_event(start: Starter) -> None:
    server = await start()
    response = await server.client.modern("echo", accept="text/event-stream")

    assert response.headers["content-type"] == "text/event-stream"
    assert response.text.startswith("data: {")


async def test_slow_response_becomes_a_stream_with_keepalive_comments(start: Starter) -> None:
    server = await start(limits=HTTPLimits(keepalive_interval=0.05))
    message = call("slow", version=MODERN)
    async with server.client.stream("POST", message, **modern_headers(message)) as events:
        assert events.headers["content-type"] == "text/event-stream"
        results: list[Any] = []

        async def read() -> None:
            results.append(await events.next())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await eventually(lambda: events.comments >= 2)
            server.engine.go.set()
        (event,) = results
        assert event is not None
        assert event["data"]["result"] == {"slow": True}
        assert await events.next() is None


async def test_listen_stays_open_until_the_engine_ends_it(start: Starter) -> None:
    server = await start()
    message = call("x", version=MODERN) | {"method": "subscriptions/listen"}
    async with server.client.stream("POST", message, **modern_headers(message)) as events:
        first = await events.next()
        assert first is not None
        assert first["data"]["method"] == "notifications/subscriptions/acknowledged"
        server.engine.go.set()
        assert [e["data"]["result"] for e in await events.rest()] == [{}]


@pytest.mark.parametrize("tool", ["slow", "progress", "flood"])
async def test_disconnect_cancels_the_handler(start: Starter, tool: str) -> None:
    """The handler is usually cancelled within 10 ms.

    A server that noticed the disconnect only when it writes would need the 15 s of a keepalive.
    """
    server = await start()
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    await stream.send_all(raw(call(tool, {"wait": True}, version=MODERN)))
    await server.engine.started.wait()
    await stream.aclose()
    with trio.fail_after(10):
        await server.engine.was_cancelled.wait()


@pytest.mark.parametrize(
    ("method", "params", "status", "code"),
    [
        ("tools/call", {"name": "nope"}, 400, INVALID_PARAMS),
        ("unknown/method", {}, 404, METHOD_NOT_FOUND),
        ("initialize", {}, 404, METHOD_NOT_FOUND),
        ("ping", {}, 404, METHOD_NOT_FOUND),
    ],
)
async def test_error_response_has_its_own_status(
    start: Starter, method: str, params: dict[str, Any], status: int, code: int
) -> None:
    server = await start()
    message = call("x", id=5, version=MODERN)
    message["method"] = method
    message["params"] = params | {"_meta": message["params"]["_meta"]}
    response = await server.client.http.post("/mcp", json=message, headers=modern_headers(message))

    assert response.status_code == status
    assert response.json()["error"]["code"] == code
    assert response.json()["id"] == 5


async def test_error_for_an_unsupported_version_lists_the_supported_ones(start: Starter) -> None:
    server = await start()
    message = call("echo", version="v999.0.0")
    headers = modern_headers(message, mcp_protocol_version="v999.0.0")
    response = await server.client.http.post("/mcp", json=message, headers=headers)

    assert response.status_code == 400
    assert response.json()["error"]["code"] == UNSUPPORTED_PROTOCOL_VERSION
    assert MODERN in response.json()["error"]["data"]["supported"]


async def test_overload_gets_503(start: Starter) -> None:
    server = await start()
    server.engine.limit = 0
    response = await server.client.modern("echo", id=9)

    assert response.status_code == 503
    assert response.headers["retry-after"] == "7"
    assert response.json()["id"] == 9


async def test_notification_gets_202(start: Starter) -> None:
    server = await start()
    message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    headers = {"accept": ACCEPT, "mcp-protocol-version": MODERN}
    response = await server.client.http.post("/mcp", json=message, headers=headers)

    assert (response.status_code, response.content) == (202, b"")
    assert server.engine.notified == ["notifications/initialized"]


async def test_client_that_stops_reading_cancels_only_its_own_handler(start: Starter) -> None:
    """The handler waits when the outbox is full, and is cancelled when the write times out."""
    server = await start(connection=ConnectionLimits(write_timeout=0.3))
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    async with stream:
        await stream.send_all(raw(call("flood", version=MODERN)))
        await server.engine.started.wait()
        await trio.sleep(0.1)
        assert (await server.client.modern("echo")).status_code == 200
        with trio.fail_after(30):
            await server.engine.was_cancelled.wait()
    assert server.engine.sent * 10_000 < 50_000_000


async def test_concurrent_requests_get_their_own_responses(start: Starter) -> None:
    server = await start()
    server.client.http = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=60)
    got: set[int] = set()

    async def one(n: int) -> None:
        response = await server.client.modern("progress" if n % 2 else "echo", {"n": n}, id=n)
        assert f'"id":{n},' in response.text
        got.add(n)

    async with server.client.http, trio.open_nursery() as nursery:
        for n in range(60):
            nursery.start_soon(one, n)

    assert len(got) == 60
