"""A server on sockets: separate sessions, limits, and its shutdown."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, field

from mcptrio import Server, connect
from mcptrio.abc import Engine
from mcptrio.serve.stream import serve_stream
from mcptrio.serve.transport import serve_transport
from mcptrio.serving import (
    ServerLimits,
    StreamOptions,
    Timeouts,
)
from tests.error_codes import PARSE_ERROR
from tests.interaction.client import Peer
from tests.interaction.wires import PipeWire
from tests.server_options import server_options

__all__: list[str] = []

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")

WAIT_TIMEOUT = 30.0
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@define(eq=False)
class Running:
    server: Server
    nursery: trio.Nursery
    names: list[str]
    shutdown: trio.Event
    ended: trio.Event
    started: trio.Event
    """Set when a call of ``nap`` has begun."""
    calls: list[str]
    streams: list[trio.SocketStream] = field(factory=list)

    async def dial(self, number: int = 0) -> trio.SocketStream:
        """Open a connection, closed at the end."""
        name = self.names[number]
        if name.startswith("unix:"):
            stream = await trio.open_unix_socket(name.removeprefix("unix:"))
        else:
            stream = await trio.open_tcp_stream("127.0.0.1", int(name.rpartition(":")[2]))
        self.streams.append(stream)
        return stream

    async def peer(self, number: int = 0) -> Peer:
        stream: Any = await self.dial(number)
        peer = Peer(revision="2025-11-25", wire=PipeWire(stream, stream), nursery=self.nursery, seconds=WAIT_TIMEOUT)
        await self.nursery.start(peer.run)
        await peer.begin()
        return peer

    async def sessions(self, count: int) -> None:
        """Wait until this number of sessions is open."""
        await eventually(lambda: len(self.server.supervisor.sessions) == count)


@asynccontextmanager
async def running(*addresses: str, options: StreamOptions | None = None, **more: Any) -> AsyncIterator[Running]:
    """Run a server on these addresses; cancel it at the end if it still runs."""
    server = Server("streamed", **server_options({"timeouts": Timeouts(shutdown=more.pop("seconds", 5.0)), **more}))
    calls: list[str] = []
    started = trio.Event()

    async def shout(text: str) -> str:
        calls.append(text)
        return text.upper()

    async def nap(seconds: float) -> str:
        started.set()
        await trio.sleep(seconds)
        return "slept"

    server.add_tool(shout)
    server.add_tool(nap)
    shutdown, ended = trio.Event(), trio.Event()

    async def serve(*, task_status: trio.TaskStatus[list[str]]) -> None:
        await serve_stream(server, addresses, options=options, shutdown=shutdown, task_status=task_status)
        ended.set()

    with trio.fail_after(WAIT_TIMEOUT * 2):
        async with trio.open_nursery() as nursery:
            names = await nursery.start(serve)
            it = Running(server, nursery, names, shutdown, ended, started, calls)
            try:
                yield it
            finally:
                for stream in it.streams:
                    stream.socket.close()
            nursery.cancel_scope.cancel()


async def eventually(claim: Callable[[], bool]) -> None:
    """Wait until this is true, if no message reports it."""
    with trio.fail_after(WAIT_TIMEOUT):
        while True:
            if claim():
                return
            await trio.sleep(0.005)


def exists(address: str) -> bool:
    """Return whether the Unix socket exists."""
    return Path(address.removeprefix("unix:")).exists()


async def answer(stream: trio.SocketStream) -> Any:
    """Return one line, or an empty one at the end."""
    read = b""
    while not read.endswith(b"\n"):
        chunk = await stream.receive_some()
        if not chunk:
            assert not read
            return None
        read += chunk
    return json.loads(read)


def line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"unix:{tmp_path / 'mcp.sock'}"


async def test_each_connection_is_a_session(address: str) -> None:
    async with running("127.0.0.1:0", address) as it:
        assert it.names == [f"tcp://127.0.0.1:{it.names[0].rpartition(':')[2]}", address]
        peers = [await it.peer(0), await it.peer(1), await it.peer(1)]
        assert [await peer.text("shout", {"text": name}) for peer, name in zip(peers, "abc", strict=True)] == [*"ABC"]

        names = [session.name for session in it.server.status.sessions]
        assert sorted(name.partition(" 127.0.0.1:")[0] for name in names) == ["tcp", "unix", "unix"]
        await peers[1].leave()
        await it.sessions(2)
        assert await peers[2].text("shout", {"text": "here"}) == "HERE"


async def test_request_before_half_close_is_answered(address: str) -> None:
    async with running(address) as it:
        peer = await it.peer()
        call = await peer.start_call("nap", {"seconds": 0.05})
        assert isinstance(peer.wire, PipeWire)
        await peer.wire._writer.send_eof()  # type: ignore[attr-defined]

        assert (await call.result())["content"][0]["text"] == "slept"
        with trio.fail_after(WAIT_TIMEOUT):
            await peer.ended.wait()


async def test_broken_connection_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    """One is reset during a call, one sends garbage, one sends half a message; one continues."""
    async with running("127.0.0.1:0") as it:
        good = await it.peer()
        reset = await it.peer()
        await reset.start_call("nap", {"seconds": 30})
        await it.started.wait()
        assert isinstance(reset.wire, PipeWire)
        stream: Any = reset.wire._reader
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await stream.aclose()
        rubbish = await it.dial()
        await rubbish.send_all(os.urandom(1000) + b"\n")
        half = await it.dial()
        await half.send_all(line(PING)[:20])
        await half.aclose()

        await it.sessions(1)
        assert await good.text("shout", {"text": "well"}) == "WELL"
        await rubbish.aclose()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_http_post_to_a_stream_socket_is_refused() -> None:
    """A browser can post to any port of this machine; the first line is always its own."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "shout", "arguments": {"text": "x"}}}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "page", "version": "1"}}
    body = line({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
    body += line({"jsonrpc": "2.0", "method": "notifications/initialized"}) + line(call)
    head = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with running("127.0.0.1:0") as it:
        for pieces in ([head + body], [head, body]):
            async with await it.dial() as page:
                for piece in pieces:
                    await page.send_all(piece)
                assert (await answer(page))["error"]["code"] == PARSE_ERROR
                try:
                    assert await answer(page) is None
                except trio.BrokenResourceError:
                    pass  # reset, since the rest was not read
        await it.sessions(0)

        assert it.calls == []


async def test_connection_over_the_limit_is_refused(address: str, caplog: pytest.LogCaptureFixture) -> None:
    async with running(address, options=StreamOptions(connections=2)) as it:
        peers = [await it.peer(), await it.peer()]
        async with await it.dial() as third:
            await third.send_all(line(PING))
            received = await answer(third)
            assert (received["id"], received["error"]["message"]) == (1, "too many connections: the limit is 2")
            assert received["error"]["data"] == {"retryAfter": 1.0}
            assert await answer(third) is None
        async with await it.dial() as silent:
            assert "id" not in await answer(silent)
        assert await peers[0].text("shout", {"text": "here"}) == "HERE"

        await peers[0].leave()
        await it.sessions(1)
        assert await (await it.peer()).text("shout", {"text": "room"}) == "ROOM"
    assert [record.levelname for record in caplog.records if "refused" in record.message] == ["WARNING"]


async def test_connections_far_over_the_limit_are_closed_without_a_message(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcptrio.serve.stream.MAX_REFUSALS", 1)
    async with running(address, options=StreamOptions(connections=1)) as it:
        await it.peer()
        async with await it.dial() as refused, await it.dial() as closed:
            assert await answer(closed) is None
            assert "connections" in (await answer(refused))["error"]["message"]


async def test_session_over_the_limit_is_refused(address: str) -> None:
    async with running(address, limits=ServerLimits(sessions=1)) as it:
        await it.peer()
        async with await it.dial() as second:
            await second.send_all(line(PING))
            assert (await answer(second))["error"]["message"] == "too many sessions: 1 are open"
            assert await answer(second) is None


async def test_connection_without_a_message_times_out(address: str) -> None:
    # Long enough for the first message of the talking client to arrive in time.
    async with running(address, options=StreamOptions(first_message_timeout=2)) as it:
        talking = await it.peer()
        async with await it.dial() as silent:
            assert await answer(silent) is None
        assert await talking.text("shout", {"text": "still"}) == "STILL"


async def test_peer_that_does_not_read_is_disconnected(address: str) -> None:
    async with running(address, options=StreamOptions(write_timeout=0.1)) as it:
        good = await it.peer()
        async with await it.dial() as deaf:
            with trio.move_on_after(WAIT_TIMEOUT):
                try:
                    while True:
                        await deaf.send_all(line({"jsonrpc": "2.0", "id": 1, "method": "x" * 1000}) * 100)
                except trio.BrokenResourceError:
                    pass
        await it.sessions(1)
        assert await good.text("shout", {"text": "still"}) == "STILL"


async def test_shutdown_finishes_requests_and_closes_connections(address: str) -> None:
    """Running requests finish, new clients are refused, idle connections are closed."""
    async with running(address, seconds=60) as it:
        busy, idle = await it.peer(), await it.peer()
        call = await busy.start_call("nap", {"seconds": 0.3})
        await it.started.wait()
        it.shutdown.set()
        await eventually(lambda: it.server.supervisor.draining and not exists(address))
        with pytest.raises(OSError):  # noqa: PT011 - it is gone
            await it.dial()

        assert (await call.result())["content"][0]["text"] == "slept"
        with trio.fail_after(WAIT_TIMEOUT):
            await idle.ended.wait()
            await busy.ended.wait()
            await it.ended.wait()


async def test_shutdown_is_bounded(address: str) -> None:
    async with running(address, seconds=0.1) as it:
        peer = await it.peer()
        await peer.start_call("nap", {"seconds": 1000})
        deaf = await it.dial()
        await deaf.send_all(line(PING))
        await it.started.wait()
        it.shutdown.set()
        with trio.fail_after(WAIT_TIMEOUT):
            await it.ended.wait()
        await deaf.aclose()


async def test_cancelled_server_leaves_nothing(address: str) -> None:
    async with running("127.0.0.1:0", address) as it:
        peers = [await it.peer(0), await it.peer(1)]
        await peers[0].start_call("nap", {"seconds": 1000})
        await it.started.wait()

    assert not exists(address)
    assert not it.server.is_open


async def test_only_the_address_that_cannot_be_bound_is_reported(address: str) -> None:
    async with running("127.0.0.1:0") as it:
        taken = it.names[0].removeprefix("tcp://")
        other = Server("late")
        with pytest.raises(OSError, match=f"^cannot listen on {taken}: Address already in use$"):
            await serve_stream(other, [address, taken])

    assert not other.is_open
    assert not exists(address)


async def test_address_open_to_the_network_is_warned_of(caplog: pytest.LogCaptureFixture, address: str) -> None:
    async with running("127.0.0.1:0", address):
        assert not caplog.records
    async with running("0.0.0.0:0") as it:
        assert it.names[0].startswith("tcp://0.0.0.0:")
        (record,) = caplog.records
        assert "without authentication" in record.message


async def test_inherited_socket_is_served() -> None:
    with socket.create_server(("127.0.0.1", 0)) as parent:
        async with running(f"fd:{parent.fileno()}") as it:
            assert it.names == [f"tcp://127.0.0.1:{parent.getsockname()[1]}"]
            assert await (await it.peer()).text("shout", {"text": "hey"}) == "HEY"
        # The socket belongs to the parent, and other processes may continue with it.
        with socket.create_connection(parent.getsockname()):
            pass


async def test_hanging_lifespan_does_not_delay_the_shutdown(address: str) -> None:
    from types import SimpleNamespace

    from mcptrio import hookimpl

    entering = trio.Event()

    @asynccontextmanager
    async def hang() -> AsyncIterator[None]:
        entering.set()
        await trio.sleep_forever()
        yield

    @hookimpl
    def lifespan(server: Any) -> Any:
        return hang()

    shutdown = trio.Event()
    server = Server("slow", plugins=[SimpleNamespace(__name__="slow", lifespan=lifespan)])
    with trio.fail_after(WAIT_TIMEOUT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(serve_stream, server, address, shutdown=shutdown))
            await entering.wait()
            shutdown.set()


async def test_transport_that_fails_or_returns_ends_the_server() -> None:
    async def fails(engine: Engine, *, stopping: trio.Event, task_status: trio.TaskStatus[list[str]]) -> None:
        task_status.started(["there"])
        raise OSError("the pigeon was eaten")

    async def returns(engine: Engine, *, stopping: trio.Event, task_status: trio.TaskStatus[list[str]]) -> None:
        task_status.started(["there"])

    with trio.fail_after(WAIT_TIMEOUT):
        with pytest.raises(OSError, match="the pigeon was eaten"):
            await serve_transport(Server("one"), fails)
        await serve_transport(Server("two"), returns)


async def test_client_supports_every_revision(address: str) -> None:
    async with running(address) as it:
        for revision in ("2024-11-05", "2025-11-25", "2026-07-28"):
            async with connect(address, revision=revision) as client:
                result = await client.call_tool("shout", {"text": revision})
        assert result.structured_content is not None
        assert it.calls == ["2024-11-05", "2025-11-25", "2026-07-28"]


async def test_accept_errors_do_not_end_the_server(caplog: pytest.LogCaptureFixture) -> None:
    """After ``shutdown`` of a listening socket each accept fails with EINVAL, until the socket listens again."""
    shutdown = trio.Event()
    with trio.fail_after(60), socket.create_server(("127.0.0.1", 0)) as listening:
        async with trio.open_nursery() as nursery:
            serve = partial(serve_stream, Server("s"), f"fd:{listening.fileno()}", shutdown=shutdown)
            await nursery.start(serve)
            with caplog.at_level(logging.WARNING, "mcptrio.stream"):
                listening.shutdown(socket.SHUT_RDWR)
                await eventually(lambda: "could not be accepted" in caplog.text)
            listening.listen()
            async with await trio.open_tcp_stream(*listening.getsockname()) as stream:
                await stream.send_all(b'{"jsonrpc":"2.0","id":1,"method":"nothing"}\n')
                assert b'"id":1' in await stream.receive_some()
            shutdown.set()
