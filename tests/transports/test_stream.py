"""The channel of lines over sockets and over other streams."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from mcptrio import ConnectionClosed
from mcptrio.abc import MessageChannel, SynchronousChannel
from mcptrio.protocol.messages import ErrorResponse, Malformed, Notification, Request, Response
from mcptrio.serving import MessageLimits, StreamChannel
from mcptrio.transports.lines import to_lines

__all__: list[str] = []

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
BIG = Notification("big", {"text": "x" * 8_000_000})
"""More than the buffers of two sockets hold."""
KINDS = ["unix", "tcp", "memory"]

every_stream = pytest.mark.parametrize("kind", KINDS)
every_socket = pytest.mark.parametrize("kind", KINDS[:2])


@asynccontextmanager
async def streams(kind: str) -> AsyncIterator[tuple[trio.abc.HalfCloseableStream, trio.abc.HalfCloseableStream]]:
    """The two ends of a connection, ours first."""
    ours: trio.abc.HalfCloseableStream
    theirs: trio.abc.HalfCloseableStream
    if kind == "memory":
        ours, theirs = trio.testing.lockstep_stream_pair()
    elif kind == "unix":
        one, two = trio.socket.socketpair()
        ours, theirs = trio.SocketStream(one), trio.SocketStream(two)
    else:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with listener:
            ours = await trio.open_tcp_stream(*listener.socket.getsockname())
            theirs = await listener.accept()
    with trio.fail_after(30):
        async with ours, theirs:
            yield ours, theirs


async def drained(stream: trio.abc.ReceiveStream) -> bytes:
    return b"".join([bytes(chunk) async for chunk in stream])


@every_stream
async def test_messages_are_sent_and_received(kind: str) -> None:
    async with streams(kind) as (ours, theirs), trio.open_nursery() as nursery:
        channel: MessageChannel = StreamChannel(ours, name="here")
        assert channel.name == "here"

        async def talk() -> None:
            await theirs.send_all(to_lines([Request(1, "a"), Notification("b")]) + b'{"jsonrpc":')
            await theirs.send_all(b'"2.0","method":"c"}\n')

        nursery.start_soon(talk)
        received = [*await channel.receive()]
        assert received[:2] == [Request(1, "a"), Notification("b")]
        while len(received) < 3:
            received += await channel.receive()
        assert received[2] == Notification("c")

        sent = [Response(1, {}), [Notification("d"), Notification("e")], Notification("f")]
        nursery.start_soon(channel.send, sent)
        assert await theirs.receive_some() == to_lines(sent)  # one write


@every_stream
async def test_last_line_without_a_line_end_is_received(kind: str) -> None:
    async with streams(kind) as (ours, theirs), trio.open_nursery() as nursery:
        channel = StreamChannel(ours)

        async def end() -> None:
            await theirs.send_all(PING.rstrip())
            await theirs.send_eof()

        nursery.start_soon(end)
        assert await channel.receive() == [Request(1, "ping")]
        with pytest.raises(trio.EndOfChannel):
            await channel.receive()
        nursery.start_soon(channel.send, [Response(1, {})])
        assert await theirs.receive_some() == to_lines([Response(1, {})])


@every_stream
async def test_half_closed_channel_still_receives(kind: str) -> None:
    async with streams(kind) as (ours, theirs), trio.open_nursery() as nursery:
        channel = StreamChannel(ours)
        await channel.send_eof()

        assert await theirs.receive_some() == b""
        nursery.start_soon(theirs.send_all, PING)
        assert await channel.receive() == [Request(1, "ping")]
        with pytest.raises(ConnectionClosed):
            await channel.send([Notification("late")])


async def test_stream_without_half_close_raises_not_implemented() -> None:
    whole, _ = trio.testing.memory_stream_pair()
    stream = trio.StapledStream(whole.send_stream, whole.receive_stream)
    one_way: trio.abc.Stream = _Whole(stream)
    with pytest.raises(NotImplementedError, match="expected a stream with a half-close, got _Whole"):
        await StreamChannel(one_way).send_eof()


class _Whole(trio.abc.Stream):
    """A stream without ``send_eof``."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._stream.aclose()


@every_stream
async def test_line_over_the_limit_is_reported_and_the_next_one_served(kind: str) -> None:
    async with streams(kind) as (ours, theirs), trio.open_nursery() as nursery:
        channel = StreamChannel(ours, limits=MessageLimits(bytes=100))
        nursery.start_soon(theirs.send_all, b'{"jsonrpc":"2.0","id":7,"method":"a"' + b" " * 200 + b"}\n" + PING)

        received = []
        while len(received) < 2:
            received += await channel.receive()
        assert isinstance(received[0], Malformed)
        assert received[0].reply.id == 7
        assert received[1] == Request(1, "ping")


@every_stream
async def test_peer_that_stops_reading_closes_the_connection(kind: str) -> None:
    async with streams(kind) as (ours, _theirs):
        channel = StreamChannel(ours, write_timeout=0.1)

        with pytest.raises(ConnectionClosed, match=r"the connection was not read for 0\.1 seconds"):
            await channel.send([BIG])
        with pytest.raises(ConnectionClosed):
            await channel.send([Notification("next")])


async def test_write_timeout_runs_only_while_nothing_is_read(autojump_clock: trio.abc.Clock) -> None:
    ours, theirs = trio.testing.lockstep_stream_pair()
    channel = StreamChannel(ours, write_timeout=10)
    read = bytearray()
    async with ours, theirs, trio.open_nursery() as nursery:
        nursery.start_soon(channel.send, [BIG])
        while not read.endswith(b"\n"):
            await trio.sleep(9)
            read += await theirs.receive_some(64 * 1024)

    assert len(read) > 8_000_000
    assert trio.current_time() > 100 * 9


@every_socket
async def test_cancelled_line_is_finished_on_a_socket(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcptrio.transports.line_channel.FINISH_TIMEOUT", 30.0)
    async with streams(kind) as (ours, theirs), trio.open_nursery() as nursery:
        channel = StreamChannel(ours)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as sending:
                sending.start_soon(channel.send, [BIG])
                await trio.testing.wait_all_tasks_blocked(0.01)
                scope.cancel()
                nursery.start_soon(_read_lines, theirs, 2)
        await channel.send([Notification("next")])


async def _read_lines(stream: trio.abc.ReceiveStream, lines: int) -> None:
    read = bytearray()
    while read.count(b"\n") < lines:
        read += await stream.receive_some()
    assert bytes(read) == to_lines([BIG, Notification("next")])


async def test_cancelled_line_closes_a_stream_that_is_not_a_socket(autojump_clock: trio.abc.Clock) -> None:
    """The number of written bytes is unknown."""
    ours, _theirs = trio.testing.lockstep_stream_pair()
    channel = StreamChannel(ours)
    with trio.move_on_after(1):
        await channel.send([Notification("first")])

    with pytest.raises(ConnectionClosed, match="ends in the middle of a message"):
        await channel.send([Notification("next")])


@every_stream
async def test_closing_wakes_the_waiting_task(kind: str) -> None:
    async with streams(kind) as (ours, theirs), trio.open_nursery() as nursery:
        channel = StreamChannel(ours)

        async def receive() -> None:
            with pytest.raises(ConnectionClosed):
                await channel.receive()

        async def send() -> None:
            with pytest.raises(ConnectionClosed):
                await channel.send([BIG])

        nursery.start_soon(receive)
        nursery.start_soon(send)
        await trio.testing.wait_all_tasks_blocked(0.01)
        await channel.aclose()
        await channel.aclose()
        await drained(theirs)


@every_socket
async def test_reset_connection_is_closed(kind: str) -> None:
    """Data sent before may still arrive; then the connection is closed in both directions."""
    async with streams(kind) as (ours, theirs):
        channel = StreamChannel(ours)
        await channel.send([Notification("unread")])
        assert isinstance(theirs, trio.SocketStream)
        if kind == "tcp":
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await theirs.aclose()

        with pytest.raises(ConnectionClosed, match=r"the connection cannot be read: .*reset"):
            await channel.receive()
        with pytest.raises(ConnectionClosed, match="the connection is closed: "):
            await channel.send([Notification("unread")])


@every_socket
async def test_short_message_is_written_immediately_and_completely(kind: str) -> None:
    async with streams(kind) as (ours, theirs):
        channel = StreamChannel(ours)
        assert isinstance(channel, SynchronousChannel)

        assert channel.send_now(Response(1, {})) is True
        assert await theirs.receive_some() == to_lines([Response(1, {})])

        # The peer has stopped reading: the written part is complete, and the rest is not begun.
        written = 0
        while channel.send_now(Notification("n", {"text": "x" * 3000})):
            written += 1
        assert channel.send_now(Notification("long", {"text": "x" * 5000})) is False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel.send, [Notification("last")])
            read = bytearray()
            while not read.endswith(to_lines([Notification("last")])):
                read += await theirs.receive_some()
        assert bytes(read).count(b"\n") == written + 1
        await channel.aclose()
        assert channel.send_now(Response(1, {})) is False


async def test_peer_without_a_first_message_times_out(autojump_clock: trio.abc.Clock) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(PING[:10])

    with pytest.raises(ConnectionClosed, match="no message received within 60 seconds"):
        await StreamChannel(ours, first_message_timeout=60).receive()
    assert trio.current_time() == 60


async def test_peer_may_send_nothing_after_its_first_message(autojump_clock: trio.abc.Clock) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    channel = StreamChannel(ours, first_message_timeout=60)
    await theirs.send_all(PING)
    assert await channel.receive() == [Request(1, "ping")]

    async with trio.open_nursery() as nursery:

        async def talk() -> None:
            await trio.sleep(3600)
            await theirs.send_all(b"rubbish\n" + PING)

        nursery.start_soon(talk)
        rubbish, ping = await channel.receive()
    assert isinstance(rubbish, Malformed)
    assert ping == Request(1, "ping")


@pytest.mark.parametrize("first", [b"POST / HTTP/1.1\r\n", b"\x16\x03\x01\n", b"[]\n", b"\r\n17\n"])
async def test_peer_that_does_not_begin_with_a_message_is_disconnected(first: bytes) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    channel = StreamChannel(ours, first_message_timeout=60)
    await theirs.send_all(first + PING)

    (received,) = await channel.receive()
    assert isinstance(received, Malformed)
    assert isinstance(received.reply, ErrorResponse)
    await theirs.send_all(PING)
    with pytest.raises(trio.EndOfChannel):
        await channel.receive()
