"""The application receives the request unchanged, and its response is sent unchanged."""

from __future__ import annotations

import contextvars
import logging
import sys
from collections.abc import MutableMapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from mcptrio.http.client_address import Proxies
from mcptrio.http.engine.limits import ConnectionLimits
from mcptrio.http.engine.server import run_engine
from mcptrio.http.engine.server import serve_asgi as serve
from mcptrio.http.exchange import EXTENSION
from tests.http.engine.served import POST, UPGRADE, Receive, Send, answering, connected, serving

__all__: list[str] = []


async def test_asgi_scope_contains_the_request() -> None:
    scopes: list[MutableMapping[str, Any]] = []

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        scopes.append(scope)
        await answering({"status": 200}, {})(scope, receive, send)

    async with serving(app) as port, connected(port) as client:
        await client.ask("PUT", "/a%20b/%C3%A9?c=d%20e", **{"X-Own": "v"})
        sent_from = client.stream.socket.getsockname()

    (scope,) = scopes
    assert (scope["type"], scope["method"], scope["http_version"], scope["scheme"]) == ("http", "PUT", "1.1", "http")
    assert (scope["path"], scope["raw_path"], scope["query_string"]) == ("/a b/é", b"/a%20b/%C3%A9", b"c=d%20e")
    assert (b"x-own", b"v") in scope["headers"]
    assert scope["client"] == sent_from
    assert scope["server"] == ("127.0.0.1", port)
    assert scope["root_path"] == ""


async def test_complete_response_has_content_length_and_date() -> None:
    async with serving(answering({"status": 201}, {"body": b"hello"})) as port, connected(port) as client:
        status, headers, body = await client.ask()

    assert (status, headers[b"content-length"], body) == (201, b"5", b"hello")
    assert headers[b"date"].endswith(b" GMT")
    assert b"transfer-encoding" not in headers


async def test_streamed_response_is_chunked_and_the_connection_continues() -> None:
    app = answering(
        {"status": 200}, {"body": b"a", "more_body": True}, {"body": b"", "more_body": True}, {"body": b"b"}
    )
    async with serving(app) as port, connected(port) as client:
        for _ in range(2):
            status, headers, body = await client.ask()
            assert (status, headers[b"transfer-encoding"], body) == (200, b"chunked", b"ab")


async def test_streamed_response_to_http10_ends_with_the_connection() -> None:
    app = answering({"status": 200}, {"body": b"a", "more_body": True}, {"body": b"b"})
    async with serving(app) as port:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
            received = b"".join([chunk async for chunk in stream])

    head, _, body = received.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    assert body == b"ab"


async def test_http10_connection_stays_open_only_with_keep_alive() -> None:
    async with serving(answering({"status": 200}, {"body": b"ok"})) as port:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            for _ in range(2):
                await stream.send_all(b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
                assert b"connection: keep-alive" in await stream.receive_some()
            await stream.send_all(b"GET / HTTP/1.0\r\n\r\n")
            received = b"".join([chunk async for chunk in stream])

    assert b"connection: close" in received
    assert received.endswith(b"ok")


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
async def test_body_of_a_bodiless_response_is_not_sent(method: str, status: int) -> None:
    """A body that the application sends must not be read as the next response."""
    app = answering({"status": status, "headers": [(b"content-length", b"5")]}, {"body": b"hello"})
    async with serving(app) as port, connected(port) as client:
        for _ in range(2):
            got, headers, body = await client.ask(method)
            assert (got, body) == (status, b"")
            assert (b"content-length" in headers) == (status != 204)


async def test_asgi_body_arrives_in_parts_before_the_disconnect() -> None:
    events: list[Any] = []
    first, second, notified = trio.Event(), trio.Event(), trio.Event()

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        for heard in (first, second, notified):
            events.append(await receive())
            heard.set()

    async with serving(app) as port:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(POST % (6, b"abc"))
            await first.wait()
            await stream.send_all(b"def")
            await second.wait()
        await notified.wait()

    assert [each["type"] for each in events] == ["http.request", "http.request", "http.disconnect"]
    assert [each.get("body") for each in events] == [b"abc", b"def", None]
    assert [each.get("more_body") for each in events] == [True, False, None]


async def test_large_body_waits_for_a_slow_application() -> None:
    """Unread data stays in the socket buffers, which 20 MB exceed, so the client has to wait."""
    go = trio.Event()
    sizes: list[int] = []

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        await go.wait()
        more = True
        while more:
            event = await receive()
            sizes.append(len(event["body"]))
            more = event["more_body"]
        await answering({"status": 200}, {})(scope, receive, send)

    async with serving(app) as port, connected(port) as client, trio.open_nursery() as nursery:
        finished = trio.Event()

        async def upload() -> None:
            await client.stream.send_all(POST % (20_000_000, b"x" * 20_000_000))
            finished.set()

        nursery.start_soon(upload)
        with trio.move_on_after(0.2):
            await finished.wait()
        assert not finished.is_set()
        go.set()
        await finished.wait()
        assert (await client.stream.receive_some()).startswith(b"HTTP/1.1 200")

    assert sum(sizes) == 20_000_000
    assert max(sizes) < 1_000_000


async def test_100_continue_is_sent_when_the_body_is_read() -> None:
    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["path"] == "/take":
            await receive()
        await answering({"status": 200}, {"body": b"ok"})(scope, receive, send)

    head = b"POST %b HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n"
    async with serving(app) as port:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(head % b"/take")
            assert await stream.receive_some() == b"HTTP/1.1 100 Continue\r\n\r\n"
            await stream.send_all(b"abc")
            assert (await stream.receive_some()).endswith(b"ok")
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(head % b"/leave")
            received = b"".join([chunk async for chunk in stream])
    assert received.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close" in received, "the client may send the body or not: the server cannot tell what follows"


async def test_pipelined_requests_are_answered_in_order() -> None:
    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        await trio.sleep(0.02 if scope["path"] == "/0" else 0)
        await answering({"status": 200}, {"body": scope["path"].encode()})(scope, receive, send)

    async with serving(app) as port:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            requests = [b"GET /%d HTTP/1.1\r\nhost: a\r\n\r\n" % number for number in range(100)]
            requests[-1] = requests[-1].replace(b"host", b"connection: close\r\nhost")
            await stream.send_all(b"".join(requests))
            received = b"".join([chunk async for chunk in stream])

    assert [int(part.split(b"HTTP", 1)[0]) for part in received.split(b"\r\n\r\n/")[1:]] == list(range(100))


async def test_pipelined_requests_let_other_tasks_run_between_them() -> None:
    waiting, go, served = trio.Event(), trio.Event(), []

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if not served:
            waiting.set()
            await go.wait()
        served.append(scope["path"])
        await answering({"status": 200}, {"body": b"ok"})(scope, receive, send)

    async with serving(app) as port, await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 10)
        await waiting.wait()
        await trio.testing.wait_all_tasks_blocked()
        go.set()
        while len(served) < 10:
            before = len(served)
            await trio.lowlevel.checkpoint()
            assert len(served) - before <= 2


async def test_half_closed_client_still_receives_its_response() -> None:
    async with serving(answering({"status": 200}, {"body": b"ok"})) as port:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 3)
            await stream.send_eof()
            received = b"".join([chunk async for chunk in stream])

    assert received.count(b"HTTP/1.1 200 OK") == 3


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], 500),
        ([{"status": 200}], 500),
        ([{"body": b"x"}], 500),
        ([{"status": 200, "headers": [(b"x", b"a\r\nset-cookie: b")]}, {"body": b""}], 500),
        ([{"status": 200, "headers": [(b"x", b"a\nb")]}, {"body": b""}], 500),
        ([{"status": 200}, {"status": 200}], 500),
        ([{"status": 200, "headers": [(b"content-length", b"3")]}, {"body": b"abcde"}], 500),
    ],
)
async def test_asgi_violation_of_an_application_is_answered_with_500(
    events: list[dict[str, Any]], expected: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(answering(*events)) as port, connected(port) as client:
        status, headers, _ = await client.ask()

    assert status == expected
    assert b"set-cookie" not in headers
    assert caplog.records[-1].name == "mcptrio.http.server"


@pytest.mark.parametrize("body", [b"ab", b"abcde"])
async def test_response_that_contradicts_its_content_length_closes_the_connection(body: bytes) -> None:
    app = answering({"status": 200, "headers": [(b"content-length", b"3")]}, {"body": body})
    async with serving(app) as port:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 2)
            try:
                received = b"".join([chunk async for chunk in stream])
            except trio.BrokenResourceError:
                received = b""

    assert received.count(b"HTTP/1.1 200") <= 1
    assert b"abcd" not in received


async def test_application_error_within_a_response_ends_that_response_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        await answering({"status": 200}, {"body": b"a", "more_body": True})(scope, receive, send)
        raise ValueError("secret")

    async with serving(app) as port:
        for _ in range(2):
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
                received = b"".join([chunk async for chunk in stream])
            assert received.endswith(b"1\r\na\r\n")
            assert b"secret" not in received
    assert "the application failed" in caplog.text


async def test_state_of_a_request_is_not_visible_to_the_next() -> None:
    """One worker serves both requests."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="nothing")

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        found = variable.get()
        variable.set("mine")
        await trio.lowlevel.checkpoint()
        assert variable.get() == "mine"
        await answering({"status": 200}, {"body": found.encode()})(scope, receive, send)

    async with serving(app) as port, connected(port) as client:
        assert [(await client.ask())[2] for _ in range(3)] == [b"nothing"] * 3


async def test_disconnect_callback_needs_no_task() -> None:
    bodies: list[bytes | None] = []
    left = trio.Event()
    began = trio.Event()

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        exchange = scope["extensions"][EXTENSION]
        bodies.extend([exchange.body_now(), exchange.body_now()])
        began.set()
        await exchange.while_connected(left.wait, left.set)
        again = trio.Event()
        await exchange.while_connected(trio.lowlevel.checkpoint, again.set)
        assert again.is_set(), "it has already left"

    async with serving(app) as port:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(POST % (3, b"abc"))
            await began.wait()
            assert not left.is_set()
        await left.wait()

    assert bodies == [b"abc", None]


async def test_body_that_arrives_after_its_head_is_received() -> None:
    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        assert scope["extensions"][EXTENSION].body_now() is None
        body = b""
        more = True
        while more:
            event = await receive()
            body, more = body + event["body"], event["more_body"]
        await answering({"status": 200}, {"body": body})(scope, receive, send)

    async with serving(app) as port:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(POST % (6, b"abc"))
            await trio.sleep(0.02)
            await stream.send_all(b"def")
            assert (await stream.receive_some()).endswith(b"abcdef")


async def test_100_continue_is_not_sent_within_a_response() -> None:
    """Many frameworks wait for the disconnect while they stream."""

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["path"] == "/read":
            await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        await send({"type": "http.response.body", "body": b"two"})

    async with serving(app) as port:
        for path in (b"/read", b"/leave"):
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                head = b"POST %b HTTP/1.1\r\nhost: a\r\nconnection: close\r\nexpect: 100-continue\r\n" % path
                await stream.send_all(head + b"content-length: 3\r\n\r\nabc")
                received = b"".join([chunk async for chunk in stream])
            assert received.partition(b"\r\n\r\n")[2] == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
            assert b" 100 " not in received


@pytest.mark.parametrize("answers", [False, True], ids=["silent", "answering"])
async def test_stalled_request_body_times_out(answers: bool) -> None:
    notified = trio.Event()

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        notified.set()
        if answers:
            await answering({"status": 418}, {"body": b"late"})(scope, receive, send)

    async with serving(app, limits=ConnectionLimits(body_timeout=0.2)) as port:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(POST % (10, b"ab"))
            received = b"".join([chunk async for chunk in stream])

    assert notified.is_set()
    assert received.startswith(b"HTTP/1.1 418 " if answers else b"HTTP/1.1 408 ")


async def test_body_that_is_not_requested_does_not_time_out() -> None:
    """Time in which the server does not read, or the application does not receive, is no stall of the client."""

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        await trio.sleep(0.5)
        size, more = 0, True
        while more:
            event = await receive()
            size, more = size + len(event["body"]), event["more_body"]
        await answering({"status": 200}, {"body": b"%d" % size})(scope, receive, send)

    async with serving(app, limits=ConnectionLimits(body_timeout=0.1)) as port:
        async with connected(port) as client:
            assert (await client.ask("POST", body=b"x" * 500_000))[2] == b"500000"
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n")
            assert await stream.receive_some() == b"HTTP/1.1 100 Continue\r\n\r\n"
            await stream.send_all(b"abc")
            assert (await stream.receive_some()).endswith(b"\r\n\r\n3")


async def test_client_that_half_closes_during_a_call_gets_no_error_status() -> None:
    """It counts as disconnected: neither a status nor a close code blames the server."""

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
        while not (await receive())["type"].endswith(".disconnect"):
            pass

    async with serving(app) as port:
        for request, answer in ((UPGRADE % b"/", b"HTTP/1.1 101 "), (b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", b"")):
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(request)
                if answer:
                    assert (await stream.receive_some()).startswith(answer)
                await stream.send_eof()
                assert b"".join([chunk async for chunk in stream]) == b""


async def test_connection_over_the_limit_closes_the_longest_idle_one() -> None:
    limits = ConnectionLimits(connections=3, address_share=1.0)
    async with serving(answering({"status": 200}, {"body": b"ok"}), limits=limits) as port, AsyncExitStack() as stack:
        old, silent, young = [await stack.enter_async_context(connected(port)) for _ in range(3)]
        for client in (old, young, old):
            await client.ask()
        newest = await stack.enter_async_context(connected(port))
        assert (await newest.ask())[0] == 200
        assert await silent.stream.receive_some() == b""
        another = await stack.enter_async_context(connected(port))
        assert (await another.ask())[0] == 200
        assert await young.stream.receive_some() == b""
        assert (await old.ask())[0] == 200


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
@pytest.mark.parametrize("trusted", [(), ("127.0.0.1",)], ids=["client", "proxy"])
async def test_connections_of_one_address_are_limited(trusted: tuple[str, ...]) -> None:
    shutdown = trio.Event()
    asked = trio.Semaphore(0)

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            asked.release()
            while (await receive())["type"] != "http.disconnect":
                pass

    async def ask(address: str) -> trio.SocketStream:
        stream = await trio.open_tcp_stream("127.0.0.1", port, local_address=address)
        stack.push_async_callback(stream.aclose)
        await stream.send_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        return stream

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
            start = partial(
                run_engine, app, bind="127.0.0.1:0", limits=ConnectionLimits(connections=4), shutdown=shutdown
            )
            (url,) = await nursery.start(partial(start, proxies=Proxies.of(trusted)))
            port = int(url.rpartition(":")[2])
            for address in ("127.0.0.1", "127.0.0.1", *trusted, "127.0.0.2"):
                await ask(address)
                await asked.acquire()
            if not trusted:
                refused = await ask("127.0.0.1")
                assert (await refused.receive_some()).startswith(b"HTTP/1.1 503 ")
            await stack.aclose()
            shutdown.set()


async def test_unread_stream_does_not_delay_others(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while scope["path"] == "/flood":
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
        await send({"type": "http.response.body", "body": b"ok"})

    async with serving(app, limits=ConnectionLimits(write_timeout=0.3)) as port, connected(port) as other:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"GET /flood HTTP/1.1\r\nhost: a\r\n\r\n")
            await stream.receive_some(1)
            for _ in range(20):
                assert (await other.ask())[2] == b"ok"


async def test_lifespan_starts_and_stops_and_its_state_is_in_each_scope() -> None:
    messages: list[str] = []

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for _ in range(2):
                event = await receive()
                messages.append(event["type"])
                scope["state"]["pool"] = "open"
                await send({"type": event["type"] + ".complete"})
        else:
            await answering({"status": 200}, {"body": scope["state"]["pool"].encode()})(scope, receive, send)

    shutdown = trio.Event()
    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(partial(serve, app, bind="127.0.0.1:0", shutdown=shutdown))
        async with connected(int(url.rpartition(":")[2])) as client:
            assert (await client.ask())[2] == b"open"
        shutdown.set()

    assert messages == ["lifespan.startup", "lifespan.shutdown"]


async def test_application_that_cannot_start_is_not_served() -> None:
    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    with pytest.RaisesGroup(
        pytest.RaisesExc(RuntimeError, match="startup has failed: no database"), flatten_subgroups=True
    ):
        await serve(app, bind="127.0.0.1:0")


async def test_response_continues_without_its_application_and_the_next_follows() -> None:
    parted: list[Any] = []

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        exchange = scope["extensions"][EXTENSION]
        if scope["path"] == "/whole":
            await answering({"status": 200}, {"body": b"whole"})(scope, receive, send)
            return
        exchange.begin(200, [])
        assert exchange.write_now(b"first") == b""
        exchange.keep_open()
        parted.append(exchange)

    async with serving(app) as port, connected(port) as client:
        await client.stream.send_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\nGET /whole HTTP/1.1\r\nhost: a\r\n\r\n")
        got = b""
        while b"first" not in got:
            got += await client.stream.receive_some()
        (exchange,) = parted
        assert exchange.write_now(b"second") == b""
        await trio.testing.wait_all_tasks_blocked()
        assert b"whole" not in got
        await exchange.finish(b"third")
        exchange.close()
        while b"whole" not in got:
            got += await client.stream.receive_some()
        # The second one connects when the server no longer knows any request.
        await client.stream.send_all(b"GET /whole HTTP/1.1\r\nhost: a\r\n\r\n")
        while got.count(b"whole") < 2:
            got += await client.stream.receive_some()

    first, second, third, whole = (got.index(word) for word in (b"second", b"third", b"0\r\n\r\n", b"whole"))
    assert first < second < third < whole


async def test_disconnect_from_a_kept_open_response_calls_back_and_closes_the_connection() -> None:
    left = trio.Event()
    exchanges: list[Any] = []

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        exchange = scope["extensions"][EXTENSION]
        exchanges.append(exchange)
        await exchange.while_connected(trio.lowlevel.checkpoint, left.set)
        exchange.begin(200, [])
        exchange.write_now(b"first")
        exchange.keep_open()

    async with serving(app) as port:
        async with connected(port) as client:
            await client.stream.send_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            await client.stream.receive_some()
            assert not left.is_set()
            await client.stream.send_eof()
            await left.wait()
            exchanges[0].close()
            # The response was not complete, so the connection is closed at its end.
            while await client.stream.receive_some():
                pass
