"""The messages between a worker and its parent, without the processes: the bus, the start, the log lines."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mcptrio.errors import ConfigError
from mcptrio.http.engine.server import run_engine
from mcptrio.serve.worker import LINK_VARIABLE, WorkerStart, current_worker
from mcptrio.serve.worker_balance import PAUSE_SECONDS, ConnectionCounter, ConnectionCounters
from mcptrio.serve.worker_bus import BusRelay, WorkerBus
from mcptrio.serve.worker_link import MAX_FRAME_BYTES, FrameKind, WorkerLink
from mcptrio.serve.worker_output import SharedStderr, WorkerStderr
from mcptrio.transports.sockets import listen

__all__: list[str] = []


@contextmanager
def links() -> Iterator[tuple[WorkerLink, WorkerLink]]:
    """Two ends of one link."""
    with ExitStack() as stack:
        yield tuple(stack.enter_context(closing(WorkerLink(sock))) for sock in socket.socketpair())  # type: ignore[misc]


@asynccontextmanager
async def two_workers() -> AsyncIterator[tuple[WorkerBus, WorkerBus]]:
    """The buses of two workers of one parent."""
    relay = BusRelay()
    buses = []

    async def parent(link: WorkerLink) -> None:
        while True:
            for kind, body in await link.receive():
                if kind is FrameKind.FOLLOW:
                    relay.follow(link, body)
                elif kind is FrameKind.UNFOLLOW:
                    relay.unfollow(link, body)
                elif kind is FrameKind.LOST:
                    relay.report_lost(link)
                else:
                    relay.forward(link, body)

    async def worker(link: WorkerLink, bus: WorkerBus) -> None:
        while True:
            for kind, body in await link.receive():
                bus.deliver(body) if kind is FrameKind.MESSAGE else bus.report_lost()

    with links() as first, links() as second:
        async with trio.open_nursery() as nursery:
            for theirs, ours in (first, second):
                buses.append(WorkerBus(theirs))
                nursery.start_soon(parent, ours)
                nursery.start_soon(worker, theirs, buses[-1])
                nursery.start_soon(theirs.send)
                nursery.start_soon(ours.send)
            yield buses[0], buses[1]
            nursery.cancel_scope.cancel()


class Follower:
    """Follows a topic, and waits for its messages."""

    def __init__(self, bus: WorkerBus, topic: str) -> None:
        self.send, self._receive = trio.open_memory_channel[bytes | None](100)
        self.unfollow = bus.follow(topic, self.send.send_nowait)

    async def next(self) -> bytes | None:
        with trio.fail_after(30):
            return await self._receive.receive()

    def has_messages(self) -> bool:
        return bool(self.send.statistics().current_buffer_used)


async def test_message_reaches_followers_in_both_workers_and_no_other() -> None:
    async with two_workers() as (here, there):
        own, other, unasked = Follower(here, "a"), Follower(there, "a"), Follower(there, "b")
        await wait_all_tasks_blocked(0.01)
        here.publish("a", b"1")
        here.publish("a", b"2" * 300_000)

        for follower in (own, other):
            assert [await follower.next(), await follower.next()] == [b"1", b"2" * 300_000]
        assert not unasked.has_messages()


async def test_topic_is_followed_again_after_its_last_follower_has_left() -> None:
    async with two_workers() as (here, there):
        for number in range(3):
            follower = Follower(there, "a")
            await wait_all_tasks_blocked(0.01)
            here.publish("a", b"%d" % number)
            assert await follower.next() == b"%d" % number
            follower.unfollow()


async def test_followers_learn_that_messages_were_dropped() -> None:
    async with two_workers() as (here, there):
        other = Follower(there, "a")
        await wait_all_tasks_blocked(0.01)
        here.publish("a", bytes(MAX_FRAME_BYTES))
        here.publish("a", b"small")

        assert await other.next() is None
        assert await other.next() == b"small"


async def test_parent_that_does_not_read_does_not_delay_workers() -> None:
    """The queued bus messages are bounded, and commands are not lost among them."""
    with links() as (worker, parent):
        for number in range(5000):
            worker.publish(b"a", b"%05d" % number + b"x" * 1000)
        worker.queue(FrameKind.READY, b"")
        assert worker.lost > 3000

        kinds, bodies = [], []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(worker.send)
            while FrameKind.READY not in kinds or not bodies[-1].startswith(b"\0\1a04999"):
                for kind, body in await parent.receive():
                    kinds.append(kind)
                    bodies.append(body)
            nursery.cancel_scope.cancel()
    assert kinds.count(FrameKind.LOST) == 1
    # All messages, the READY frame, and the one that reports the loss.
    assert len(bodies) + worker.lost == 5002


async def test_topic_left_before_it_was_sent_is_not_sent() -> None:
    with links() as (worker, parent):
        while not worker.lost:
            worker.publish(b"a", b"x" * 100_000)
        bus = WorkerBus(worker)
        for _ in range(100):
            bus.follow("b", lambda _: None)()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(worker.send)
            worker.queue(FrameKind.READY)
            frames = []
            while not any(kind is FrameKind.READY for kind, _ in frames):
                frames += await parent.receive()
            nursery.cancel_scope.cancel()
    assert {kind for kind, _ in frames} <= {FrameKind.MESSAGE, FrameKind.READY, FrameKind.LOST}


@pytest.mark.parametrize(
    "sent", [b"\xff\xff\xff\xff\x06", b"\0\0\0\0\xff", b"\0\0\0"], ids=["huge", "unknown", "cut off"]
)
async def test_malformed_frame_ends_the_link(sent: bytes) -> None:
    here, there = socket.socketpair()
    with closing(WorkerLink(here)) as link:
        there.sendall(sent)
        there.close()
        with trio.fail_after(30), pytest.raises(trio.EndOfChannel):
            await link.receive()


async def test_message_over_the_size_limit_is_delivered_locally_only() -> None:
    async with two_workers() as (here, _):
        own = Follower(here, "a")
        here.publish("a", bytes(MAX_FRAME_BYTES))

        assert len(await own.next() or b"") == MAX_FRAME_BYTES


# Start


def test_worker_arguments_round_trip() -> None:
    given: dict[str, Any] = {"number": 3, "sockets": (5, 6), "counters": 7, "index": 1, "folder": None}
    start_parameters = WorkerStart(**given, key=bytes(range(32)), last_request_timeout=1.0, shutdown=float("inf"))

    assert WorkerStart.decode(start_parameters.encode()) == start_parameters
    assert "key" not in repr(start_parameters)


def test_process_not_started_as_a_worker_has_no_link() -> None:
    environment = {"HOME": "/"}

    assert current_worker(environment) is None
    assert environment == {"HOME": "/"}


@pytest.mark.parametrize("message", ["", "many", "999999"])
def test_invalid_worker_link_is_refused(message: str) -> None:
    environment = {LINK_VARIABLE: message}
    with pytest.raises(ConfigError, match="expected the link to a parent"):
        current_worker(environment)

    assert environment == {}


# Shutdown


async def test_stopping_server_answers_one_more_request_of_connected_clients() -> None:
    """It accepts no more connections; new ones wait in the socket's queue for another process."""
    request = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
    listening = listen("127.0.0.1:0")
    address = listening.sockets[0].getsockname()
    leaving, shutdown = trio.Event(), trio.Event()
    with trio.fail_after(30), closing(listening):
        async with trio.open_nursery() as nursery:
            bind = f"fd://{listening.sockets[0].fileno()}"
            await nursery.start(partial(run_engine, hello, bind=bind, leaving=leaving, shutdown=shutdown))
            connected = await trio.open_tcp_stream(*address)
            await connected.send_all(request)
            assert b"connection: close" not in (await connected.receive_some()).lower()
            leaving.set()
            await wait_all_tasks_blocked(0.05)

            waiting = await trio.open_tcp_stream(*address)
            await waiting.send_all(request)
            await connected.send_all(request)
            answer = b""
            while data := await connected.receive_some():
                answer += data
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert b"connection: close" in answer.lower()
            shutdown.set()
        accepted, _ = listening.sockets[0].accept()
        with closing(accepted):
            assert accepted.recv(len(request)) == request
        await connected.aclose()
        await waiting.aclose()


async def hello(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


# Standard error


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
async def test_each_log_line_names_its_worker(as_json: bool, capfd: pytest.CaptureFixture[str]) -> None:
    read, write = os.pipe()
    async with trio.open_nursery() as nursery:
        output = SharedStderr()
        nursery.start_soon(output.run)
        os.write(write, b'{"level": "info"}\n\nTrace')
        os.write(write, b"back\n" + b"x" * 60_000)
        os.close(write)
        await WorkerStderr(read, output, number=3, as_json=as_json).copy()
        nursery.cancel_scope.cancel()

    first, *rest = capfd.readouterr().err.splitlines()
    assert first == ('{"worker": 3, "level": "info"}' if as_json else '[worker 3] {"level": "info"}')
    assert rest == ["[worker 3] Traceback", "[worker 3] " + "x" * 60_000]


# Balance


def test_worker_with_more_connections_accepts_after_the_other() -> None:
    with closing(ConnectionCounters(3)) as board:
        first, second = (ConnectionCounter(os.dup(board.fd), board.take()) for _ in range(2))
        assert first.pause(0) == 0
        assert second.pause(1) == PAUSE_SECONDS
        assert first.pause(2) == PAUSE_SECONDS
        assert second.pause(2) == 0
        first.leave()
        assert second.pause(5) == 0
        first.close()
        second.close()
