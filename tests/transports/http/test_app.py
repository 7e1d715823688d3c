"""The endpoint before the protocol: paths, hosts, origins, limits, health."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio

from mcptrio.transports.http.app import HTTPApp
from mcptrio.transports.http.exchange import HTTPLimits
from mcptrio.transports.http.origins import OriginPolicy

from .conftest import EchoEngine, Server, Starter
from .web import eventually


async def status(server: Server, request: bytes) -> tuple[int, bytes]:
    """The status and everything that follows, for raw bytes."""
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    async with stream:
        await stream.send_all(request)
        got = b""
        with trio.fail_after(30):
            while b"\r\n\r\n" not in got:
                chunk = await stream.receive_some()
                assert chunk, got
                got += chunk
    return int(got[9:12]), got


def post(*headers: str, body: bytes = b"{}", length: int | None = None) -> bytes:
    lines = [
        "POST /mcp HTTP/1.1",
        "content-type: application/json",
        f"content-length: {len(body) if length is None else length}",
        *headers,
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


async def test_dns_rebinding_is_refused(start: Starter) -> None:
    server = await start()

    assert (await status(server, post("host: evil.example.com", "origin: http://evil.example.com")))[0] == 421
    assert (await status(server, post("host: localhost", "origin: http://evil.example.com")))[0] == 403
    assert (await status(server, post("host: localhost", "origin: null")))[0] == 403
    assert (await server.client.modern("echo", host="127.0.0.1:1", origin="http://127.0.0.1:1")).status_code == 200


async def test_statuses_of_bad_requests(start: Starter) -> None:
    server = await start(limits=HTTPLimits(body_bytes=1000, header_bytes=4000))
    host = "host: localhost"

    assert (await status(server, post(host, body=b"{")))[0] == 400
    assert (await status(server, post(host, body=b" " * 2000)))[0] == 413
    assert (await status(server, post(host, length=10**12)))[0] == 413
    assert (await status(server, post(host, "x: " + "y" * 5000)))[0] == 431
    assert (await status(server, post(host, "accept: text/html")))[0] == 406
    assert (await status(server, post(host, "mcp-session-id: a", "mcp-session-id: b")))[0] == 400
    assert (await status(server, post(host, "origin: a", "origin: b")))[0] == 403
    chunked = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    chunked += b"transfer-encoding: chunked\r\n\r\n" + b"320\r\n" + b" " * 800 + b"\r\n320\r\n" + b" " * 800
    assert (await status(server, chunked))[0] == 413
    both = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\n"
    refused, text = await status(server, both + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
    assert refused == 400
    assert b"connection: close" in text
    head = b"\r\nhost: localhost\r\n\r\n"
    for method, path, expected in (
        (b"PUT", b"/mcp", 405),
        (b"OPTIONS", b"/mcp", 405),
        (b"GET", b"/mcp", 406),
        (b"GET", b"/", 404),
        (b"GET", b"/mcpx", 404),
        (b"POST", b"/healthz", 404),
    ):
        assert (await status(server, method + b" " + path + b" HTTP/1.1" + head))[0] == expected


async def test_slow_body_is_given_up(start: Starter) -> None:
    server = await start(limits=HTTPLimits(body_timeout=0.1))

    assert (await status(server, post("host: localhost", body=b"{", length=100)))[0] == 408


async def test_client_that_leaves_in_its_body_is_no_error(start: Starter, caplog: pytest.LogCaptureFixture) -> None:
    server = await start()
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    await stream.send_all(post("host: localhost", body=b"{", length=100))
    await eventually(lambda: server.app._open == 1)
    await stream.aclose()
    await eventually(lambda: server.app._open == 0)

    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_exchanges_past_the_limit_are_503(start: Starter) -> None:
    server = await start(limits=HTTPLimits(streams=1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.client.modern, "slow")
        await server.engine.started.wait()
        response = await server.client.modern("echo")
        assert response.status_code == 503
        assert response.headers["retry-after"] == "1"
        server.engine.go.set()
    assert (await server.client.modern("echo")).status_code == 200


async def test_health_and_readiness(start: Starter) -> None:
    """Probes call by address, so the host is not checked here."""
    server = await start()
    http = server.client.http

    assert (await http.get("/healthz", headers={"host": "10.1.2.3"})).status_code == 200
    ready = await http.get("/readyz")
    assert (ready.status_code, ready.json()) == (200, {"ready": True, "plugins": {}})
    server.engine.draining = True
    assert (await http.get("/readyz")).status_code == 503
    server.engine.draining = False
    server.engine.ready = False
    assert (await http.get("/readyz")).json()["ready"] is False


async def test_page_of_an_allowed_origin_can_read(start: Starter) -> None:
    server = await start(origins=OriginPolicy.with_loopback(["https://app.example.com"]))
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "content-type,mcp-param-x"}
    preflight = await server.client.http.options("/mcp", headers={"origin": "https://app.example.com", **asked})

    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == "https://app.example.com"
    assert preflight.headers["access-control-allow-headers"] == "content-type,mcp-param-x"
    assert preflight.headers["access-control-allow-methods"] == "POST, GET, DELETE"
    response = await server.client.initialize(origin="https://app.example.com")
    assert response.headers["access-control-allow-origin"] == "https://app.example.com"
    assert "Mcp-Session-Id" in response.headers["access-control-expose-headers"]
    assert response.headers["vary"] == "Origin"
    refused = await server.client.http.options("/mcp", headers={"origin": "https://evil.example.com", **asked})
    assert refused.status_code == 403
    assert "access-control-allow-origin" not in refused.headers


async def test_sessions_need_the_application_to_run(start: Starter, caplog: pytest.LogCaptureFixture) -> None:
    server = await start()
    app = HTTPApp(EchoEngine(), sessions=server.sessions, events=server.events)

    with pytest.raises(RuntimeError, match=r"HTTPApp\.run"):
        app._sessions.open(None)


async def test_lifespan_is_accepted() -> None:
    """Driven as an ASGI server does."""
    app = HTTPApp(EchoEngine(), sessions=None, events=None)  # type: ignore[arg-type]
    events = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    sent: list[Any] = []

    async def receive() -> Any:
        return next(events)

    async def send(event: Any) -> None:
        sent.append(event["type"])

    await app({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_mounted_application_finds_its_path(start: Starter) -> None:
    """A mount point stays in the path with some servers, and not with others."""
    server = await start()
    statuses: list[int] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"{"}

    async def send(event: Any) -> None:
        if "status" in event:
            statuses.append(event["status"])

    for root, path in (("", "/mcp"), ("/x", "/x/mcp"), ("/x", "/mcp"), ("", "/mcp/"), ("/x", "/y/mcp")):
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "root_path": root,
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        }
        await server.app(scope, receive, send)
    assert statuses == [400, 400, 400, 400, 404]
