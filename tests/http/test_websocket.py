"""MCP over WebSocket on real sockets: refusals before the upgrade, close codes, and hostile clients."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from attrs import define, field

from mcptrio import Server, tool
from mcptrio.abc import Principal
from mcptrio.errors import AuthorizationError
from mcptrio.http.engine.limits import ConnectionLimits
from mcptrio.http.engine.server import serve_asgi
from mcptrio.protocol.envelope import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from mcptrio.serve.http_options import make_http_app
from mcptrio.serving import HTTPOptions, MessageLimits, ServerLimits, Timeouts
from tests.error_codes import INVALID_REQUEST, PARSE_ERROR
from tests.function_guard import FunctionGuard
from tests.http.raw_websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    TEXT,
    Refused,
    Socket,
    frame,
    upgrade,
)
from tests.server_options import server_options

__all__: list[str] = []

SERVE = partial(serve_asgi, limits=ConnectionLimits(write_timeout=0.5))
"""Serves the ASGI application, and closes a connection that reads nothing for half a second."""

MODERN = {PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {}}


@define
class Tools:
    begun: trio.Event = field(factory=trio.Event)
    go: trio.Event = field(factory=trio.Event)
    cancelled: trio.Event = field(factory=trio.Event)

    @tool
    async def echo(self, text: str) -> str:
        """Return the text."""
        return text

    @tool
    async def wait(self) -> str:
        """Wait."""
        self.begun.set()
        try:
            await self.go.wait()
        except trio.Cancelled:
            self.cancelled.set()
            raise
        return "waited"

    async def has_begun(self) -> None:
        with trio.fail_after(30):
            await self.begun.wait()

    @tool
    async def much(self, size: int) -> str:
        """Return a long text."""
        return "x" * size


def calling(name: str, *, id: int = 1, **arguments: Any) -> dict[str, Any]:
    """A call with its own envelope."""
    params = {"name": name, "arguments": arguments, "_meta": MODERN}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def text_of(answer: Any) -> str:
    text: str = answer["result"]["content"][0]["text"]
    return text


@define(eq=False)
class Served:
    port: int
    server: Server
    shutdown: trio.Event
    closed: trio.Event

    @asynccontextmanager
    async def connected(self, *headers: str, path: str = "/ws") -> AsyncIterator[Socket]:
        socket = await Socket.open(self.port, upgrade(self.port, path, *headers))
        try:
            yield socket
        finally:
            socket.cut()

    async def refused(self, *headers: str, **how: Any) -> Refused:
        with pytest.raises(Refused) as caught:
            await Socket.open(self.port, upgrade(self.port, how.pop("path", "/ws"), *headers, **how))
        return caught.value

    async def post(self, *headers: str, host: str | None = None) -> int:
        """Return the status of a POST to the endpoint with the same headers."""
        lines = [
            "POST /mcp HTTP/1.1",
            f"host: {host or f'127.0.0.1:{self.port}'}",
            "content-type: application/json",
            "content-length: 2",
            "connection: close",
            *headers,
        ]
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
            await stream.send_all("\r\n".join([*lines, "", "{}"]).encode("latin-1"))
            answer = b""
            with trio.fail_after(30):
                while b"\r\n\r\n" not in answer:
                    answer += await stream.receive_some()
        return int(answer[9:12])

    async def until(self, claim: Callable[[], bool]) -> None:
        with trio.fail_after(30):
            while not claim():  # noqa: ASYNC110 - no event reports it
                await trio.sleep(0.01)

    async def until_empty(self) -> None:
        await self.until(lambda: self.server.status.sessions == ())


@define(eq=False)
class Start:
    serve: Any
    nursery: trio.Nursery
    served: list[Served] = field(factory=list)

    async def __call__(
        self,
        *plugins: object,
        options: HTTPOptions | None = None,
        connection: ConnectionLimits | None = None,
        **more: Any,
    ) -> Served:
        """Run a server on a free port. The other parameters are those of :class:`Server`."""
        server = Server("tested", plugins=plugins, **server_options(more))
        options = options or HTTPOptions()
        shutdown, closed = trio.Event(), trio.Event()
        port = await self.nursery.start(self._run, server, options, connection, shutdown, closed)
        self.served.append(Served(port, server, shutdown, closed))
        return self.served[-1]

    async def _run(
        self,
        server: Server,
        options: HTTPOptions,
        connection: ConnectionLimits | None,
        shutdown: trio.Event,
        closed: trio.Event,
        *,
        task_status: trio.TaskStatus[int],
    ) -> None:
        app = make_http_app(server, options)
        async with server.open(), trio.open_nursery() as nursery:
            await nursery.start(app.run)
            async with trio.open_nursery() as connections:
                serve = partial(self.serve, app, bind="127.0.0.1:0", shutdown=shutdown, shutdown_timeout=60.0)
                if connection is not None:
                    serve = partial(serve, limits=connection)
                urls = await connections.start(serve)
                task_status.started(int(urls[0].rpartition(":")[2]))
                await shutdown.wait()
                await server.supervisor.drain()
                connections.cancel_scope.deadline = trio.current_time() + 60.0
            nursery.cancel_scope.cancel()
        closed.set()


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    async with trio.open_nursery() as nursery:
        start = Start(SERVE, nursery)
        yield start
        for served in start.served:
            served.shutdown.set()
        with trio.fail_after(60):
            for served in start.served:
                await served.closed.wait()


# Sessions


async def test_handshake_revision_is_served_in_a_session(start: Start) -> None:
    served = await start()

    async with served.connected() as socket:
        assert socket.accepted["sec-websocket-protocol"] == "mcp"
        assert (await socket.initialize("2025-11-25"))["protocolVersion"] == "2025-11-25"
        assert await socket.ask("ping", id=7) == {"jsonrpc": "2.0", "id": 7, "result": {}}
        assert [each.name for each in served.server.status.sessions] == ["websocket"]
        await socket.close()
        assert await socket.receive() == 1000
        await socket.wait_closed()
    await served.until_empty()


async def test_message_after_a_large_one_waits_for_its_time_share(start: Start) -> None:
    served = await start(options=HTTPOptions(parse_share=1e-6))

    async with served.connected() as socket:
        await socket.initialize("2025-11-25")
        assert await socket.ask("ping", {"items": [{"a": [1, 2, 3]}] * 2000}, id=7) is not None
        with trio.move_on_after(0.2) as scope:
            await socket.ask("ping", id=8)
        assert scope.cancelled_caught
        await socket.close()


async def test_requests_with_an_envelope_are_served_without_a_handshake(start: Start) -> None:
    served = await start(Tools())

    async with served.connected() as socket:
        await socket.message(calling("echo", text="größer"))
        assert text_of(await socket.receive()) == "größer"


async def test_batch_and_its_answer_are_one_message_each(start: Start) -> None:
    served = await start()

    async with served.connected() as socket:
        await socket.initialize("2025-03-26")
        await socket.message([{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in (1, 2)])
        assert sorted(each["id"] for each in await socket.receive()) == [1, 2]


async def test_malformed_websocket_message_is_answered_and_the_connection_stays_open(start: Start) -> None:
    served = await start(options=HTTPOptions(message=MessageLimits(depth=5)))

    async with served.connected() as socket:
        await socket.initialize("2025-11-25")
        for text, code in (
            ("{", PARSE_ERROR),
            ("", PARSE_ERROR),
            ("[]", INVALID_REQUEST),
            ("[[[[[[]]]]]]", INVALID_REQUEST),
            ("7", INVALID_REQUEST),
        ):
            await socket.text(text)
            assert (await socket.receive())["error"]["code"] == code
        assert (await socket.ask("ping"))["result"] == {}


async def test_fragmented_message_with_a_ping_between_is_received(start: Start) -> None:
    served = await start(Tools())
    data = json.dumps(calling("echo", text="ä" * 100)).encode()

    async with served.connected() as socket:
        await socket.send(TEXT, data[:80], fin=False)
        await socket.send(PING, b"there?")
        await socket.send(CONTINUATION, data[80:81], fin=False)
        await socket.send(CONTINUATION, data[81:])
        assert text_of(await socket.receive()) == "ä" * 100
        assert socket.pongs == [b"there?"]


async def test_websocket_disconnect_cancels_its_requests(start: Start) -> None:
    tools = [Tools() for _ in range(3)]

    async def close(socket: Socket) -> None:
        await socket.close(1001)

    async def cut(socket: Socket) -> None:
        socket.cut()

    async def reset(socket: Socket) -> None:
        socket.reset()

    for each, leave in zip(tools, (close, cut, reset), strict=True):
        served = await start(each)
        async with served.connected() as socket:
            await socket.message(calling("wait"))
            await each.has_begun()
            await leave(socket)
            with trio.fail_after(30):
                await each.cancelled.wait()
        await served.until_empty()


# Before the upgrade


def authenticate(headers: Mapping[str, str]) -> Principal | None:
    known = {"Bearer ada": Principal(subject="ada")}
    if headers.get("authorization") in known:
        return known[headers["authorization"]]
    raise AuthorizationError("expected a token", challenge="Bearer", status=403 if "authorization" in headers else 401)


async def test_host_and_origin_are_checked_as_for_a_post(start: Start) -> None:
    served = await start(
        options=HTTPOptions(allow_hosts=["mcp.example.com"], allow_origins=["https://app.example.com"])
    )
    evil = "origin: http://evil.example.com"
    fine = "origin: https://app.example.com"

    for host, headers, status in (
        ("evil.example.com", (), 421),
        ("evil.example.com", (evil,), 421),
        (None, (evil,), 403),
        (None, ("origin: null",), 403),
        (None, (fine, fine), 403),
    ):
        refused = await served.refused(*headers, host=host)
        assert refused.status == status == await served.post(*headers, host=host)
        assert json.loads(refused.body)["error"]["code"] == INVALID_REQUEST
    for host, headers in (("mcp.example.com", ()), (None, (fine,)), (None, ("origin: http://localhost:3000",))):
        socket = await Socket.open(served.port, upgrade(served.port, "/ws", *headers, host=host))
        socket.cut()


async def test_request_head_is_checked_as_for_a_post(start: Start) -> None:
    served = await start(options=HTTPOptions(header_bytes=4000))

    for headers, status in (
        (("x: " + "y" * 5000,), 431),
        (("authorization: a", "authorization: b"), 400),
        (("mcp-session-id: a", "mcp-session-id: b", "last-event-id: a", "last-event-id: b"), 400),
    ):
        assert (await served.refused(*headers)).status == status == await served.post(*headers)


async def test_refusal_is_sent_before_the_upgrade(start: Start) -> None:
    served = await start(options=HTTPOptions(auth=FunctionGuard(authenticate)))

    refused = await served.refused()
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert await served.post() == 401
    assert (await served.refused("authorization: Bearer eve")).status == 403
    async with served.connected("authorization: Bearer ada") as socket:
        await socket.initialize("2025-11-25")
        assert served.server.status.sessions[0].principal == "ada"


@pytest.mark.parametrize("offers", [None, "mqtt", "MCP", "mcp2, mqtt", '"mcp"'])
async def test_upgrade_without_the_subprotocol_is_refused(start: Start, offers: str | None) -> None:
    served = await start()

    refused = await served.refused(offers=offers)

    assert refused.status == 400
    assert "Sec-WebSocket-Protocol: expected mcp" in json.loads(refused.body)["error"]["message"]


async def test_subprotocol_is_chosen_among_several(start: Start) -> None:
    served = await start()

    socket = await Socket.open(served.port, upgrade(served.port, offers="mqtt, mcp"))
    socket.cut()
    assert socket.accepted["sec-websocket-protocol"] == "mcp"


async def test_upgrade_at_other_paths_gets_404(start: Start) -> None:
    served = await start()
    nowhere = await start(options=HTTPOptions(websocket=False))

    assert {(await served.refused(path=path)).status for path in ("/", "/mcp", "/ws/x", "/healthz")} == {404}
    assert (await nowhere.refused(path="/ws")).status == 404


async def test_request_without_an_upgrade_gets_426(start: Start) -> None:
    served = await start()

    async with await trio.open_tcp_stream("127.0.0.1", served.port) as stream:
        await stream.send_all(b"GET /ws HTTP/1.1\r\nhost: localhost\r\n\r\n")
        with trio.fail_after(30):
            answer = await stream.receive_some()

    assert answer.startswith(b"HTTP/1.1 426 ")
    assert b"upgrade: websocket\r\n" in answer.lower()


async def test_connections_over_the_limit_get_503(start: Start) -> None:
    exchanges = await start(options=HTTPOptions(streams=1))
    sessions = await start(limits=ServerLimits(sessions=1))

    for served in (exchanges, sessions):
        async with served.connected() as socket:
            await socket.initialize("2025-11-25")
            refused = await served.refused()
            assert refused.status == 503
            assert int(refused.headers["retry-after"]) >= 1
            await socket.close()
            await socket.wait_closed()
        await served.until_empty()
        async with served.connected() as socket:
            await socket.initialize("2025-11-25")


# Close codes


async def test_binary_message_is_closed_with_1003(start: Start) -> None:
    served = await start()

    async with served.connected() as socket:
        await socket.initialize("2025-11-25")
        await socket.send(BINARY, b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        assert await socket.receive() == 1003
    await served.until_empty()


async def test_message_over_the_size_limit_is_closed_with_1009(start: Start) -> None:
    served = await start(Tools(), options=HTTPOptions(message=MessageLimits(bytes=1000)))
    fits = json.dumps(calling("echo", text=""))

    async with served.connected() as socket:
        await socket.message(calling("echo", text="x" * (1000 - len(fits))))
        assert len(text_of(await socket.receive())) == 1000 - len(fits)
        await socket.message(calling("echo", text="x" * (1001 - len(fits))))
        assert await socket.receive() == 1009
    async with served.connected() as socket:
        # The limit counts bytes, not characters.
        await socket.text("ä" * 501)
        assert await socket.receive() == 1009
    await served.until_empty()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(TEXT, b"\xff\xfe"), 1007),
        (frame(TEXT, b"\xc3", fin=False) + frame(CONTINUATION, b"("), 1007),
        (frame(TEXT, b"{}", masked=False), 1002),
        (frame(CONTINUATION, b"{}"), 1002),
        (frame(3, b""), 1002),
        (frame(PING, b"x" * 126), 1002),
        (frame(CLOSE, b"\x03"), 1002),
        (b"\xff" * 20, 1002),
        (frame(TEXT, b"{}", fin=False) + frame(TEXT, b"{}"), 1002),
    ],
    ids=["utf-8", "utf-8-split", "unmasked", "continuation", "opcode", "long-ping", "close", "rubbish", "interleaved"],
)
async def test_invalid_frames_end_their_connection_only(start: Start, data: bytes, code: int) -> None:
    served = await start()

    async with served.connected() as other, served.connected() as socket:
        await other.initialize("2025-11-25")
        await socket.initialize("2025-11-25")
        await socket.raw(data)
        assert await socket.receive() == code
        await served.until(lambda: len(served.server.status.sessions) == 1)
        assert (await other.ask("ping"))["result"] == {}


async def test_client_that_answers_no_pings_is_closed_with_1008(start: Start) -> None:
    served = await start(ping_interval=0.05, timeouts=Timeouts(ping=0.05))

    async with served.connected() as socket:
        await socket.initialize("2025-11-25")
        methods = []
        while isinstance(message := await socket.receive(), dict):
            methods.append(message["method"])
        assert (methods.count("ping"), message) == (2, 1008)


async def test_client_that_sends_no_first_message_is_closed_with_1008(start: Start) -> None:
    served = await start(options=HTTPOptions(body_timeout=1.0))

    async with served.connected() as heard:
        await heard.initialize("2025-11-25")
        async with served.connected() as silent:
            assert await silent.receive() == 1008
        assert (await heard.ask("ping"))["result"] == {}


async def test_shutdown_closes_connections_with_1001(start: Start) -> None:
    tools = Tools()
    served = await start(tools)

    async with served.connected() as idle, served.connected() as busy:
        await idle.initialize("2025-11-25")
        await busy.message(calling("wait"))
        await tools.has_begun()
        served.shutdown.set()
        await served.until(lambda: served.server.supervisor.draining)
        # Running requests are still answered.
        tools.go.set()
        assert text_of(await busy.receive()) == "waited"
        assert await busy.receive() == 1001
        assert await idle.receive() == 1001
        for socket in (idle, busy):
            await socket.close(1001)
        with trio.fail_after(30):
            await served.closed.wait()


async def test_shutdown_is_bounded_whatever_clients_do(start: Start) -> None:
    tools = Tools()
    served = await start(tools, timeouts=Timeouts(shutdown=0.2))

    async with served.connected() as busy, served.connected() as deaf, served.connected() as mute:
        await busy.message(calling("wait"))
        await tools.has_begun()
        await deaf.initialize("2025-11-25")
        await deaf.message({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        await mute.send(TEXT, b'{"jsonrpc"', fin=False)
        served.shutdown.set()
        with trio.fail_after(30):
            await served.closed.wait()
        assert tools.cancelled.is_set()
        assert "stopping" in (await busy.receive())["error"]["message"]
        assert await busy.receive() == 1001
        assert await mute.receive() == 1001


async def test_upgrade_during_the_shutdown_gets_503(start: Start) -> None:
    """The listener may still be open: behind another socket of the same application."""
    tools = Tools()
    served = await start(tools)
    async with served.connected() as busy:
        await busy.message(calling("wait"))
        await tools.has_begun()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(served.server.supervisor.drain)
            await served.until(lambda: served.server.supervisor.draining)
            refused = await served.refused()
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            tools.go.set()


# Clients that do not read


async def test_client_that_does_not_read_is_disconnected_and_others_are_served(start: Start) -> None:
    tools = Tools()
    served = await start(tools, options=HTTPOptions(write_timeout=0.5))

    async with served.connected() as slow, served.connected() as other:
        await slow.message(calling("wait", id=0))
        await tools.has_begun()
        for id in range(1, 21):
            await slow.message(calling("much", id=id, size=1_000_000))
        await other.message(calling("echo", text="served"))
        assert text_of(await other.receive()) == "served"
        with trio.fail_after(30):
            await tools.cancelled.wait()
        await served.until(lambda: len(served.server.status.sessions) == 1)
        # The client still receives what was sent, and no close frame in the middle of a message.
        while isinstance(message := await slow.receive(), dict):
            assert message["id"] != 0
        assert message is None


async def test_server_stops_reading_while_a_session_is_full(start: Start) -> None:
    served = await start(
        Tools(),
        options=HTTPOptions(write_timeout=60.0),
        connection=ConnectionLimits(write_timeout=60.0),
        limits=ServerLimits(outbox=4),
    )
    requests = 400
    sent = 0

    async with served.connected() as socket:

        async def write() -> None:
            nonlocal sent
            for id in range(1, requests + 1):
                await socket.message(calling("echo", id=id, text="x" * 100_000))
                sent = id

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            before = -1
            while before != sent or not sent:
                before = sent
                await trio.sleep(0.1)
            # The kernel's buffers hold a few dozen messages, the server's queues a few more.
            assert 0 < sent < requests
            assert served.server.status.in_flight < 100
            # The session reads again, and no message was lost.
            assert {(await socket.receive())["id"] for _ in range(requests)} == set(range(1, requests + 1))
        assert sent == requests
