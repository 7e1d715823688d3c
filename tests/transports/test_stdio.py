"""The stdio channel over real descriptors, in this process. Separate processes: test_stdio_process.py."""

from __future__ import annotations

import os
import socket
import tty
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trio.testing
from attrs import define

from mcptrio.abc import MessageChannel
from mcptrio.errors import ConnectionClosed
from mcptrio.protocol.messages import Incoming, Malformed, Notification, Request, Response
from mcptrio.serving import MessageLimits
from mcptrio.transports.fd_streams import ThreadReader, ThreadWriter, WaitingReader, WaitingWriter
from mcptrio.transports.line_channel import LineChannel
from mcptrio.transports.lines import LineFramer, to_lines
from mcptrio.transports.stdio import open_stdio

WAIT_TIMEOUT = 30.0
"""Seconds; only a failing test waits this long."""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the timeout in which a started line is finished, for slow machines."""
    monkeypatch.setattr("mcptrio.transports.line_channel.FINISH_TIMEOUT", WAIT_TIMEOUT)


@define
class Peer:
    """The other ends of two pipes."""

    stdin_fd: int
    stdout_fd: int
    write_fd: int
    read_fd: int

    def write(self, data: bytes) -> None:
        os.write(self.write_fd, data)

    def close(self, *names: str) -> None:
        for name in names or ("stdin_fd", "stdout_fd", "write_fd", "read_fd"):
            if getattr(self, name) >= 0:
                os.close(getattr(self, name))
                setattr(self, name, -1)

    async def read(self, size: int = 65536) -> bytes:
        await trio.lowlevel.wait_readable(self.read_fd)
        return os.read(self.read_fd, size)


@pytest.fixture
def peer() -> Iterator[Peer]:
    stdin_fd, write_fd = os.pipe()
    read_fd, stdout_fd = os.pipe()
    peer = Peer(stdin_fd, stdout_fd, write_fd, read_fd)
    yield peer
    peer.close()


@contextmanager
def second(fd: int) -> Iterator[int]:
    """Duplicate a descriptor."""
    other = os.dup(fd)
    yield other
    os.close(other)


async def test_messages_are_received_and_sent(peer: Peer) -> None:
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_stdio(stdin_fd=peer.stdin_fd, stdout_fd=peer.stdout_fd) as channel:
            port: MessageChannel = channel
            assert port.name == "stdio"
            peer.write(to_lines([Request(1, "a"), Notification("b")]) + b'{"jsonrpc":')
            assert await channel.receive() == [Request(1, "a"), Notification("b")]
            peer.write(b'"2.0","method":"c"}\n')
            assert await channel.receive() == [Notification("c")]
            await channel.send([Response(1, {}), [Notification("d")]])
            assert await peer.read() == to_lines([Response(1, {}), [Notification("d")]])


async def test_last_line_without_a_line_end_precedes_the_end_of_input(peer: Peer) -> None:
    """After the last line, each receive reports the end."""
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_stdio(stdin_fd=peer.stdin_fd, stdout_fd=peer.stdout_fd) as channel:
            peer.write(to_lines([Notification("a")])[:-1])
            peer.close("write_fd")
            assert await channel.receive() == [Notification("a")]
            for _ in range(2):
                with pytest.raises(trio.EndOfChannel):
                    await channel.receive()
            await channel.send([Notification("still here")])
            assert await peer.read() == to_lines([Notification("still here")])


async def test_line_over_the_limit_is_refused_and_the_next_one_received(peer: Peer) -> None:
    received: list[Incoming] = []
    limits = MessageLimits(bytes=100_000)
    lines = b"x" * 300_000 + b"\n" + to_lines([Notification("a")])
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_stdio(stdin_fd=peer.stdin_fd, stdout_fd=peer.stdout_fd, limits=limits) as channel:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.to_thread.run_sync, peer.write, lines)
                while len(received) < 2:
                    received += await channel.receive()

    report, good = received
    assert isinstance(report, Malformed)
    assert "the limit is 100000 bytes" in report.reply.message
    assert good == Notification("a")


async def test_standard_descriptors_are_redirected_and_restored(peer: Peer) -> None:
    before = os.fstat(peer.stdin_fd), os.fstat(peer.stdout_fd)
    async with open_stdio(stdin_fd=peer.stdin_fd, stdout_fd=peer.stdout_fd) as channel:
        assert os.read(peer.stdin_fd, 1) == b""
        assert os.path.samestat(os.fstat(peer.stdout_fd), os.fstat(2))
        await channel.send([Notification("a")])

    after = os.fstat(peer.stdin_fd), os.fstat(peer.stdout_fd)
    assert [each.st_ino for each in before] == [each.st_ino for each in after]
    assert os.get_blocking(peer.stdout_fd)
    assert await peer.read() == to_lines([Notification("a")])


async def test_descriptors_stay_blocking(peer: Peer) -> None:
    """The mode would apply to every process that shares the file."""
    with second(peer.stdin_fd) as stdin_fd, second(peer.stdout_fd) as stdout_fd:
        async with open_stdio(stdin_fd=peer.stdin_fd, stdout_fd=peer.stdout_fd) as channel:
            await channel.send([Notification("a")])
            peer.write(to_lines([Notification("b")]))
            await channel.receive()
            assert os.get_blocking(stdin_fd)
            assert os.get_blocking(stdout_fd)


async def test_channel_descriptors_are_not_inherited(peer: Peer) -> None:
    pipes = [os.fstat(peer.stdin_fd), os.fstat(peer.stdout_fd)]
    async with open_stdio(stdin_fd=peer.stdin_fd, stdout_fd=peer.stdout_fd):
        copies = []
        for fd in map(int, os.listdir("/proc/self/fd")):
            with suppress(OSError):  # the descriptor of the listing
                if any(os.path.samestat(os.fstat(fd), pipe) for pipe in pipes):
                    copies.append(fd)

        assert len(copies) == 2 + 4  # two of the peer; two of the channel, and the two that it replaced
        assert not any(os.get_inheritable(fd) for fd in copies)


async def test_slow_reader_receives_a_large_message_completely(peer: Peer) -> None:
    """Far more than a pipe holds, read in small pieces."""
    message = Notification("a", {"text": "x" * 1_000_000})
    got = bytearray()

    async def read() -> None:
        while len(got) < 1_000_000 or not got.endswith(b"\n"):
            got.extend(await peer.read(7000))

    with trio.fail_after(WAIT_TIMEOUT):
        async with open_stdio(stdin_fd=peer.stdin_fd, stdout_fd=peer.stdout_fd) as channel:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                await channel.send([message])

    assert bytes(got) == to_lines([message])


async def test_cancelled_send_finishes_the_line_it_began(peer: Peer) -> None:
    message = Notification("a", {"text": "x" * 500_000})
    got = bytearray()
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_stdio(stdin_fd=peer.stdin_fd, stdout_fd=peer.stdout_fd) as channel:
            async with trio.open_nursery() as outer:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(channel.send, [message])
                    await trio.testing.wait_all_tasks_blocked()
                    nursery.cancel_scope.cancel()

                    async def read() -> None:
                        while len(got) < 500_000 or not got.endswith(b"\n"):
                            got.extend(await peer.read())

                    outer.start_soon(read)
            await channel.send([Notification("b")])
            got.extend(await peer.read())

    assert LineFramer().feed(bytes(got)) == [message, Notification("b")]


async def test_cancelled_send_that_cannot_be_finished_closes_the_channel(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcptrio.transports.line_channel.FINISH_TIMEOUT", 0.05)
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_stdio(stdin_fd=peer.stdin_fd, stdout_fd=peer.stdout_fd) as channel:
            with trio.move_on_after(0.05) as scope:
                await channel.send([Notification("a", {"text": "x" * 500_000})])
            assert scope.cancelled_caught
            with pytest.raises(ConnectionClosed, match="middle of a message"):
                await channel.send([Notification("b")])


async def test_send_cancelled_before_it_begins_writes_nothing(peer: Peer) -> None:
    async with open_stdio(stdin_fd=peer.stdin_fd, stdout_fd=peer.stdout_fd) as channel:
        with trio.CancelScope() as scope:
            scope.cancel()
            await channel.send([Notification("a")])
        await channel.send([Notification("b")])

    assert scope.cancelled_caught
    assert await peer.read() == to_lines([Notification("b")])


async def test_peer_that_stops_reading_closes_the_connection(peer: Peer) -> None:
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_stdio(stdin_fd=peer.stdin_fd, stdout_fd=peer.stdout_fd, write_timeout=0.1) as channel:
            with pytest.raises(ConnectionClosed, match=r"not read for 0\.1 seconds"):
                await channel.send([Notification("a", {"text": "x" * 500_000})])
            with pytest.raises(ConnectionClosed, match="not read"):
                await channel.send([Notification("b")])


async def test_send_to_a_closed_peer_raises_connection_closed(peer: Peer) -> None:
    peer.close("read_fd")
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_stdio(stdin_fd=peer.stdin_fd, stdout_fd=peer.stdout_fd) as channel:
            for _ in range(2):
                with pytest.raises(ConnectionClosed, match="Broken pipe"):
                    await channel.send([Notification("a")])


async def test_peer_that_closes_during_a_write_raises_connection_closed(peer: Peer) -> None:
    async def send() -> None:
        with pytest.raises(ConnectionClosed, match="Broken pipe"):
            await channel.send([Notification("a", {"text": "x" * 500_000})])

    with trio.fail_after(WAIT_TIMEOUT):
        async with open_stdio(stdin_fd=peer.stdin_fd, stdout_fd=peer.stdout_fd) as channel:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                await trio.testing.wait_all_tasks_blocked()
                peer.close("read_fd")


async def test_closing_wakes_the_waiting_task(peer: Peer) -> None:
    async def receive() -> None:
        with pytest.raises(ConnectionClosed):
            await channel.receive()

    async def send() -> None:
        with pytest.raises(ConnectionClosed):
            await channel.send([Notification("a", {"text": "x" * 500_000})])

    with trio.fail_after(WAIT_TIMEOUT):
        async with open_stdio(stdin_fd=peer.stdin_fd, stdout_fd=peer.stdout_fd) as channel:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(receive)
                nursery.start_soon(send)
                await trio.testing.wait_all_tasks_blocked()
                await channel.aclose()
            await channel.aclose()
            with pytest.raises(ConnectionClosed):
                await channel.receive()
            with pytest.raises(ConnectionClosed):
                await channel.send([Notification("b")])


async def test_closed_standard_input_ends_and_closed_output_raises(peer: Peer) -> None:
    stdin_fd, stdout_fd = peer.stdin_fd, peer.stdout_fd
    peer.close("stdin_fd", "stdout_fd")
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_stdio(stdin_fd=stdin_fd, stdout_fd=stdout_fd) as channel:
            with pytest.raises(trio.EndOfChannel):
                await channel.receive()
            with pytest.raises(ConnectionClosed, match="Bad file descriptor"):
                await channel.send([Notification("a")])

    for fd in (stdin_fd, stdout_fd):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


async def test_channel_works_over_a_socket_pair() -> None:
    """Node passes socket pairs to its children."""
    ours, theirs = socket.socketpair()
    with ours, theirs, second(ours.fileno()) as stdout_fd, trio.fail_after(WAIT_TIMEOUT):
        async with open_stdio(stdin_fd=ours.fileno(), stdout_fd=stdout_fd) as channel:
            theirs.sendall(to_lines([Notification("a")]))
            assert await channel.receive() == [Notification("a")]
            await channel.send([Notification("b")])
            assert theirs.recv(1000) == to_lines([Notification("b")])
            theirs.shutdown(socket.SHUT_WR)
            with pytest.raises(trio.EndOfChannel):
                await channel.receive()


async def test_channel_works_over_regular_files(tmp_path: Path) -> None:
    lines = to_lines([Notification("a", {"n": n}) for n in range(5000)])
    (tmp_path / "in").write_bytes(lines)
    received: list[Incoming] = []
    stdin_fd, stdout_fd = os.open(tmp_path / "in", os.O_RDONLY), os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    with trio.fail_after(WAIT_TIMEOUT):
        async with open_stdio(stdin_fd=stdin_fd, stdout_fd=stdout_fd) as channel:
            with suppress(trio.EndOfChannel):
                while True:
                    received += await channel.receive()
            await channel.send([each for each in received if isinstance(each, Notification)])
    os.close(stdin_fd)
    os.close(stdout_fd)

    assert len(received) == 5000
    assert (tmp_path / "out").read_bytes() == lines


async def test_channel_works_over_the_null_device() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    with trio.fail_after(WAIT_TIMEOUT), second(null) as stdout_fd:
        async with open_stdio(stdin_fd=null, stdout_fd=stdout_fd) as channel:
            await channel.send([Notification("a")])
            with pytest.raises(trio.EndOfChannel):
                await channel.receive()
    os.close(null)


async def test_channel_works_over_a_terminal() -> None:
    """Input, output and the shell share one file; more is written than a terminal accepts at once."""
    master, slave = os.openpty()
    tty.setraw(slave)
    message = Notification("b", {"text": "x" * 100_000})
    lines = to_lines([message])
    got = bytearray()
    with trio.fail_after(WAIT_TIMEOUT), second(slave) as stdout_fd:
        async with open_stdio(stdin_fd=slave, stdout_fd=stdout_fd) as channel:
            os.write(master, to_lines([Notification("a")]))
            assert await channel.receive() == [Notification("a")]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(channel.send, [message])
                while len(got) < len(lines):
                    await trio.lowlevel.wait_readable(master)
                    got += os.read(master, 65536)
    os.close(slave)
    os.close(master)

    assert bytes(got) == lines


@pytest.fixture
async def threaded(peer: Peer) -> AsyncIterator[LineChannel]:
    """A channel as on a system whose pipes cannot be polled."""
    channel = LineChannel(ThreadReader(peer.stdin_fd), ThreadWriter(peer.stdout_fd), LineFramer())
    peer.stdin_fd = peer.stdout_fd = -1  # the threads own them
    yield channel
    await channel.aclose()
    peer.close()  # which releases a thread that is blocked in it


async def test_channel_works_with_threads(threaded: LineChannel, peer: Peer) -> None:
    with trio.fail_after(WAIT_TIMEOUT):
        for n in range(50):
            peer.write(to_lines([Request(n, "a")]))
            assert await threaded.receive() == [Request(n, "a")]
            await threaded.send([Response(n, {})])
            assert await peer.read() == to_lines([Response(n, {})])
        peer.close("write_fd")
        with pytest.raises(trio.EndOfChannel):
            await threaded.receive()
        peer.close("read_fd")
        with pytest.raises(ConnectionClosed, match="Broken pipe"):
            await threaded.send([Notification("a")])


async def test_cancelled_read_in_a_thread_loses_nothing(threaded: LineChannel, peer: Peer) -> None:
    with trio.fail_after(WAIT_TIMEOUT):
        for n in range(3):
            with trio.move_on_after(0.01) as scope:
                await threaded.receive()
            assert scope.cancelled_caught
            peer.write(to_lines([Request(n, "a")]))
            assert await threaded.receive() == [Request(n, "a")]


async def test_cancelled_write_in_a_thread_finishes_its_line(threaded: LineChannel, peer: Peer) -> None:
    message = Notification("a", {"text": "x" * 500_000})
    got = bytearray()
    with trio.fail_after(WAIT_TIMEOUT):
        async with trio.open_nursery() as outer:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(threaded.send, [message])
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()

                async def read() -> None:
                    while len(got) < 500_000 or not got.endswith(b"\n"):
                        got.extend(await peer.read())

                outer.start_soon(read)
        await threaded.send([Notification("b")])
        got.extend(await peer.read())

    assert LineFramer().feed(bytes(got)) == [message, Notification("b")]


async def test_blocked_writer_thread_closes_the_connection(
    threaded: LineChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threaded, "_write_timeout", 0.2)
    with trio.fail_after(WAIT_TIMEOUT), pytest.raises(ConnectionClosed, match=r"not read for 0\.2 seconds"):
        await threaded.send([Notification("a", {"text": "x" * 500_000})])


async def test_closing_wakes_a_task_that_waits_for_a_thread(threaded: LineChannel) -> None:
    async def receive() -> None:
        with pytest.raises(ConnectionClosed):
            await threaded.receive()

    with trio.fail_after(WAIT_TIMEOUT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await trio.testing.wait_all_tasks_blocked()
            await threaded.aclose()
        with pytest.raises(ConnectionClosed):
            await threaded.receive()


@pytest.mark.parametrize("kinds", [(ThreadReader, ThreadWriter), (WaitingReader, WaitingWriter)])
async def test_channel_works_with_non_blocking_descriptors(
    peer: Peer, kinds: tuple[type[ThreadReader | WaitingReader], type[ThreadWriter | WaitingWriter]]
) -> None:
    message = Notification("a", {"text": "x" * 300_000})
    os.set_blocking(peer.stdin_fd, False)
    os.set_blocking(peer.stdout_fd, False)
    channel = LineChannel(kinds[0](peer.stdin_fd), kinds[1](peer.stdout_fd), LineFramer())
    peer.stdin_fd = peer.stdout_fd = -1
    received: list[Incoming] = []
    got = bytearray()

    async def receive() -> None:
        received.extend(await channel.receive())

    with trio.fail_after(WAIT_TIMEOUT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            nursery.start_soon(channel.send, [message])
            await trio.testing.wait_all_tasks_blocked()
            peer.write(to_lines([Notification("b")]))
            while not got.endswith(b"\n"):
                got += await peer.read()
        await channel.aclose()

    assert bytes(got) == to_lines([message])
    assert received == [Notification("b")]
