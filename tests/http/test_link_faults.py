"""Faults of servers: each affects only its own request, and the error describes it."""

from __future__ import annotations

import select
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import trio
import trio.testing

from mcptrio.errors import ConnectionClosed, RequestFailed
from mcptrio.http.client.connection_pool import MAX_IDLE_CONNECTIONS
from mcptrio.http.client.dialer import Dialing
from mcptrio.http.client.link import open_http_link
from mcptrio.protocol.messages import ErrorResponse, Notification, Response
from mcptrio.serving import MessageLimits
from mcptrio.testing import Holdings
from tests.error_codes import HEADER_MISMATCH, INVALID_REQUEST, PARSE_ERROR

from .web import BATCHED, HANDSHAKE, MODERN, Handler, ReceivedRequest, Wire, answer, call, eventually, linked, serving

__all__: list[str] = []


def replies(value: Any = None, status: int = 200, **headers: str) -> Handler:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.reply(value, status, **headers)

    return handle


def sends(data: bytes, *, hang_up: bool = True) -> Handler:
    """Send these bytes, and close the connection."""

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.send(data)
        if hang_up:
            wire.hang_up()

    return handle


async def failure(handler: Handler, **options: Any) -> RequestFailed:
    """Return the error of a call; calls to a working server over the same link succeed before and after it."""

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        if seen.message["params"]["name"] == "good":
            await wire.reply(answer(seen))
        else:
            await handler(seen, wire)

    async with linked(handle, **options) as (link, _, _):
        assert await link.exchange(call("good", id=1), MODERN) == Response(1, {})
        with pytest.raises(RequestFailed) as caught:
            await link.exchange(call("bad", id=2), MODERN)
        assert await link.exchange(call("good", id=3), MODERN) == Response(3, {})
    return caught.value


def jsonrpc(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", **members}


WRONG_ANSWERS: list[tuple[Handler, str]] = [
    (replies(b"", content_type="application/json"), "the body is empty"),
    (replies(b""), "the body is empty"),
    (replies(None), "expected application/json or text/event-stream, got no Content-Type"),
    (replies(b"<p>hello</p>", content_type="text/html; charset=utf-8"), "got text/html"),
    (replies(b"{"), "not JSON"),
    (replies(b"\xff"), "not JSON"),
    (replies(jsonrpc(id=99, result={})), "expected a response to 2, got one to 99"),
    (replies(jsonrpc(id=99, error={"code": 1, "message": "no"})), "expected a response to 2, got one to 99"),
    (replies(jsonrpc(id=2, result=None)), "result: expected an object, got null"),
    (replies(jsonrpc(method="notifications/x")), "no response among the messages"),
    (replies([jsonrpc(id=2, result={})]), "a batch, which this protocol revision does not have"),
    (replies(jsonrpc(id=2, result={}), content_encoding="gzip"), "without Content-Encoding, got gzip"),
    (replies(jsonrpc(id=2, result={"x": "y" * 3000})), "a body of 30.. bytes: the limit is 2000 bytes"),
    (sends(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + b" " * 3000), "more than 2000 bytes"),
    (replies(None, 202), "HTTP 202: expected an answer, got none"),
    (replies(None, 204), "HTTP 204: expected an answer, got none"),
]


@pytest.mark.parametrize(("handler", "text"), WRONG_ANSWERS)
async def test_invalid_answer_fails_the_request(handler: Handler, text: str) -> None:
    error = await failure(handler, limits=MessageLimits(bytes=2000))

    with pytest.raises(RequestFailed, match=text):
        raise error
    assert error.status in (200, 202, 204)
    assert error.delivered


BROKEN: list[tuple[Handler, str]] = [
    (sends(b""), "closed the connection without an answer"),
    (sends(b"HTTP/1.1 200 OK\r\nContent-Le"), "without an answer"),
    (sends(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"), "cut off"),
    (sends(b"220 mail.example.com ESMTP\r\n\r\n"), "is not HTTP"),
    (sends(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, hang_up=False), "is not HTTP"),
    (
        sends(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        "is not HTTP: .* before the answer",
    ),
    (
        sends(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9\r\n"
            b"Connection: close\r\n\r\n: hello\n\n"
        ),
        "the stream ended before the answer",
    ),
]


@pytest.mark.parametrize(("handler", "text"), BROKEN)
async def test_broken_connection_fails_the_request(handler: Handler, text: str) -> None:
    error = await failure(handler)

    with pytest.raises(RequestFailed, match=text):
        raise error
    assert error.status is None
    assert error.delivered


async def test_refusal_with_a_json_rpc_error_reports_that_error() -> None:
    body = jsonrpc(id=2, error={"code": HEADER_MISMATCH, "message": "header mismatch", "data": {"header": "Mcp-Name"}})
    error = await failure(replies(body, 400))

    assert error.status == 400
    assert error.reply is not None
    assert (error.reply.code, error.reply.message) == (HEADER_MISMATCH, "header mismatch")
    assert error.reply.data == {"header": "Mcp-Name"}
    assert str(error) == "HTTP 400: header mismatch"


@pytest.mark.parametrize("status", [400, 500])
async def test_credentials_repeated_by_a_server_are_not_shown(status: int) -> None:
    async def echo(seen: ReceivedRequest, wire: Wire) -> None:
        echoed = f"echo {seen.headers['authorization']} {seen.headers['x-api-key']}"
        if status == 400:
            await wire.reply(jsonrpc(id=2, error={"code": INVALID_REQUEST, "message": echoed}), status)
        else:
            await wire.reply(echoed.encode(), status, content_type="text/plain")

    headers = {"Authorization": "Bearer TOPSECRET-TOKEN", "X-Api-Key": "sk-123456"}
    async with linked(echo, headers=headers) as (link, _, _):
        with pytest.raises(RequestFailed) as failed:
            await link.exchange(call(2), MODERN)

    assert str(failed.value) == f"HTTP {status}: echo *** ***"
    if failed.value.reply is not None:
        assert failed.value.reply.message == "echo *** ***"


async def test_refusal_with_a_web_page_quotes_its_text() -> None:
    page = "<html>\r\n<h1>\x1b[31mBad\u202e Gateway</h1>\n" + "x" * 100_000
    error = await failure(replies(page.encode(), 502, content_type="text/html"))

    assert error.status == 502
    assert error.reply is None
    assert str(error).startswith(
        "HTTP 502: expected an answer of an MCP server, got a web page: \ufffd[31mBad\ufffd Gateway xxx"
    )
    assert len(str(error)) < 310


async def test_refusal_with_a_titled_web_page_quotes_the_title() -> None:
    page = b"<!DOCTYPE html><HTML><head><title>502\nBad Gateway</title></head><body>nginx</body></HTML>"
    error = await failure(replies(page, 502, content_type="text/html"))

    assert str(error) == "HTTP 502: expected an answer of an MCP server, got a web page: 502 Bad Gateway"


async def test_refusal_without_a_body_reports_the_status() -> None:
    error = await failure(replies(None, 503))

    assert str(error) == "HTTP 503"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirect_is_not_followed(status: int) -> None:
    location = "https://user:secret@elsewhere.example/mcp?token=secret"
    error = await failure(replies(None, status, location=location))

    assert error.status == status
    assert str(error) == f"HTTP {status}: the server redirects to 'https://elsewhere.example/mcp'; use that URL"


async def test_endless_body_of_a_refusal_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    async def drips(seen: ReceivedRequest, wire: Wire) -> None:
        # In one piece, since the link does not wait long for the rest.
        await wire.send(b"HTTP/1.1 500 No\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\nwell, ")
        await wire.wait_closed()

    monkeypatch.setattr("mcptrio.http.client.responses.ERROR_BODY_TIMEOUT", 0.1)
    error = await failure(drips)

    assert str(error) == "HTTP 500: well,"


async def test_refused_connection_fails_the_request() -> None:
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    async with open_http_link(f"http://127.0.0.1:{port}/mcp?key=secret", print) as link:
        with pytest.raises(RequestFailed, match="refused") as caught:
            await link.exchange(call(), MODERN)

    assert not caught.value.delivered
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_unknown_host_fails_the_request() -> None:
    async with open_http_link("http://no-such-host.invalid/mcp", print) as link:
        with (
            trio.fail_after(60),
            pytest.raises(RequestFailed, match=r"cannot connect to no-such-host\.invalid") as caught,
        ):
            await link.exchange(call(), MODERN)

    assert not caught.value.delivered


@contextmanager
def full_listener() -> Iterator[int]:
    """Yield the port of a listener whose queue is full, so connection attempts get no response."""
    with socket.socket() as listener, ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        waiting = [stack.enter_context(socket.socket()) for _ in range(5)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        # The queue accepts one connection more than its length.
        for each in waiting[:2]:
            assert select.select([], [each], [], 30)[1]
        yield listener.getsockname()[1]


async def test_connection_attempt_times_out() -> None:
    with full_listener() as port:
        async with open_http_link(f"http://127.0.0.1:{port}/", print, dialing=Dialing(connect_timeout=0.1)) as link:
            with trio.fail_after(30), pytest.raises(RequestFailed, match=r"within 0.1 seconds") as caught:
                await link.exchange(call(), MODERN)

    assert not caught.value.delivered


async def test_http10_server_is_supported() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        body = b'{"jsonrpc":"2.0","id":%d,"result":{}}' % seen.message["id"]
        await wire.send(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + body)
        wire.hang_up()

    async with linked(handle) as (link, web, _):
        for id in range(3):
            assert await link.exchange(call(id=id), MODERN) == Response(id, {})
        assert web.connections == 3


async def test_informational_responses_are_skipped() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
        await wire.reply(answer(seen))

    async with linked(handle) as (link, _, _):
        assert await link.exchange(call(), MODERN) == Response(1, {})


async def test_surplus_response_is_not_used_for_the_next_request() -> None:
    """If the surplus arrives too late to be noticed, the next request fails and the connection closes."""

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.reply(answer(seen, n=1))
        await wire.reply(answer(seen, n=2))

    failures: list[str] = []
    async with linked(handle) as (link, _, _):
        for id in range(50):
            try:
                assert await link.exchange(call(id=id), MODERN) == Response(id, {"n": 1})
            except RequestFailed as error:
                failures.append(str(error))
    assert len(failures) <= 25
    assert all("expected a response to" in failure for failure in failures)


async def test_refusal_during_the_upload_is_received() -> None:
    """The server reads the head, refuses and closes; its response arrives although it has not read the body."""

    async def handle(stream: trio.SocketStream) -> None:
        await stream.receive_some(100)
        await stream.send_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await stream.send_eof()
        with trio.move_on_after(30):
            while await stream.receive_some():
                pass
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, handle, 0)
        port = listeners[0].socket.getsockname()[1]
        async with open_http_link(f"http://127.0.0.1:{port}/", print) as link:
            with trio.fail_after(30), pytest.raises(RequestFailed, match="HTTP 413"):
                await link.exchange(call(arguments={"x": "y" * 3_000_000}), MODERN)
        nursery.cancel_scope.cancel()


async def test_answer_sent_byte_by_byte_is_read() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        data = b'{"jsonrpc":"2.0","id":1,"result":{"slow":true}}'
        whole = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(data), data)
        for byte in whole:
            await wire.send(bytes([byte]))
            await trio.lowlevel.checkpoint()

    async with linked(handle) as (link, _, _):
        assert await link.exchange(call(), MODERN) == Response(1, {"slow": True})


async def test_error_without_an_id_answers_the_request() -> None:
    """The server could not read the id of the only request."""
    body = jsonrpc(error={"code": PARSE_ERROR, "message": "what?"})
    async with linked(replies(body)) as (link, _, _):
        assert await link.exchange(call(), MODERN) == ErrorResponse(1, PARSE_ERROR, "what?")


async def test_numeric_id_returned_as_a_string_answers_the_request() -> None:
    async with linked(replies(jsonrpc(id="7", result={}))) as (link, _, _):
        assert await link.exchange(call(id=7), MODERN) == Response(7, {})


async def test_array_is_accepted_in_the_revision_with_batches() -> None:
    body = [jsonrpc(method="notifications/a"), jsonrpc(id=9, result={}), 5, jsonrpc(id=1, result={"ours": True})]
    async with linked(replies(body)) as (link, _, received):
        assert await link.exchange(call(), BATCHED) == Response(1, {"ours": True})
        with pytest.raises(RequestFailed, match="expected a response to 2, got one to 9"):
            await link.exchange(call(id=2), BATCHED)

    assert received == [Notification("notifications/a")] * 2


@pytest.mark.parametrize("revision", [MODERN, HANDSHAKE])
async def test_cancelled_exchange_closes_its_connection_at_once(revision: Any) -> None:
    waiting, gone = trio.Event(), trio.Event()

    async def never(seen: ReceivedRequest, wire: Wire) -> None:
        waiting.set()
        await wire.wait_closed()
        gone.set()

    async with linked(never) as (link, _, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.exchange, call(), revision)
            await waiting.wait()
            nursery.cancel_scope.cancel()
        await gone.wait()


async def test_broken_exchange_does_not_affect_another() -> None:
    both = trio.Event()

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        if len(web.seen) == 2:
            both.set()
        await both.wait()
        if seen.message["id"] == 1:
            wire.hang_up()
        else:
            await trio.sleep(0.05)
            await wire.reply(answer(seen))

    outcomes: dict[int, Any] = {}

    async def ask(id: int) -> None:
        try:
            outcomes[id] = await link.exchange(call(id=id), MODERN)
        except RequestFailed as error:
            outcomes[id] = error

    async with linked(handle) as (link, web, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, 1)
            nursery.start_soon(ask, 2)

    assert isinstance(outcomes[1], RequestFailed)
    assert outcomes[2] == Response(2, {})


async def test_sequential_calls_share_one_connection() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.reply(answer(seen))

    async with linked(handle) as (link, web, _):
        await link.exchange(call(), MODERN)
        before = Holdings.now()
        for id in range(1000):
            await link.exchange(call(id=id), MODERN)
        assert web.connections == 1
        assert Holdings.now().since(before) == []


async def test_few_connections_are_kept_after_many_concurrent_calls() -> None:
    together = trio.Event()

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        if len(web.seen) == 150:
            together.set()
        await together.wait()
        await wire.reply(answer(seen))

    async with linked(handle) as (link, web, _):
        async with trio.open_nursery() as nursery:
            for id in range(150):
                nursery.start_soon(link.exchange, call(id=id), MODERN)
        assert web.connections == 150
        await eventually(lambda: web.open <= MAX_IDLE_CONNECTIONS)


async def test_idle_connection_closed_by_the_server_is_not_reused() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.reply(answer(seen))
        wire.hang_up()

    async with linked(handle) as (link, web, _):
        for id in range(20):
            await link.exchange(call(id=id), MODERN)
            await eventually(lambda: not web.open)
        assert web.connections == 20


@pytest.mark.parametrize(
    "use",
    [
        lambda link: link.exchange(call(), MODERN),
        lambda link: link.send(Notification("notifications/x"), MODERN),
    ],
)
async def test_request_on_a_closed_link_fails(use: Callable[[Any], Awaitable[Any]]) -> None:
    async with open_http_link("http://127.0.0.1:1/", print) as link:
        assert not link.closed
    assert link.closed
    with pytest.raises(ConnectionClosed):
        await use(link)
    assert "closed" in await link.wait_closed()


async def test_closing_the_link_fails_pending_requests() -> None:
    waiting = trio.Event()
    outcomes: list[str] = []

    async def never(seen: ReceivedRequest, wire: Wire) -> None:
        if len(web.seen) == 3:
            waiting.set()
        await wire.wait_closed()

    async def ask() -> None:
        with pytest.raises(ConnectionClosed):
            await link.exchange(call(), MODERN)
        outcomes.append("closed")

    async def watch() -> None:
        outcomes.append(await link.wait_closed())

    with trio.fail_after(30):
        async with serving(never) as web, trio.open_nursery() as nursery:
            async with open_http_link(web.url, print) as link:
                for _ in range(3):
                    nursery.start_soon(ask)
                nursery.start_soon(watch)
                await waiting.wait()

    assert sorted(outcomes) == ["closed", "closed", "closed", "the client has closed the connection"]


async def test_closing_the_link_fails_connection_attempts() -> None:
    async def ask() -> None:
        with pytest.raises(ConnectionClosed):
            await link.exchange(call(), MODERN)

    with full_listener() as port, trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            async with open_http_link(f"http://127.0.0.1:{port}/", print) as link:
                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked(0.05)
