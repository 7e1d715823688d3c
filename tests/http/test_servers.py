"""The HTTP server survives hostile input, and stops on request."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from mcptrio.abc import ASGIApp
from mcptrio.http.engine import connection
from mcptrio.http.engine.limits import ConnectionLimits
from mcptrio.http.engine.server import serve_asgi

from .web import eventually

Send = Callable[[Any], Awaitable[None]]
Receive = Callable[[], Awaitable[Any]]

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


class App:
    """An ASGI application with one behaviour per path.

    It responds to ``/`` at once, to ``/body`` after the body, to ``/early`` before it, and to ``/flood`` without end.
    """

    def __init__(self) -> None:
        self.cancelled = 0
        self.disconnected = trio.Event()
        self.running = 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            while (await receive())["type"] != "websocket.disconnect":
                pass
            return
        self.running += 1
        try:
            await self._respond(scope["path"], receive, send)
        except trio.Cancelled:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    async def _respond(self, path: str, receive: Receive, send: Send) -> None:
        if path == "/body":
            while (await receive()).get("more_body"):
                pass
        elif path == "/flood":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while True:
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
        elif path == "/wait":
            while (await receive())["type"] != "http.disconnect":
                pass
            self.disconnected.set()
            return
        elif path == "/crash":
            raise RuntimeError("the application fails")
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def serving(
    app: ASGIApp,
    *,
    limits: ConnectionLimits | None = None,
    shutdown: trio.Event | None = None,
    timeout: float = 1.0,
) -> AsyncIterator[int]:
    shutdown = trio.Event() if shutdown is None else shutdown
    async with trio.open_nursery() as nursery:
        urls = await nursery.start(
            partial(serve_asgi, app, bind="127.0.0.1:0", limits=limits, shutdown=shutdown, shutdown_timeout=timeout)
        )
        yield int(urls[0].rpartition(":")[2])
        shutdown.set()


async def ask(port: int, request: bytes = GET) -> bytes:
    """Return the received data until the response is complete or the peer closes."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        got = b""
        with trio.fail_after(30):
            try:
                await stream.send_all(request)
                async for chunk in stream:
                    got += chunk
                    if got.endswith(b"\r\n\r\nok"):
                        break
            except trio.BrokenResourceError:
                pass
        return got


UPGRADE = (
    b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)

HOSTILE = {
    "ws trailing": UPGRADE + b"\r\n" + b"\xff" * 64,
    "ws deflate": UPGRADE
    + b"sec-websocket-extensions: permessage-deflate; client_max_window_bits=abc\r\n\r\n"
    + b"\x81\x85\x00\x00\x00\x00hello",
    "h2c upgrade": b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade, http2-settings\r\nupgrade: h2c\r\n"
    b"http2-settings: !!!!\r\n\r\n",
    "h2 preface only": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "h2 garbage": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 200,
    "garbage": bytes(range(256)) * 8,
    "nul": b"\0" * 100,
    "tls hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x11" * 200,
    "bad version": b"GET / HTTP/9.9\r\nhost: a\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
    "connect": b"CONNECT a:80 HTTP/1.1\r\nhost: a\r\n\r\n",
    "non-ascii target": "GET /é HTTP/1.1\r\nhost: a\r\n\r\n".encode(),
    "percent target": b"GET /%ff%fe%00 HTTP/1.1\r\nhost: a\r\n\r\n",
    "asterisk": b"OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n",
    "absolute": b"GET http://b/x HTTP/1.1\r\nhost: a\r\n\r\n",
    "negative length": b"POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
    "two lengths": b"POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
    "bad chunk": b"POST /body HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    "huge chunk": b"POST /body HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    "bad encoding": b"POST /body HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\n",
    "early answer": b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n" + b"x" * 5000,
    "trailers": b"POST /body HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 9000,
    "folded header": b"GET / HTTP/1.1\r\nhost: a\r\nx: a\r\n b\r\n\r\n",
    "pipelined": GET * 50,
    "expect": b"POST /body HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n",
    "ws without key": b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    "crash": b"GET /crash HTTP/1.1\r\nhost: a\r\n\r\n",
}


async def test_hostile_input_ends_one_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    """Another client on an open connection is served all the while."""
    caplog.set_level(logging.CRITICAL, "mcptrio.http.server")
    async with serving(App()) as port:
        neighbour = await trio.open_tcp_stream("127.0.0.1", port)
        async with neighbour:
            for name, attack in HOSTILE.items():
                stream = await trio.open_tcp_stream("127.0.0.1", port)
                async with stream:
                    try:
                        await stream.send_all(attack)
                        with trio.move_on_after(0.03):
                            while await stream.receive_some():
                                pass
                    except trio.BrokenResourceError:
                        pass
                with trio.fail_after(30):
                    await neighbour.send_all(GET)
                    got = b""
                    while not got.endswith(b"\r\n\r\nok"):
                        chunk = await neighbour.receive_some()
                        assert chunk, name
                        got += chunk


async def test_http2_is_refused_on_a_plain_connection() -> None:
    async with serving(App()) as port:
        assert (await ask(port, HOSTILE["h2 preface only"])).startswith(b"HTTP/1.1 505 ")
        # An upgrade that is not accepted is answered in HTTP/1.1 (RFC 9110 section 7.8).
        assert (await ask(port, HOSTILE["h2c upgrade"])).startswith(b"HTTP/1.1 200 ")


async def test_head_over_the_size_limit_is_refused_even_in_one_packet() -> None:
    async with serving(App(), limits=ConnectionLimits(header_bytes=4096)) as port:
        big = b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 5000 + b"\r\n\r\n"

        assert (await ask(port, big)).startswith(b"HTTP/1.1 431 ")
        assert (await ask(port)).startswith(b"HTTP/1.1 200 ")


async def test_connection_with_a_slow_head_or_idle_is_closed() -> None:
    for first, expected, keep_alive in ((b"GET / HT", 0.1, 60), (b"", 0.3, 0.3)):
        async with serving(App(), limits=ConnectionLimits(header_timeout=0.1, keepalive_timeout=keep_alive)) as port:
            start = trio.current_time()
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            async with stream:
                if first:
                    await stream.send_all(first)
                with trio.fail_after(30):
                    received = b"".join([chunk async for chunk in stream])
                # One of the servers sends the reason.
                assert received == b"" or received.startswith(b"HTTP/1.1 408 ")
                assert expected <= trio.current_time() - start + 0.01


async def test_client_of_a_refused_upload_can_read_the_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing a socket with unread data resets the connection, which would drop the response."""
    monkeypatch.setattr(connection, "_LINGER_TIMEOUT", 30.0)
    async with serving(App()) as port:
        request = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3000000\r\n\r\n"
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(request)
            await trio.sleep(0.02)
            try:
                await stream.send_all(b"x" * 2_000_000)
            except trio.BrokenResourceError:
                pytest.fail("the server reset the connection")
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 ")


async def test_stalled_body_times_out_and_a_slow_application_does_not() -> None:
    app = App()

    async def slow(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/body":
            await trio.sleep(0.5)
        await app(scope, receive, send)

    head = b"POST %b HTTP/1.1\r\nhost: a\r\ncontent-length: 400000\r\n\r\n"
    async with serving(slow, limits=ConnectionLimits(body_timeout=0.2)) as port:
        assert (await ask(port, head % b"/body" + b"x" * 400_000)).endswith(b"ok")
        assert not (await ask(port, head % b"/wait" + b"xx")).startswith(b"HTTP/1.1 200")
        await app.disconnected.wait()


async def test_peer_that_stops_reading_is_disconnected() -> None:
    app = App()
    async with serving(app, limits=ConnectionLimits(write_timeout=0.2)) as port:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(b"GET /flood HTTP/1.1\r\nhost: a\r\n\r\n")
            await eventually(lambda: app.running == 1)
            assert (await ask(port)).endswith(b"ok")
            await trio.sleep(0.3)
            # The writes of an ASGI application never fail; after the disconnect they are dropped at once.
            assert await ask(port)


async def test_stalled_reader_does_not_delay_the_shutdown() -> None:
    shutdown = trio.Event()
    app = App()
    with trio.fail_after(30):
        async with serving(app, shutdown=shutdown, timeout=0.2) as port:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(b"GET /flood HTTP/1.1\r\nhost: a\r\n\r\n")
            await eventually(lambda: app.running == 1)
            shutdown.set()
            start = trio.current_time()
    took = trio.current_time() - start
    await stream.aclose()

    assert took > 0.15
    assert app.running == 0


async def test_stalled_reader_does_not_delay_a_cancellation() -> None:
    start = 0.0
    app = App()
    async with trio.open_nursery() as nursery:
        urls = await nursery.start(partial(serve_asgi, app, bind="127.0.0.1:0", shutdown_timeout=60))
        stream = await trio.open_tcp_stream("127.0.0.1", int(urls[0].rpartition(":")[2]))
        await stream.send_all(b"GET /flood HTTP/1.1\r\nhost: a\r\n\r\n")
        await eventually(lambda: app.running == 1)
        await trio.sleep(0.1)
        start = trio.current_time()
        nursery.cancel_scope.cancel()
    await stream.aclose()

    assert trio.current_time() - start < 20


async def test_idle_connections_do_not_delay_the_shutdown() -> None:
    shutdown = trio.Event()
    async with serving(App(), shutdown=shutdown, timeout=60) as port:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await stream.send_all(GET)
        assert (await stream.receive_some()).endswith(b"ok")
        start = trio.current_time()
        shutdown.set()
        assert await stream.receive_some() == b""
    await stream.aclose()

    assert trio.current_time() - start < 20


async def test_request_in_flight_finishes_during_the_shutdown() -> None:
    shutdown = trio.Event()
    app = App()
    async with serving(app, shutdown=shutdown, timeout=60) as port:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await stream.send_all(b"POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n")
        await eventually(lambda: app.running == 1)
        shutdown.set()
        await trio.sleep(0.05)
        await stream.send_all(b"ab")
        got = await stream.receive_some()
        assert got.endswith(b"ok")
        assert b"connection: close" in got
    await stream.aclose()


async def test_application_receives_a_disconnect_at_once() -> None:
    app = App()
    async with serving(app) as port:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await stream.send_all(b"GET /wait HTTP/1.1\r\nhost: a\r\n\r\n")
        await eventually(lambda: app.running == 1)
        await stream.aclose()
        # Long before any timeout of an idle connection.
        with trio.fail_after(10):
            await app.disconnected.wait()


async def test_connections_over_the_limit_are_closed() -> None:
    app = App()
    async with serving(app, limits=ConnectionLimits(connections=1)) as port:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(b"GET /wait HTTP/1.1\r\nhost: a\r\n\r\n")
            await eventually(lambda: app.running == 1)
            assert (await ask(port, b"")).startswith(b"HTTP/1.1 503 ")
        with trio.fail_after(30):
            while not (await ask(port)).endswith(b"ok"):  # noqa: ASYNC110 - there is no event for it
                await trio.sleep(0.01)


async def test_accept_errors_do_not_end_the_server(caplog: pytest.LogCaptureFixture) -> None:
    """After ``shutdown`` of a listening socket each accept fails with EINVAL, until the socket listens again."""
    shutdown = trio.Event()
    with trio.fail_after(60), socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        bind = [f"fd://{listening.fileno()}", "127.0.0.1:0"]
        async with trio.open_nursery() as nursery:
            urls = await nursery.start(partial(serve_asgi, App(), bind=bind, shutdown=shutdown))
            with caplog.at_level(logging.WARNING, "mcptrio.http.server"):
                listening.shutdown(socket.SHUT_RDWR)
                await eventually(lambda: "could not be accepted" in caplog.text)
                other = next(int(url.rpartition(":")[2]) for url in urls if not url.endswith(f":{port}"))
                assert (await ask(other)).endswith(b"ok")
                await trio.sleep(0.3)
            listening.listen()
            # The system may have assigned another port.
            assert (await ask(listening.getsockname()[1])).endswith(b"ok")
            shutdown.set()

    assert caplog.text.count("could not be accepted") == 1


async def test_unix_socket_is_removed_after_the_shutdown(tmp_path: Path) -> None:
    path = tmp_path / "s"
    shutdown = trio.Event()
    async with trio.open_nursery() as nursery:
        urls = await nursery.start(partial(serve_asgi, App(), bind=f"unix:{path}", shutdown=shutdown))
        assert urls == [f"http://unix:{path}"]
        stream = await trio.open_unix_socket(path)
        async with stream:
            await stream.send_all(GET)
            assert (await stream.receive_some()).endswith(b"ok")
        shutdown.set()

    assert not path.exists()


async def test_response_head_and_body_are_sent_in_one_write() -> None:
    """The receiver's first read contains both."""
    async with serving(App()) as port:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            stream.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(20):
                await stream.send_all(GET)
                assert (await stream.receive_some()).endswith(b"\r\n\r\nok")
