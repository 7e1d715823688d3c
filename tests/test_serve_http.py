"""``mcptrio serve --http`` as a process: its start, its shutdown, and its health checks."""

from __future__ import annotations

import http.client
import json
import logging
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve

from mcptrio import Server
from mcptrio.abc import ASGIApp, StoreStatus
from mcptrio.serve.http import serve_http
from mcptrio.serving import HTTPOptions, PluginManager, ServerSettings, asgi_app
from mcptrio.stores import memory_stores
from tests.processes import HELLO, WAIT_TIMEOUT, Served, run, serving

__all__: list[str] = []

SHUTDOWN = 6
"""Seconds that requests get during the shutdown in tests with longer ones."""
PREFIX = "io.modelcontextprotocol/"

PLUGIN = """
import os, sys, time
from contextlib import asynccontextmanager

import trio
from mcptrio import Context, hookimpl, tool


@hookimpl
def lifespan(server):
    @asynccontextmanager
    async def live():
        print("entering", file=sys.stderr, flush=True)
        if os.environ.get("ENTER_HANGS"):
            await trio.sleep_forever()
        yield
        print("leaving", file=sys.stderr, flush=True)
        if os.environ.get("EXIT_HANGS"):
            with trio.CancelScope(shield=True):
                await trio.sleep_forever()
        print("left", file=sys.stderr, flush=True)

    return live()


@tool
async def nap(until: str = "") -> str:
    \"\"\"Sleep until there is a file, and say so.\"\"\"
    print("napping", file=sys.stderr, flush=True)
    while not (until and os.path.exists(until)):
        await trio.sleep(0.02)
    return "slept"


@tool
def doze(seconds: float) -> str:
    \"\"\"Sleep in a thread, which cannot be cancelled.\"\"\"
    print("dozing", file=sys.stderr, flush=True)
    time.sleep(seconds)
    return "dozed"


@tool
async def flood(ctx: Context) -> str:
    \"\"\"More than fits into the buffers of a socket.\"\"\"
    print("flooding", file=sys.stderr, flush=True)
    return "x" * 50_000_000
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(PLUGIN)
    return tmp_path


@pytest.fixture
def served(folder: Path) -> Iterator[Served]:
    env = {"MCPTRIO_SERVER_TIMEOUTS_SHUTDOWN": str(SHUTDOWN)}
    with serving("--http", "--port=0", "--plugin=own.py", cwd=folder, env=env) as served:
        yield served


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_TIMEOUT)
        self.headers: dict[str, str] = {}

    def send(self, method: str, path: str = "/mcp", message: Any = None, **headers: str) -> None:
        standard = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        if method == "GET" and path == "/mcp":
            standard = {"accept": "text/event-stream"}
        body = None if message is None else json.dumps(message)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request(method, path, body, {**standard, **self.headers, **given})

    def receive(self) -> http.client.HTTPResponse:
        return self._connection.getresponse()

    def get(self, path: str) -> tuple[int, Any]:
        self.send("GET", path)
        response = self.receive()
        return response.status, json.loads(response.read())

    def post(self, message: Any, **headers: str) -> http.client.HTTPResponse:
        self.send("POST", message=message, **headers)
        return self.receive()

    def call(self, name: str, **arguments: Any) -> None:
        """Call a tool, statelessly, and do not wait."""
        self.post_modern("tools/call", {"name": name, "arguments": arguments}, mcp_name=name)

    def post_modern(self, method: str, params: dict[str, Any], **headers: str) -> None:
        meta = {
            PREFIX + "protocolVersion": "2026-07-28",
            PREFIX + "clientInfo": {"name": "raw", "version": "1"},
            PREFIX + "clientCapabilities": {},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        self.send("POST", message=message, mcp_protocol_version="2026-07-28", mcp_method=method, **headers)

    def close(self) -> None:
        self._connection.close()


def answer(response: http.client.HTTPResponse) -> dict[str, Any]:
    """Return the response to a call: JSON, or the last message of the stream of a slow call."""
    if response.getheader("content-type") == "text/event-stream":
        return events(response)[-1]
    message: dict[str, Any] = json.loads(response.read())
    return message


def events(response: http.client.HTTPResponse) -> list[dict[str, Any]]:
    """The messages of a stream, to its end."""
    lines = response.read().decode().splitlines()
    return [json.loads(line.removeprefix("data:")) for line in lines if line.startswith("data:") and line[5:].strip()]


@pytest.fixture
def connect(served: Served) -> Iterator[Any]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(Client(served.port)))


# Starting


def test_url_is_printed_and_standard_output_is_empty(folder: Path) -> None:
    args = ("--http", "--port=0", "--host=localhost", "--plugin=own.py")
    env = {"MCPTRIO_HTTP_PATH": "/tools", "MCPTRIO_HTTP_LEGACY_SSE": "false"}
    with serving(*args, cwd=folder, env=env) as served:
        with closing(Client(served.port)) as client:
            client.send("POST", "/tools", HELLO)
            response = client.receive()
            assert (response.status, json.loads(response.read())["id"]) == (200, 0)
            client.send("POST", "/messages", HELLO)
            assert client.receive().status == 404
        assert f"serving http://127.0.0.1:{served.port}/tools" in served.stderr
        served.signal(signal.SIGTERM)

        assert served.end()[0] == 0
        assert served.rest() == []


def test_port_in_use_is_reported(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run("serve", "--http", f"--port={port}", "--plugin=own.py", cwd=folder)

    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"mcptrio: cannot listen on 127.0.0.1:{port}: Address already in use" in ended.stderr
    assert 'File "' not in ended.stderr
    assert "left" in ended.stderr


def test_foreign_host_address_is_reported(folder: Path) -> None:
    ended = run("serve", "--http", "--port=0", "--host=192.0.2.1", "--plugin=own.py", cwd=folder)

    assert (ended.returncode, ended.stdout) == (1, "")
    assert "mcptrio: cannot listen on 192.0.2.1:0: Cannot assign requested address" in ended.stderr


def test_signal_during_a_lifespan_entry_ends_the_start(folder: Path) -> None:
    with serving("--http", "--port=0", "--plugin=own.py", cwd=folder, env={"ENTER_HANGS": "1"}) as served:
        served.until("entering")
        served.signal(signal.SIGTERM)

        assert served.end()[0] == 0
        assert "serving" not in served.stderr


# Stopping


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_idle_server_ends_at_once_on_a_signal(folder: Path, number: signal.Signals) -> None:
    """An idle connection does not delay it."""
    env = {"MCPTRIO_SERVER_TIMEOUTS_SHUTDOWN": "600"}
    with serving("--http", "--port=0", "--plugin=own.py", cwd=folder, env=env) as served:
        with closing(Client(served.port)) as client:
            assert client.get("/healthz") == (200, {"status": "ok"})
            served.signal(number)
            code, _ = served.end()

    assert code == 0
    assert f"{number.name}: stopping" in served.stderr
    assert "leaving\nleft\n" in served.stderr


def test_signal_ends_every_kind_of_connection(served: Served, connect: Any, folder: Path) -> None:
    """A session's stream, a listen stream, calls that finish and that do not, and a client that does not read."""
    session, standing, listening, short, long, thread, deaf, late = (connect() for _ in range(8))
    response = session.post(HELLO)
    response.read()
    headers = {"mcp_session_id": response.headers["mcp-session-id"], "mcp_protocol_version": "2025-11-25"}
    session.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **headers).read()
    standing.send("GET", **headers)
    get = standing.receive()
    listening.post_modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    listen = listening.receive()
    short.call("nap", until="woken")
    long.call("nap")
    session.send(
        "POST",
        message={
            "jsonrpc": "2.0",
            "id": 5,
            "method": "tools/call",
            "params": {"name": "nap", "arguments": {"until": "woken"}},
        },
        **headers,
    )
    thread.call("doze", seconds=600)
    deaf.call("flood")
    served.until("napping\n(.*\n)*napping\n(.*\n)*napping")
    served.until("dozing")
    served.until("flooding")
    late.get("/healthz")

    served.signal(signal.SIGTERM)
    served.until("stopping")
    wait_until_refused(served.port)
    # A running server refuses with calls in flight; one that has ended refuses every connection.
    assert served.process.poll() is None
    (folder / "woken").touch()
    assert answer(short.receive())["result"]["content"][0]["text"] == "slept"
    assert answer(session.receive())["result"]["content"][0]["text"] == "slept"
    code, _ = served.end()

    assert code == 0
    assert "leaving\nleft\n" in served.stderr
    assert 'File "' not in served.stderr
    acknowledged, final = events(listen)
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert final["result"]["_meta"][PREFIX + "subscriptionId"] == 1
    assert events(get) == []
    # These clients get a status, because they may retry at another server.
    assert long.receive().status == 503
    assert thread.receive().status == 503


def wait_until_refused(port: int) -> None:
    """Wait for the end of the listener, which comes a moment after the message about it."""
    deadline = time.monotonic() + WAIT_TIMEOUT
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=WAIT_TIMEOUT).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.01)
    raise AssertionError("a server that is stopping still takes connections")


def test_second_signal_ends_the_server_at_once(folder: Path) -> None:
    env = {"EXIT_HANGS": "1", "MCPTRIO_SERVER_TIMEOUTS_SHUTDOWN": "600"}
    with serving("--http", "--port=0", "--plugin=own.py", cwd=folder, env=env) as served:
        served.until("serving")
        served.signal(signal.SIGINT)
        served.until("leaving")
        served.signal(signal.SIGTERM)
        code, _ = served.end()

    assert code == 128 + signal.SIGTERM


# Health


def test_readiness_requires_healthy_plugins(folder: Path) -> None:
    (folder / "broken.py").write_text("raise RuntimeError('no such luck')")
    for plugins, expected in ((("--plugin=own.py",), 200), (("--plugin=own.py", "--plugin=broken.py"), 503)):
        with serving("--http", "--port=0", *plugins, cwd=folder) as served, closing(Client(served.port)) as client:
            assert client.get("/healthz")[0] == 200
            status, health = client.get("/readyz")
            assert (status, health["ready"]) == (expected, expected == 200)
            assert health["plugins"]["own"] == "running"
    assert health["plugins"]["broken"] == "quarantined"


def test_readiness_reports_the_stores(folder: Path) -> None:
    with (
        serving("--http", "--port=0", "--plugin=own.py", "--store=sqlite:kept.db", cwd=folder) as served,
        closing(Client(served.port)) as client,
    ):
        status, health = client.get("/readyz")

    assert (status, health["stores"]["kind"], health["stores"]["is_reachable"]) == (200, "sqlite", True)
    (replica,) = health["stores"]["live"]
    # The endpoint is public, so it does not show the replica's machine and process.
    assert set(replica) == {"id", "age", "heartbeat"}
    assert 0 <= replica["age"] < WAIT_TIMEOUT


@pytest.mark.parametrize(("failing", "expected"), [(None, 200), (4.0, 200), (6.0, 503)])
async def test_server_is_not_ready_after_a_lasting_store_failure(failing: float | None, expected: int) -> None:
    status = StoreStatus(kind="engine", is_reachable=failing is None, failing_since=failing)
    stores = evolve(memory_stores(), is_shared=True, status=lambda: status)
    server = Server(settings=ServerSettings(stores=stores))
    app = asgi_app(server)
    async with app.running():
        assert await ask(app, "/readyz") == expected
        assert await ask(app, "/healthz") == 200
        assert server.status.stores == status


async def test_access_log_names_method_and_tool(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mcptrio.http.access")
    shutdown = trio.Event()
    options = HTTPOptions(access_log=True)
    with trio.fail_after(WAIT_TIMEOUT):
        async with trio.open_nursery() as nursery:
            (url,) = await nursery.start(partial(serve_http, Server("s"), port=0, options=options, shutdown=shutdown))
            port = int(url.rpartition(":")[2].partition("/")[0])
            body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"no_such"}}'
            head = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: */*\r\n"
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(head + b"content-length: %d\r\n\r\n%b" % (len(body), body))
                assert (await stream.receive_some()).startswith(b"HTTP/1.1 ")
            shutdown.set()

    assert any(record.getMessage().endswith(" ms tools/call no_such") for record in caplog.records)


async def test_server_is_not_ready_while_draining() -> None:
    """New clients are refused, but the application that mounts it may still ask."""

    server = Server(plugins=PluginManager())
    app = asgi_app(server)
    assert await ask(app, "/readyz") == 503  # not yet open
    async with app.running():
        assert (await ask(app, "/healthz"), await ask(app, "/readyz")) == (200, 200)
        with trio.fail_after(30):
            await server.supervisor.drain()
        assert (await ask(app, "/healthz"), await ask(app, "/readyz")) == (200, 503)


async def ask(app: ASGIApp, path: str) -> int:
    sent: list[dict[str, Any]] = []

    async def send(event: dict[str, Any]) -> None:
        sent.append(event)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": path, "headers": [(b"host", b"localhost")]}
    await app(scope, receive, send)
    status: int = sent[0]["status"]
    return status
