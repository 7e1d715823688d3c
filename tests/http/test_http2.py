"""HTTP/2 over TLS: serving, and attacks of clients on the server and on each other."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, MutableMapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import httpx2
import pytest
import trio
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from trio.testing import wait_all_tasks_blocked

from mcptrio import Server
from mcptrio.abc import ASGIApp
from mcptrio.http.engine.access_log import ACCESS
from mcptrio.http.engine.server import run_engine
from mcptrio.http.hypercorn.connection import serve_http2
from mcptrio.serve.http import HTTPSockets, serve_http
from mcptrio.serve.tls import Certificates
from mcptrio.serving import ConnectionLimits, HTTPOptions
from tests.certificate_authority import Authority, client_context, tls_files

from .web import eventually

__all__: list[str] = []

Event = MutableMapping[str, Any]


class App:
    """An ASGI application with one behaviour per path.

    ``/`` responds at once, ``/body`` with the length of the body, ``/large`` with more than a window, ``/fails`` with
    a part; ``/wait`` waits for the client's disconnect, or for ``go``.
    """

    def __init__(self) -> None:
        self.go = trio.Event()
        self.left = trio.Event()
        self.running = 0
        self.most = 0
        self.scopes: list[Any] = []

    async def __call__(self, scope: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        if scope["type"] != "http":
            return
        self.scopes.append(scope)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self._answer(scope["path"], receive, send)
        finally:
            self.running -= 1

    async def _answer(self, path: str, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        body = b"ok"
        if path == "/body":
            size, more = 0, True
            while more:
                event = await receive()
                if event["type"] == "http.disconnect":
                    return
                size, more = size + len(event["body"]), event["more_body"]
            body = b"%d" % size
        elif path == "/wait":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._hear, receive, nursery.cancel_scope)
                await self.go.wait()
                nursery.cancel_scope.cancel()
        elif path == "/stubborn":
            await self.go.wait()
        elif path == "/large":
            body = b"x" * 1_000_000
        elif path == "/crash":
            raise RuntimeError("the application fails")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if path == "/fails":
            await send({"type": "http.response.body", "body": b"some", "more_body": True})
            raise RuntimeError("the application fails")
        await send({"type": "http.response.body", "body": body})

    async def _hear(self, receive: Callable[[], Any], scope: trio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.left.set()
        scope.cancel()


class Answer:
    def __init__(self) -> None:
        self.status = 0
        self.body = b""
        self.is_complete = False
        self.reset: int | None = None


class Peer:
    """An HTTP/2 client that can also violate the protocol."""

    def __init__(self, stream: trio.SSLStream[trio.SocketStream]) -> None:
        self.stream = stream
        config = h2.config.H2Configuration(validate_outbound_headers=False, normalize_outbound_headers=False)
        self.h2 = h2.connection.H2Connection(config)
        self.answers: dict[int, Answer] = {}
        self.settings: dict[int, int] = {}
        self.goodbye: h2.events.ConnectionTerminated | None = None
        self.opens_window = True

    async def ask(
        self, path: str = "/", *, method: str = "GET", more: Iterable[tuple[str, str]] = (), end: bool = True
    ) -> int:
        number = self.h2.get_next_available_stream_id()
        head = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path), *more]
        self.answers[number] = Answer()
        self.h2.send_headers(number, head, end_stream=end)
        await self.flush()
        return number

    async def flush(self) -> None:
        await self.stream.send_all(self.h2.data_to_send())

    async def take(self) -> bool:
        """Read the next data. Return whether the connection is still open."""
        try:
            data = await self.stream.receive_some(65536)
        except trio.BrokenResourceError:
            return False
        for event in self.h2.receive_data(bytes(data)) if data else ():
            self._note(event)
        if data and self.goodbye is None:
            await self.flush()
        return bool(data)

    def _note(self, event: object) -> None:
        if isinstance(event, h2.events.ResponseReceived):
            assert event.headers is not None
            self.answers[event.stream_id or 0].status = int(dict(event.headers)[b":status"])
        elif isinstance(event, h2.events.DataReceived):
            self.answers[event.stream_id or 0].body += event.data or b""
            if self.opens_window and self.goodbye is None:
                self.h2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
        elif isinstance(event, h2.events.StreamEnded):
            self.answers[event.stream_id or 0].is_complete = True
        elif isinstance(event, h2.events.StreamReset):
            self.answers[event.stream_id or 0].reset = event.error_code
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.goodbye = event
        elif isinstance(event, h2.events.RemoteSettingsChanged):
            self.settings.update({key: each.new_value for key, each in event.changed_settings.items()})

    async def answer(self, number: int) -> Answer:
        answer = self.answers[number]
        with trio.fail_after(30):
            while not answer.is_complete and answer.reset is None:
                assert await self.take(), "the connection has ended"
        return answer

    async def end(self) -> None:
        """Read until the server closes the connection."""
        with trio.fail_after(30):
            while await self.take():
                pass


class Site:
    """A server, and connections to it."""

    def __init__(self, port: int, trusted: ssl.SSLContext) -> None:
        self.port = port
        self.trusted = trusted

    @asynccontextmanager
    async def raw(self, protocol: str = "h2") -> AsyncIterator[trio.SSLStream[trio.SocketStream]]:
        self.trusted.set_alpn_protocols([protocol])
        plain = await trio.open_tcp_stream("127.0.0.1", self.port)
        stream = trio.SSLStream(plain, self.trusted, server_hostname="localhost", https_compatible=True)
        try:
            await stream.do_handshake()
            yield stream
        finally:
            await trio.aclose_forcefully(stream)

    @asynccontextmanager
    async def peer(self) -> AsyncIterator[Peer]:
        async with self.raw() as stream:
            peer = Peer(stream)
            peer.h2.initiate_connection()
            await peer.flush()
            yield peer


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="module")
def pair(authority: Authority) -> tuple[Path, Path]:
    return authority.issue("server")


Serving = Callable[..., Any]


@pytest.fixture
def serving(authority: Authority, pair: tuple[Path, Path]) -> Serving:
    @asynccontextmanager
    async def serve(app: ASGIApp, *, shutdown: trio.Event | None = None, **options: Any) -> AsyncIterator[Site]:
        shutdown = trio.Event() if shutdown is None else shutdown
        tls = Certificates(tls_files(pair), http2=True).context
        start = partial(run_engine, app, bind="127.0.0.1:0", tls=tls, http2=serve_http2, shutdown=shutdown, **options)
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                (url,) = await nursery.start(start)
                yield Site(int(url.rpartition(":")[2]), client_context(authority))
                shutdown.set()

    return serve


# Serving


async def test_protocol_is_negotiated_in_the_tls_handshake(serving: Serving) -> None:
    app = App()
    async with serving(app) as site:
        async with site.peer() as peer:
            assert (await peer.answer(await peer.ask("/a%20b?c"))).body == b"ok"
        async with site.raw("http/1.1") as stream:
            await stream.send_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 ")

    assert [scope["http_version"] for scope in app.scopes] == ["2", "1.1"]
    first, second = app.scopes
    assert (first["path"], first["query_string"], first["scheme"]) == ("/a b", b"c", "https")
    assert first["extensions"]["tls"] == second["extensions"]["tls"]
    assert first["client"][0] == "127.0.0.1"
    assert first["server"] == ("127.0.0.1", site.port)


async def test_tool_call_over_http2_returns_its_result(authority: Authority, pair: tuple[Path, Path]) -> None:
    server = Server()
    server.add_tool(lambda: "pong", name="ping")
    sockets = HTTPSockets(bind=["127.0.0.1:0"], tls=Certificates(tls_files(pair), http2=True).context)
    shutdown = trio.Event()
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ping", "arguments": {}}}
    message["params"]["_meta"] = {  # type: ignore[index]
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "ping",
    }
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            start = partial(serve_http, server, sockets=sockets, options=HTTPOptions(http2=True), shutdown=shutdown)
            (url,) = await nursery.start(start)
            async with httpx2.AsyncClient(http2=True, verify=client_context(authority)) as client:
                answers = [await client.post(url, json=message, headers=headers) for _ in range(3)]
            shutdown.set()

    for answer in answers:
        assert answer.http_version == "HTTP/2"
        assert answer.json()["result"]["content"] == [{"type": "text", "text": "pong"}]


async def test_requests_of_a_connection_run_concurrently(serving: Serving) -> None:
    app = App()
    async with serving(app) as site, site.peer() as peer:
        waits = await peer.ask("/wait")
        large = await peer.ask("/large")
        assert len((await peer.answer(large)).body) == 1_000_000
        app.go.set()
        assert (await peer.answer(waits)).body == b"ok"


async def test_body_longer_than_a_window_is_received(serving: Serving) -> None:
    async with serving(App()) as site, site.peer() as peer:
        number = await peer.ask("/body", method="POST", end=False)
        left = 1_000_000
        while left:
            size = min(left, peer.h2.local_flow_control_window(number), 16_384)
            if size:
                peer.h2.send_data(number, b"x" * size)
                left -= size
                await peer.flush()
            else:
                assert await peer.take()
        peer.h2.end_stream(number)
        await peer.flush()
        assert (await peer.answer(number)).body == b"1000000"


async def test_http2_requests_are_in_the_access_log(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, ACCESS.name)
    async with serving(App(), access_log=True) as site, site.peer() as peer:
        await peer.answer(await peer.ask("/body?secret=1", method="POST"))

    (line,) = [record.getMessage() for record in caplog.records if record.name == ACCESS.name]
    assert '"POST /body" 200 ' in line
    assert "secret" not in line


async def test_header_values_are_not_logged_at_debug_level(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    """hpack would log them at level DEBUG."""
    caplog.set_level(logging.DEBUG)
    async with serving(App()) as site, site.peer() as peer:
        await peer.answer(await peer.ask(more=[("authorization", "Bearer secret")]))

    assert "secret" not in caplog.text


async def test_websocket_over_http2_is_not_offered(serving: Serving) -> None:
    """Clients open an HTTP/1.1 connection for it."""
    async with serving(App()) as site, site.peer() as peer:
        await peer.answer(await peer.ask())
        assert not peer.settings.get(SettingCodes.ENABLE_CONNECT_PROTOCOL)
        more = [(":protocol", "websocket"), ("sec-websocket-version", "13")]
        answer = await peer.answer(await peer.ask("/ws", method="CONNECT", more=more, end=False))
        assert answer.status == 501
        assert (await peer.answer(await peer.ask())).body == b"ok"


# Ends of streams and connections


async def test_application_error_ends_its_own_stream_only(serving: Serving) -> None:
    async with serving(App()) as site, site.peer() as peer:
        assert (await peer.answer(await peer.ask("/crash"))).status == 500
        assert (await peer.answer(await peer.ask("/fails"))).reset == ErrorCodes.INTERNAL_ERROR
        assert (await peer.answer(await peer.ask())).body == b"ok"


async def test_application_is_notified_of_a_stream_reset_and_of_a_disconnect(serving: Serving) -> None:
    app = App()
    async with serving(app) as site:
        async with site.peer() as peer:
            number = await peer.ask("/wait")
            await eventually(lambda: app.running == 1)
            peer.h2.reset_stream(number)
            await peer.flush()
            await app.left.wait()
            app.left = trio.Event()
            assert (await peer.answer(await peer.ask())).body == b"ok"
            await peer.ask("/wait")
            await eventually(lambda: app.running == 1)
        await app.left.wait()


async def test_shutdown_completes_responses_in_flight_and_begins_no_other(serving: Serving) -> None:
    app, shutdown = App(), trio.Event()
    async with serving(app, shutdown=shutdown, shutdown_timeout=30.0) as site, site.peer() as peer:
        idle = await peer.answer(await peer.ask())
        waits = await peer.ask("/wait")
        await eventually(lambda: app.running == 1)
        shutdown.set()
        await wait_all_tasks_blocked(0.05)
        late = await peer.ask()
        app.go.set()
        assert (await peer.answer(waits)).body == idle.body
        assert (await peer.answer(late)).status == 503
        await peer.end()
        assert peer.goodbye is not None
        assert peer.goodbye.error_code == ErrorCodes.NO_ERROR
    assert app.running == 0


async def test_idle_connection_is_closed_and_notified(serving: Serving) -> None:
    app = App()
    async with serving(app, limits=ConnectionLimits(keepalive_timeout=0.2)) as site:
        async with site.peer() as peer:
            await peer.end()
            assert peer.goodbye is not None
        async with site.peer() as peer:
            await peer.answer(await peer.ask())
            await peer.end()
            assert peer.goodbye is not None
        async with site.peer() as peer:
            number = await peer.ask("/wait")
            await eventually(lambda: app.running == 1)
            peer.h2.reset_stream(number)
            await peer.flush()
            await peer.end()
            assert peer.goodbye is not None


# Hostile clients


async def test_stalled_body_gets_408(serving: Serving) -> None:
    async with serving(App(), limits=ConnectionLimits(body_timeout=0.2)) as site, site.peer() as peer:
        number = await peer.ask("/body", method="POST", end=False)
        assert (await peer.answer(number)).status == 408
        assert (await peer.answer(await peer.ask())).body == b"ok"


async def test_data_after_an_early_answer_is_discarded(serving: Serving) -> None:
    async with serving(App()) as site, site.peer() as peer:
        number = await peer.ask("/", method="POST", end=False)
        assert (await peer.answer(number)).body == b"ok"
        for _ in range(3):
            peer.h2.send_data(number, b"x" * 1000)
        peer.h2.end_stream(number)
        await peer.flush()
        assert (await peer.answer(await peer.ask())).body == b"ok"


async def test_client_that_opens_no_window_is_disconnected(serving: Serving) -> None:
    app = App()
    async with serving(app, limits=ConnectionLimits(write_timeout=0.3)) as site, site.peer() as peer:
        peer.opens_window = False
        await peer.ask("/large")
        await peer.end()
        await eventually(lambda: app.running == 0)


async def test_client_that_reads_nothing_is_disconnected(serving: Serving) -> None:
    app = App()
    async with serving(app, limits=ConnectionLimits(write_timeout=0.3)) as site, site.peer() as peer:
        peer.h2.increment_flow_control_window(2**30)
        try:
            for _ in range(50):
                number = await peer.ask("/large")
                peer.h2.increment_flow_control_window(2**30, number)
            await peer.flush()
            await eventually(lambda: app.running > 0)
        except trio.BrokenResourceError:
            pass  # on a slow machine it is already disconnected
        await eventually(lambda: app.running == 0)


async def test_rapid_stream_resets_end_the_connection(serving: Serving) -> None:
    """Otherwise one client could have any number of requests running (CVE-2023-44487)."""
    app = App()
    async with serving(app) as site:
        async with site.peer() as peer:
            for _ in range(600):
                number = peer.h2.get_next_available_stream_id()
                head = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/stubborn")]
                peer.h2.send_headers(number, head, end_stream=True)
                peer.answers[number] = Answer()
                peer.h2.reset_stream(number)
            await peer.flush()
            await peer.end()
        async with site.peer() as other:
            assert (await other.answer(await other.ask())).body == b"ok"
        app.go.set()

    assert app.most <= 201


def frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def begun(*headers: tuple[str, str]) -> bytes:
    """A connection with one request in flight."""
    peer = h2.connection.H2Connection(
        h2.config.H2Configuration(validate_outbound_headers=False, normalize_outbound_headers=False)
    )
    peer.initiate_connection()
    peer.send_headers(1, headers, end_stream=True)
    return peer.data_to_send()


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = frame(4, 0, 0, b"")
GET = [(":method", "GET"), (":scheme", "https"), (":authority", "a")]

HOSTILE: dict[str, bytes] = {
    "nothing after the preface": PREFACE,
    "HTTP/1.1": b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
    "garbage": PREFACE + b"\xff" * 200,
    "garbage from the beginning": bytes(range(256)) * 8,
    "path that is not ASCII": begun(*GET, (":path", "/\xe9")),
    "no path": begun(*GET),
    "empty path": begun(*GET, (":path", "")),
    "two paths": begun(*GET, (":path", "/"), (":path", "/b")),
    "connect": begun((":method", "CONNECT"), (":authority", "a")),
    "unknown pseudo-header": begun(*GET, (":path", "/"), (":nonsense", "a")),
    "upper-case name": begun(*GET, (":path", "/"), ("X-Upper", "a")),
    "connection header": begun(*GET, (":path", "/"), ("connection", "close")),
    "line end in a value": begun(*GET, (":path", "/"), ("x", "a\r\nb: c")),
    "large head": begun(*GET, (":path", "/"), *[(f"x{i}", "y" * 4000) for i in range(12)]),
    "priority on itself": PREFACE + SETTINGS + frame(2, 0, 3, (3).to_bytes(4, "big") + b"\x10"),
    "many priorities": PREFACE + SETTINGS + b"".join(frame(2, 0, 2 * i + 1, b"\0\0\0\0\x10") for i in range(3000)),
    "data on a stream that is not open": PREFACE + SETTINGS + frame(0, 0, 1, b"x"),
    "window update of nothing": PREFACE + SETTINGS + frame(8, 0, 0, b"\0\0\0\0"),
    "window that overflows": PREFACE + SETTINGS + frame(8, 0, 0, b"\x7f\xff\xff\xff"),
    "settings that are none": PREFACE + frame(4, 0, 0, b"\0\x04\xff\xff\xff\xff"),
    "frame that is too large": PREFACE + SETTINGS + frame(0, 0, 1, b"x" * 20_000),
    "continuation without a head": PREFACE + SETTINGS + frame(9, 0, 1, b"x"),
    "many continuations": PREFACE + SETTINGS + frame(1, 0, 1, b"") + frame(9, 0, 1, b"") * 1000,
    "compression that refers to nothing": PREFACE + SETTINGS + frame(1, 5, 1, b"\xff\xff\xff\xff\x0f"),
    "push by the client": PREFACE + SETTINGS + frame(5, 4, 1, b"\0\0\0\2"),
    "goodbye": PREFACE + SETTINGS + frame(7, 0, 0, b"\0" * 8),
    "many pings": PREFACE + SETTINGS + frame(6, 0, 0, b"\0" * 8) * 5000,
    "many settings": PREFACE + SETTINGS * 5000,
    "many empty frames": begun(*GET, (":path", "/body"))[:-9] + frame(0, 0, 1, b"") * 5000,
}


async def test_hostile_http2_input_ends_one_connection_only(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    """Several of these inputs end stock Hypercorn; meanwhile another client on an open connection is served."""
    caplog.set_level(logging.CRITICAL, "mcptrio.http.server")
    async with serving(App()) as site, site.peer() as neighbour:
        for name, attack in HOSTILE.items():
            async with site.raw() as stream:
                try:
                    await stream.send_all(attack)
                    with trio.move_on_after(0.03):
                        while await stream.receive_some():
                            pass
                except trio.BrokenResourceError:
                    pass
            assert (await neighbour.answer(await neighbour.ask())).body == b"ok", name
