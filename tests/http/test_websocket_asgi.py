"""MCP over WebSocket on other ASGI servers, with fewer features, less detection and other errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from math import inf
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field

from mcptrio import Server
from mcptrio.abc import MessageChannel, Principal
from mcptrio.errors import Overloaded
from mcptrio.http.server.app import HTTPApp
from mcptrio.protocol.messages import Response
from mcptrio.serving import HTTPLimits
from mcptrio.stores.memory import MemoryEventStore, MemorySessionStore
from tests.http.conftest import EchoEngine

__all__: list[str] = []

Serve = Callable[[MessageChannel], Awaitable[None]]
PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}'


class OneChannel(EchoEngine):
    """An engine whose channel the test handles."""

    def __init__(self, serve: Serve) -> None:
        super().__init__()
        self._serve = serve
        self.principals: list[Principal | None] = []

    async def serve(self, channel: MessageChannel, *, principal: Principal | None = None) -> None:
        self.principals.append(principal)
        await self._serve(channel)


@define(eq=False)
class Connection:
    """The state of one WebSocket in an ASGI server."""

    engine: Any
    respondable: bool = True
    sent: list[Any] = field(factory=list)
    limits: HTTPLimits = field(factory=HTTPLimits)
    connects: bool = True
    stuck: bool = False
    """The next send blocks until it is cancelled."""
    gone: bool = False
    path: str = "/ws"
    root_path: str = ""
    subprotocols: list[str] = field(factory=lambda: ["mcp"])
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    to_app: Any = field(init=False)
    _events: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.to_app, self._events = trio.open_memory_channel[Any](inf)
        if self.connects:
            self.to_app.send_nowait({"type": "websocket.connect"})

    def text(self, text: str) -> None:
        self.to_app.send_nowait({"type": "websocket.receive", "text": text, "bytes": None})

    def disconnect(self, code: int | None = 1005) -> None:
        self.to_app.send_nowait({"type": "websocket.disconnect", **({} if code is None else {"code": code})})

    async def run(self) -> None:
        app = HTTPApp(self.engine, sessions=MemorySessionStore(), events=MemoryEventStore(), limits=self.limits)
        scope = {
            "type": "websocket",
            "path": self.path,
            "root_path": self.root_path,
            "headers": [(b"host", b"localhost")],
            "subprotocols": self.subprotocols,
            **({"extensions": {"websocket.http.response": {}}} if self.respondable else {}),
        }
        with self.scope:
            await app(scope, self._events.receive, self._send)

    async def _send(self, event: Any) -> None:
        if self.gone:
            raise OSError("the client is gone")
        if self.stuck:
            try:
                await trio.sleep_forever()
            finally:
                self.stuck = False
        await trio.lowlevel.checkpoint()
        self.sent.append(event)

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.sent]


async def echo(channel: MessageChannel) -> None:
    while True:
        for _ in await channel.receive():
            await channel.send([Response(1, {})])


@asynccontextmanager
async def a_server() -> AsyncIterator[Any]:
    server = Server("tested")
    async with server.open():
        yield server.supervisor


async def test_refusal_closes_the_websocket_if_the_server_cannot_send_a_response() -> None:
    connection = Connection(OneChannel(echo), respondable=False, subprotocols=[])

    await connection.run()

    assert connection.sent == [{"type": "websocket.close", "code": 1008}]


async def test_mount_point_is_not_part_of_the_path() -> None:
    async with a_server() as engine:
        for path in ("/ws", "/mounted/ws"):
            connection = Connection(engine, path=path, root_path="/mounted")
            connection.disconnect()
            await connection.run()
            assert connection.types == ["websocket.accept"]


async def test_disconnected_client_gets_no_answer() -> None:
    connection = Connection(OneChannel(echo), connects=False)
    connection.disconnect()

    await connection.run()

    assert connection.sent == []


@pytest.mark.parametrize("code", [1000, 1006, None])
async def test_nothing_is_sent_after_the_close(code: int | None) -> None:
    async with a_server() as engine:
        connection = Connection(engine)
        connection.text(PING)
        connection.disconnect(code)
        await connection.run()

        assert connection.types[0] == "websocket.accept"
        assert "websocket.close" not in connection.types


async def test_text_that_is_not_utf_8_is_closed_with_1007() -> None:
    """The ASGI server delivers text that cannot have been UTF-8."""
    async with a_server() as engine:
        connection = Connection(engine)
        connection.text("\ud800")
        connection.disconnect()
        await connection.run()

        assert connection.sent[-1] == {"type": "websocket.close", "code": 1007, "reason": "expected UTF-8"}


async def test_engine_error_closes_with_1011_and_no_details() -> None:
    async def fail(channel: MessageChannel) -> None:
        await channel.receive()
        raise RuntimeError("secret")

    connection = Connection(OneChannel(fail))
    connection.text(PING)
    connection.disconnect()

    with pytest.raises(RuntimeError):
        await connection.run()

    assert connection.sent[-1] == {"type": "websocket.close", "code": 1011, "reason": "internal error"}


async def test_overloaded_engine_gets_503_before_the_upgrade_and_1013_after_it() -> None:
    async def refuse(channel: MessageChannel) -> None:
        raise Overloaded("too many", retry_after=7)

    async def refuse_later(channel: MessageChannel) -> None:
        await channel.receive()
        raise Overloaded("ä" * 100)

    before, after = Connection(OneChannel(refuse)), Connection(OneChannel(refuse_later))
    for connection in (before, after):
        connection.text(PING)
        connection.disconnect()
        await connection.run()

    assert before.sent[0]["status"] == 503
    assert (b"retry-after", b"7") in before.sent[0]["headers"]
    # A close frame has room for a reason of 123 bytes.
    assert after.sent[-1] == {"type": "websocket.close", "code": 1013, "reason": "ä" * 61}


async def test_cancellation_closes_with_1001_without_waiting(autojump_clock: trio.testing.MockClock) -> None:
    async with a_server() as engine, trio.open_nursery() as nursery:
        connection = Connection(engine)
        nursery.start_soon(connection.run)
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        connection.scope.cancel()
        await trio.testing.wait_all_tasks_blocked()

    assert connection.sent[-1]["code"] == 1001
    assert trio.current_time() == began


async def test_close_answer_of_the_client_is_awaited_for_half_a_second(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def leave(channel: MessageChannel) -> None:
        await channel.receive()

    connection = Connection(OneChannel(leave))
    connection.text(PING)
    for _ in range(5):
        connection.text("what was under way")
    began = trio.current_time()

    await connection.run()

    assert connection.sent[-1]["code"] == 1008
    assert trio.current_time() - began == 0.5


async def test_blocked_send_times_out(autojump_clock: trio.testing.MockClock) -> None:
    """No other message follows one that may have been sent in part."""
    async with a_server() as engine, trio.open_nursery() as nursery:
        connection = Connection(engine, limits=HTTPLimits(write_timeout=7))
        nursery.start_soon(connection.run)
        await trio.testing.wait_all_tasks_blocked()
        connection.stuck = True
        connection.text("{")
        began = trio.current_time()
        await trio.testing.wait_all_tasks_blocked()

    assert trio.current_time() - began == 7
    assert connection.types == ["websocket.accept"]


async def test_stuck_client_does_not_delay_the_end_of_the_session(autojump_clock: trio.testing.MockClock) -> None:
    server = Server("tested")
    async with server.open(), trio.open_nursery() as nursery:
        connection = Connection(server.supervisor, limits=HTTPLimits(write_timeout=30))
        nursery.start_soon(connection.run)
        await trio.testing.wait_all_tasks_blocked()
        connection.stuck = True
        connection.text("{")
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        await server.supervisor.drain()

    # Queued messages have a second to leave; nothing follows half a message.
    assert trio.current_time() - began <= 1.0
    assert connection.types == ["websocket.accept"]


async def test_failed_asgi_send_ends_the_session() -> None:
    async with a_server() as engine, trio.open_nursery() as nursery:
        connection = Connection(engine)
        nursery.start_soon(connection.run)
        await trio.testing.wait_all_tasks_blocked()
        connection.gone = True
        connection.text("{")

    assert connection.types == ["websocket.accept"]


async def test_disconnect_while_the_close_is_sent_is_handled() -> None:
    async with a_server() as engine, trio.open_nursery() as nursery:
        connection = Connection(engine)
        nursery.start_soon(connection.run)
        await trio.testing.wait_all_tasks_blocked()
        connection.gone = True
        connection.to_app.send_nowait({"type": "websocket.receive", "bytes": b"binary"})

    assert connection.types == ["websocket.accept"]
