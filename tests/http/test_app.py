"""The endpoint before the protocol: paths, hosts, origins, limits, health."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
import trio

from mcptrio.abc import ASGIApp
from mcptrio.http.server.app import HTTPApp
from mcptrio.http.server.origins import OriginPolicy
from mcptrio.serving import HTTPLimits, MessageLimits

from .conftest import MODERN, EchoEngine, Server, Starter, call, modern_headers
from .web import eventually


async def status(server: Server, request: bytes) -> tuple[int, bytes]:
    """Send raw bytes, and return the status and the rest of the response."""
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


async def test_bad_request_gets_its_status(start: Starter) -> None:
    server = await start(limits=HTTPLimits(message=MessageLimits(bytes=1000), header_bytes=4000))
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
        (b"POST", b"/healthz", 405),
        (b"PUT", b"/ws", 405),
    ):
        assert (await status(server, method + b" " + path + b" HTTP/1.1" + head))[0] == expected


async def test_browser_gets_a_page_that_names_the_endpoint_and_nothing_of_the_request(start: Starter) -> None:
    server = await start()
    browser = b" HTTP/1.1\r\nhost: localhost\r\naccept: text/html,*/*;q=0.8\r\nx-secret: hidden-word\r\n\r\n"

    code, page = await status(server, b"GET /?hidden-word" + browser)
    assert code == 200
    assert b"<code>/mcp</code>" in page
    assert b"content-security-policy: default-src 'none'" in page
    assert b"hidden-word" not in page
    assert (await status(server, b"POST /" + browser))[0] == 404
    assert (await status(server, b"GET / HTTP/1.1\r\nhost: evil\r\naccept: text/html\r\n\r\n"))[0] == 421


async def test_slow_body_times_out(start: Starter) -> None:
    server = await start(limits=HTTPLimits(body_timeout=0.1))

    assert (await status(server, post("host: localhost", body=b"{", length=100)))[0] == 408


async def test_disconnect_within_a_body_is_not_logged_as_an_error(
    start: Starter, caplog: pytest.LogCaptureFixture
) -> None:
    server = await start()
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    await stream.send_all(post("host: localhost", body=b"{", length=100))
    await eventually(lambda: server.app.exchanges == 1)
    await stream.aclose()
    await eventually(lambda: server.app.exchanges == 0)

    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_exchanges_over_the_limit_get_503(start: Starter) -> None:
    server = await start(limits=HTTPLimits(streams=1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.client.modern, "slow")
        await server.engine.started.wait()
        response = await server.client.modern("echo")
        assert response.status_code == 503
        assert response.headers["retry-after"] == "1"
        server.engine.go.set()
    assert (await server.client.modern("echo")).status_code == 200


async def test_health_and_readiness_report_the_state(start: Starter) -> None:
    """Probes connect by address, so the Host header is not checked here."""
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


async def test_page_of_an_allowed_origin_can_read_responses(start: Starter) -> None:
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


async def test_session_before_the_application_runs_is_refused(start: Starter, caplog: pytest.LogCaptureFixture) -> None:
    server = await start()
    app = HTTPApp(EchoEngine(), sessions=server.sessions, events=server.events)

    with pytest.raises(RuntimeError, match=r"HTTPApp\.run"):
        app._sessions.open(None)


async def test_lifespan_is_accepted() -> None:
    """The test drives the application as an ASGI server does."""
    app = HTTPApp(EchoEngine(), sessions=None, events=None)  # type: ignore[arg-type]
    events = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    sent: list[Any] = []

    async def receive() -> Any:
        return next(events)

    async def send(event: Any) -> None:
        sent.append(event["type"])

    await app({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_application_below_a_mount_point_finds_its_path(start: Starter) -> None:
    """Some ASGI servers leave the mount point in the path, others remove it."""
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


async def test_compressed_body_gets_415(start: Starter) -> None:
    server = await start()
    refused, text = await status(server, post("host: localhost", "content-encoding: gzip"))

    assert refused == 415
    assert b"accept-encoding: identity" in text
    assert (await status(server, post("host: localhost", "content-encoding: identity", body=b"{")))[0] == 400


@pytest.mark.parametrize("host", ["localhost:", "localhost.", "localhost.:80", "[::1]:", "127.0.0.1:"])
async def test_every_spelling_of_an_allowed_host_is_accepted(start: Starter, host: str) -> None:
    """RFC 9110 section 4.2.3 allows an empty port; a name that ends with a dot is the same name in absolute form."""
    server = await start()

    assert (await server.client.modern("echo", host=host)).status_code == 200
    assert (await server.client.modern("echo", host=f"{host}x")).status_code in {400, 421}


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_probes_may_use_head_and_options(start: Starter, path: str) -> None:
    """``wget --spider`` sends HEAD, and HAProxy's ``option httpchk`` OPTIONS."""
    server = await start()
    head = await server.client.http.head(path)
    options = await server.client.http.options(path)
    post = await server.client.http.post(path)

    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) > 0
    assert (options.status_code, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS")
    assert (post.status_code, post.headers["allow"]) == (405, "GET, HEAD, OPTIONS")


async def test_refusals_of_every_path_have_cors_headers(start: Starter) -> None:
    """Without CORS headers, a page gets "Failed to fetch" instead of the 404 or 429."""
    server = await start(
        limits=HTTPLimits(address_rate=0.01, address_burst=2), origins=OriginPolicy.with_loopback(["https://a.example"])
    )
    http, origin = server.client.http, {"origin": "https://a.example"}
    asked = {"access-control-request-method": "GET", "access-control-request-headers": "mcp-protocol-version"}
    for path in ("/.well-known/oauth-protected-resource", "/healthz", "/nothing"):
        preflight = await http.options(path, headers=origin | asked)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == "https://a.example"
        assert preflight.headers["access-control-allow-headers"] == "mcp-protocol-version"

    unknown = await http.get("/.well-known/oauth-protected-resource", headers=origin)
    health = await http.get("/healthz", headers=origin)
    refused = await http.get("/nothing", headers=origin)

    assert [each.status_code for each in (unknown, health, refused)] == [404, 200, 429]
    for each in (unknown, health, refused):
        assert each.headers["access-control-allow-origin"] == "https://a.example"
        assert "Retry-After" in each.headers["access-control-expose-headers"]
    foreign = await http.options("/nothing", headers={"origin": "https://b.example", **asked})
    assert "access-control-allow-origin" not in foreign.headers


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("/m", "/mcp"),
        ("/", "/mcp"),
        ("/api", "/api/mcp"),
        ("/api/", "/api/mcp/"),
        ("/api", "/mcp"),
        ("/mcp", "/mcp"),
        ("/mcp", "/mcp/mcp"),
    ],
)
async def test_application_mounted_below_any_path_is_served(start: Starter, root: str, path: str) -> None:
    """Some servers leave the mount point in the path, as ASGI 3 specifies, and some proxies remove it."""
    server = await start()
    sent: list[Any] = []
    app: ASGIApp = server.app

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(event: Any) -> None:
        sent.append(event)

    scope = {"type": "http", "method": "PUT", "path": path, "root_path": root, "headers": [(b"host", b"localhost")]}
    await app(scope, receive, send)

    assert sent[0]["status"] == 405


async def test_response_is_complete_after_an_early_disconnect(start: Starter) -> None:
    """Frameworks around an ASGI application report an incomplete response as an error of the application."""
    server = await start()
    events = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return events.pop(0)

    async def send(event: Any) -> None:
        sent.append(event)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    await server.app({"type": "http", "method": "POST", "path": "/mcp", "headers": headers}, receive, send)

    assert [event["type"] for event in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == 499


# Limits of one client


async def from_address(server: Server, address: str, request: bytes) -> int:
    """Return the status of a request from another address of this machine."""
    stream = await trio.open_tcp_stream("127.0.0.1", server.port, local_address=address)
    async with stream:
        await stream.send_all(request)
        with trio.fail_after(60):
            return int((await stream.receive_some())[9:12])


def slow() -> bytes:
    message = call("slow", version=MODERN)
    headers = [f"{name}: {value}" for name, value in modern_headers(message).items()]
    return post("host: localhost", *headers, body=json.dumps(message).encode())


async def test_requests_of_one_address_leave_capacity_for_others(start: Starter) -> None:
    server = await start(limits=HTTPLimits(streams=8))
    statuses: list[int] = []

    async def ask(address: str) -> None:
        statuses.append(await from_address(server, address, slow()))

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(ask, "127.0.0.2")
        await eventually(lambda: len(statuses) == 15)
        assert statuses == [503] * 15
        nursery.start_soon(ask, "127.0.0.3")
        await eventually(lambda: server.app.exchanges == 6)
        server.engine.go.set()

    assert statuses[15:] == [200] * 6
    assert server.app.exchanges == 0


async def test_routes_of_plugins_do_not_count_against_the_endpoint_limit(start: Starter) -> None:
    server = await start(limits=HTTPLimits(streams=1))
    entered = trio.Event()

    async def hook(scope: Any, receive: Any, send: Any) -> None:
        entered.set()
        await server.engine.go.wait()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    server.engine.routes["/hook"] = hook
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.client.http.get, "/hook")
        with trio.fail_after(60):
            await entered.wait()
        assert (await server.client.http.get("/hook")).status_code == 503
        assert (await server.client.modern("echo")).status_code == 200
        server.engine.go.set()


async def test_session_rate_limit_per_client_is_429(start: Starter) -> None:
    server = await start(limits=HTTPLimits(session_rate=0.01, session_burst=3))
    opened = [await server.client.initialize() for _ in range(4)]

    assert [response.status_code for response in opened] == [200, 200, 200, 429]
    assert 90 <= int(opened[3].headers["retry-after"]) <= 100
    assert opened[3].json()["id"] == 0


async def test_large_messages_of_one_client_are_limited_to_its_share_of_time(start: Starter) -> None:
    server = await start(limits=HTTPLimits(parse_share=1e-6))
    large = [{"a": [1, 2, 3]}] * 2000
    answers = [await server.client.modern("echo", {"a": items}) for items in (large, large, [])]

    assert [response.status_code for response in answers] == [200, 429, 200]
    assert answers[1].json()["error"]["data"]["reason"] == "rateLimited"
    assert int(answers[1].headers["retry-after"]) > 60


async def test_time_share_of_zero_disables_the_limit(start: Starter) -> None:
    server = await start(limits=HTTPLimits(parse_share=0))
    large = [{"a": [1, 2, 3]}] * 2000

    assert [(await server.client.modern("echo", {"a": large})).status_code for _ in range(3)] == [200] * 3


async def test_idle_session_is_released_for_a_new_one(start: Starter) -> None:
    """Only the local part of the session is released; the session continues with its next request."""
    server = await start()
    await server.client.initialize()
    first = server.client.session
    server.engine.limit = 1
    second = await server.client.initialize()

    assert second.status_code == 200
    server.client.session = first
    assert (await server.client.post(call("echo", {"a": 1}))).json()["result"] == {"echo": {"a": 1}}
    assert len(server.engine.sessions) == 1


async def test_busy_session_is_not_released(start: Starter) -> None:
    server = await start()
    await server.client.initialize()
    server.engine.limit = 1
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.client.post, call("slow"))
        with trio.fail_after(60):
            await server.engine.started.wait()
        session = server.client.session
        assert (await server.client.initialize()).status_code == 503
        server.client.session = session
        server.engine.go.set()
