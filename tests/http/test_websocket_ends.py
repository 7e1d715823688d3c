"""How a client's WebSocket ends: by close codes, timeouts, protocol errors, and disconnects."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from mcptrio import ConnectionClosed
from mcptrio.http.client import websocket
from mcptrio.http.client.dialer import Dialer
from mcptrio.http.client.websocket import CLOSE_TIMEOUT, Pings, WebSocketChannel, open_websocket_channel
from mcptrio.http.client.websocket_stream import WRITE_TIMEOUT, WebSocketStream
from mcptrio.protocol.messages import Notification, Request
from mcptrio.serving import MessageLimits
from tests.http.raw_websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    TEXT,
    Accepted,
    Socket,
    accepting,
    close_payload,
    frame,
)
from tests.http.websocket_channels import WAIT_TIMEOUT, ending, opened, patient

__all__ = ["patient"]

PING_REQUEST = Request(1, "ping")

# Ends


@pytest.mark.parametrize(
    ("code", "reason", "message"),
    [
        (1000, "bye", ""),
        (1001, "", "the server closed the connection: 1001 (going away)"),
        (1008, "no\x1b[31m\nred", r"the server closed the connection: 1008 (policy violation): 'no\x1b[31m\nred'"),
        (1013, "later", "the server closed the connection: 1013 (try again later): 'later'"),
        (4000, "ours", "the server closed the connection: 4000: 'ours'"),
    ],
)
async def test_close_codes_are_reported(code: int, reason: str, message: str) -> None:
    async def close(socket: Socket) -> None:
        await socket.close(code, reason)
        assert await socket.receive() == code
        await socket.wait_closed()

    assert await ending(close) == message


async def test_close_without_a_code_ends_the_channel() -> None:
    async def close(socket: Socket) -> None:
        await socket.send(CLOSE)
        await socket.wait_closed()

    assert await ending(close) == ""


@pytest.mark.parametrize("how", ["cut", "reset"])
async def test_broken_connection_is_reported(how: str) -> None:
    async def leave(socket: Socket) -> None:
        getattr(socket, how)()

    assert await ending(leave) == "the connection to the server broke"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (frame(TEXT, b"\xff", masked=False), "1007"),
        (frame(CONTINUATION, b"x", masked=False), "1002"),
        (frame(PING, b"x" * 126, masked=False), "1002"),
        (frame(CLOSE, b"\x03", masked=False), "1002"),
        (frame(TEXT, b"{}", fin=False, masked=False) + frame(TEXT, b"{}", masked=False), "1002"),
        (b"\xff" * 100, "1002"),
        (frame(BINARY, b"{}", masked=False), "expected text messages, got a binary one"),
        (frame(TEXT, b"x" * 1001, masked=False), "1009"),
        (frame(TEXT, "ä".encode() * 501, masked=False), "message of 1002 bytes: the limit is 1000 bytes"),
        (close_payload(1000) * 3, "1002"),
    ],
    ids=["utf-8", "continuation", "long-ping", "close", "interleaved", "rubbish", "binary", "large", "bytes", "opcode"],
)
async def test_protocol_errors_of_a_server_are_reported(data: bytes, message: str) -> None:
    async def wrong(socket: Socket) -> None:
        await socket.raw(data)
        await socket.wait_closed()

    assert message in await ending(wrong, limits=MessageLimits(bytes=1000))


async def test_unacceptable_websocket_frame_is_closed_with_its_code() -> None:
    closed: list[int] = []

    async def send(socket: Socket, opcode: int, data: bytes) -> None:
        await socket.send(opcode, data)
        closed.append(await socket.receive())

    limits = MessageLimits(bytes=1000)
    for opcode, data in ((BINARY, b"{}"), (TEXT, b"x" * 1001), (TEXT, "ä".encode() * 501)):
        await ending(partial(send, opcode=opcode, data=data), limits=limits)
    assert closed == [1003, 1009, 1009]


async def test_random_bytes_end_the_channel_only() -> None:
    for _ in range(50):
        data = os.urandom(60)

        async def wrong(socket: Socket, data: bytes = data) -> None:
            await socket.raw(data)
            socket.cut()

        await ending(wrong)


async def test_message_between_the_handshake_and_the_end_is_not_lost() -> None:
    async def serve(accepted: Accepted) -> None:
        note = b'{"jsonrpc":"2.0","method":"a"}'
        await accepted.open(body=b"".join([*[frame(TEXT, note, masked=False)] * 3, frame(CLOSE, b"", masked=False)]))

    async with opened(serve) as channel:
        with trio.fail_after(WAIT_TIMEOUT):
            assert [await channel.receive() for _ in range(3)] == [[Notification("a")]] * 3
            with pytest.raises(trio.EndOfChannel):
                await channel.receive()


async def test_close_frame_is_sent_even_when_cancelled() -> None:
    codes: list[Any] = []

    async def note(accepted: Accepted) -> None:
        socket = await accepted.open()
        codes.append(await socket.receive())
        await socket.close()
        await socket.wait_closed()

    lasted: list[float] = []
    async with accepting(note) as port:
        for cancelled in (False, True, True, True):
            with trio.CancelScope() as scope:
                async with open_websocket_channel(f"ws://127.0.0.1:{port}/ws"):
                    lasted.append(-trio.current_time())
                    if cancelled:
                        scope.cancel()
            lasted[-1] += trio.current_time()
    assert codes == [1000] * 4
    # The server's close frame has already been read, so closing does not wait.
    assert max(lasted) < websocket.CLOSE_TIMEOUT - 1


async def test_close_answer_of_the_server_is_awaited_for_half_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "CLOSE_TIMEOUT", CLOSE_TIMEOUT)

    async def ignore(accepted: Accepted) -> None:
        await accepted.open()
        await trio.sleep_forever()

    async with accepting(ignore) as port:
        with trio.fail_after(WAIT_TIMEOUT):
            async with open_websocket_channel(f"ws://127.0.0.1:{port}/ws"):
                began = trio.current_time()
        assert trio.current_time() - began > 0.4
    assert CLOSE_TIMEOUT == 0.5


async def test_sending_after_the_end_raises() -> None:
    async def close(accepted: Accepted) -> None:
        socket = await accepted.open()
        await socket.close(1001)
        await socket.wait_closed()

    async with opened(close) as channel:
        with pytest.raises(ConnectionClosed):
            await channel.receive()
        with pytest.raises(ConnectionClosed, match="going away"):
            await channel.send([PING_REQUEST])
        await channel.aclose()
        with pytest.raises(ConnectionClosed):
            await channel.send([PING_REQUEST])


# Pings


@asynccontextmanager
async def in_memory(
    handle: Callable[[Socket], Awaitable[object]], monkeypatch: pytest.MonkeyPatch, pings: Pings
) -> AsyncIterator[WebSocketChannel]:
    """A channel to a server written by hand, for tests with the autojump clock: no data is outside of Trio."""
    ours, theirs = trio.testing.memory_stream_pair()

    def close() -> None:
        ours.send_stream.close()
        ours.receive_stream.close()

    async def dial(dialer: Dialer) -> tuple[trio.abc.Stream, Any]:
        await trio.lowlevel.checkpoint()
        return ours, SimpleNamespace(socket=SimpleNamespace(close=close))

    async def serve() -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += await theirs.receive_some(1)
        await handle(await Accepted(theirs, head.decode().removesuffix("\r\n\r\n")).open())

    monkeypatch.setattr(Dialer, "dial", dial)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with open_websocket_channel("ws://server/ws", pings=pings) as channel:
            yield channel
        nursery.cancel_scope.cancel()


async def test_server_that_answers_no_pings_is_disconnected(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinged: list[bytes] = []

    async def say_nothing(socket: Socket) -> None:
        socket.answers_pings = False
        socket.timeout = inf
        socket.pings = pinged
        await socket.wait_closed()

    async with in_memory(say_nothing, monkeypatch, Pings(interval=20, timeout=10)) as channel:
        began = trio.current_time()
        with pytest.raises(ConnectionClosed, match="the server has not answered a ping within 10 s"):
            await channel.receive()
        assert trio.current_time() - began == pytest.approx(30)
    assert len(pinged) == 1


async def test_server_that_answers_pings_stays_connected(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinged: list[bytes] = []

    async def answer(socket: Socket) -> None:
        socket.timeout = inf
        socket.pings = pinged
        await socket.wait_closed()

    async with in_memory(answer, monkeypatch, Pings(interval=20, timeout=10)) as channel:
        with trio.move_on_after(105):
            await channel.receive()
            raise AssertionError("it has ended")
    assert len(pinged) == 5


async def test_slow_long_message_counts_as_activity(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = frame(TEXT, b'{"jsonrpc":"2.0","method":"%b"}' % (b"x" * 15_000), masked=False)

    async def trickle(socket: Socket) -> None:
        for start in range(0, len(data), 250):
            await socket.raw(data[start : start + 250])
            await trio.sleep(5)
        await trio.sleep_forever()

    async with in_memory(trickle, monkeypatch, Pings(interval=1, timeout=10)) as channel:
        began = trio.current_time()
        assert isinstance((await channel.receive())[0], Notification)
        assert trio.current_time() - began > 200


async def test_pings_of_the_server_are_answered_while_nothing_is_received() -> None:
    async def ping(accepted: Accepted) -> None:
        socket = await accepted.open()
        await socket.send(PING, b"1")
        await socket.send(PING, b"2")
        await socket.message({"jsonrpc": "2.0", "method": "done"})
        # Read until both have arrived; nothing else does.
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(socket.receive)
                while len(socket.pongs) < 2:  # noqa: ASYNC110 - no event reports it
                    await trio.sleep(0.01)
                scope.cancel()
        assert socket.pongs == [b"1", b"2"]
        answered.set()
        await socket.wait_closed()

    answered = trio.Event()
    async with opened(ping) as channel:
        with trio.fail_after(WAIT_TIMEOUT):
            await answered.wait()
            assert await channel.receive() == [Notification("done")]


# The stream below the WebSocket


def lockstep_stream() -> tuple[WebSocketStream, trio.StapledStream[Any, Any]]:
    """A stream whose other end accepts only what is read at the same moment."""
    ours, theirs = trio.testing.lockstep_stream_pair()
    bottom: Any = SimpleNamespace(socket=SimpleNamespace(close=lambda: None))
    return WebSocketStream(ours, bottom), theirs


async def test_server_that_reads_nothing_times_out(autojump_clock: trio.testing.MockClock) -> None:
    line, theirs = lockstep_stream()

    async def read_late() -> None:
        await trio.sleep(WRITE_TIMEOUT - 1)
        await theirs.receive_some(10)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_late)
        began = trio.current_time()
        with pytest.raises(trio.BrokenResourceError, match="has read nothing for 30 s"):
            await line.send_all(b"x" * 200_000)

    # If a chunk is not accepted as a whole, it is unknown whether a part was.
    assert trio.current_time() - began == WRITE_TIMEOUT
    assert line.problem is not None


async def test_server_that_reads_slowly_does_not_time_out(autojump_clock: trio.testing.MockClock) -> None:
    line, theirs = lockstep_stream()

    async def read_slowly() -> None:
        for _ in range(3):
            await trio.sleep(WRITE_TIMEOUT - 1)
            for _ in range(64):
                assert len(await theirs.receive_some(1024)) == 1024

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_slowly)
        began = trio.current_time()
        await line.send_all(b"x" * 3 * 64 * 1024)

    assert trio.current_time() - began > 2 * WRITE_TIMEOUT


async def test_no_message_follows_a_partly_sent_one() -> None:
    line, theirs = lockstep_stream()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.send_all, b"a whole message")
        assert await theirs.receive_some(100) == b"a whole message"
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(line.send_all, b"half a message")
            assert await theirs.receive_some(4) == b"half"
            scope.cancel()
    with pytest.raises(trio.BrokenResourceError, match="was cut off"):
        await line.send_all(b"another")
