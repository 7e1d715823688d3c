"""Floods: endless data, and unread responses, cost the server no more than its limits.

Memory is the peak of the server's process during the flood; healthy clients are served meanwhile.
"""

from __future__ import annotations

import os
import resource
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio

from tests.hostile.answers import Answers, NotHTTP
from tests.hostile.attacks import OFFERS, STRADDLING
from tests.hostile.cases import get, post
from tests.hostile.child import CROWD
from tests.hostile.conversations import KEY, UPGRADE, VERSION
from tests.hostile.frames import BINARY, CONTINUATION, PING, TEXT, frame
from tests.hostile.playing import ask, connect, healthy_clients, rude, state
from tests.hostile.serving import HostileServer
from tests.hostile.sockets import open_socket

__all__: list[str] = []

MB = 1024 * 1024
BLOCKED = 0.4
"""Seconds in which nothing more can be sent: the server has stopped reading."""
MOST = 256 * MB
"""Bytes that a flood sends at most; a server that accepts all of them has no backpressure."""


@asynccontextmanager
async def bounded(server: HostileServer, megabytes: int) -> AsyncIterator[None]:
    """Inside the block, memory grows by at most this many megabytes, and healthy clients are served.

    At the end nothing is in flight.
    """
    before = server.reset_peak()
    async with healthy_clients(server) as clients:
        yield
    grown = (server.peak() - before) / MB
    assert grown < megabytes, f"expected less than {megabytes} MB more, got {grown:.1f}"
    for client in clients:
        assert not client.failure, client
    counters = await state(server.ports["roomy"])
    assert (counters["running"], counters["smuggled"]) == (0, [])


async def pour(stream: trio.SocketStream, piece: bytes, most: int = MOST) -> int:
    """Send a piece repeatedly until the server accepts no more, or has closed. Return the number of accepted bytes."""
    sent = 0
    try:
        while sent < most:
            with trio.move_on_after(BLOCKED) as blocked:
                await stream.send_all(piece)
            if blocked.cancelled_caught:
                break
            sent += len(piece)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    return sent


async def pipelined_requests(server: HostileServer) -> None:
    async with rude(await connect(server.ports["roomy"], window=4096)) as stream:
        assert await pour(stream, get() * 1000) < MOST


async def straddling_heads(server: HostileServer) -> None:
    """Each write has the end of one head and the beginning of the next. The last heads cost as much as the first."""
    middle, seconds = len(STRADDLING) // 2, []
    with trio.fail_after(60):
        async with await connect(server.ports["roomy"]) as stream:
            await stream.send_all(STRADDLING[:middle])
            for _ in range(2):
                before = server.cpu_seconds()
                for _ in range(300):
                    answers = Answers()
                    await stream.send_all(STRADDLING[middle:] + STRADDLING[:middle])
                    while not answers.complete:
                        answers.feed(bytes(await stream.receive_some()))
                seconds.append(server.cpu_seconds() - before)

    assert seconds[1] < 1.5 * seconds[0] + 0.3, seconds


async def offers(server: HostileServer) -> None:
    """Send packets of requests that each offer another protocol."""
    answers = Answers()
    with trio.fail_after(60):
        async with await connect(server.ports["roomy"]) as stream:
            await stream.send_all(OFFERS)
            while len(answers.complete) < 600:
                answers.feed(bytes(await stream.receive_some()))


async def sized_body(server: HostileServer) -> None:
    """To an application that does not read it."""
    async with rude(await connect(server.ports["roomy"])) as stream:
        await stream.send_all(post(b"content-length: 1073741824", target=b"/deaf?sized"))
        assert await pour(stream, b"x" * 65536) < MOST
    await ask(server.ports["roomy"], b"/release?sized")


async def chunked_body(server: HostileServer) -> None:
    """To an application that does not read it."""
    async with rude(await connect(server.ports["roomy"])) as stream:
        await stream.send_all(post(b"transfer-encoding: chunked", target=b"/deaf?chunked"))
        assert await pour(stream, b"10000\r\n" + b"x" * 65536 + b"\r\n") < MOST
    await ask(server.ports["roomy"], b"/release?chunked")


async def tiny_chunks(server: HostileServer) -> None:
    """Five bytes of framing for each byte of data: slow to parse, but valid."""
    answers = Answers()
    with trio.fail_after(60):
        stream = await connect(server.ports["roomy"])
        async with stream:
            await stream.send_all(post(b"transfer-encoding: chunked", body=b"1\r\nx\r\n" * 30_000 + b"0\r\n\r\n"))
            while not answers.complete:
                answers.feed(bytes(await stream.receive_some()))

    assert answers.complete[0].seen["length"] == 30_000


async def unread_streams(server: HostileServer) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(40):
            stream = await stack.enter_async_context(rude(await connect(server.ports["roomy"], window=4096)))
            await stream.send_all(get(b"/stream"))
        await trio.sleep(BLOCKED)


async def knocks(server: HostileServer) -> None:
    """Connections that are reset at once."""
    for number in range(600):
        async with rude(await connect(server.ports["roomy"])) as stream:
            await stream.send_all((b"\r\n", b"GET /echo HT", get(b"/slow"))[number % 3])


async def test_connections_over_the_limit_are_refused(server: HostileServer) -> None:
    """They are refused or closed, the others are served, and later ones are served again."""
    port = server.ports["crowded"]
    streams: list[trio.SocketStream] = []
    refused = trio.Semaphore(0)

    async def hold() -> None:
        stream = await connect(port)
        streams.append(stream)
        try:
            data = await stream.receive_some(200)
            assert data == b"" or data.startswith(b"HTTP/1.1 503 ")
        except trio.BrokenResourceError:
            pass
        refused.release()

    async with bounded(server, 32):
        async with trio.open_nursery() as nursery:
            for _ in range(1500):
                nursery.start_soon(hold)
            with trio.fail_after(60):
                for _ in range(1500 - CROWD):
                    await refused.acquire()
            with trio.move_on_after(BLOCKED) as scope:
                await refused.acquire()
            assert scope.cancelled_caught, "one that was within the limit has been refused"
            nursery.cancel_scope.cancel()
        for stream in streams:
            await trio.aclose_forcefully(stream)
        with trio.fail_after(60):
            while not await is_served(port):
                pass  # the server has not yet noticed all of them


async def test_idle_connections_are_closed_when_descriptors_run_out(server: HostileServer) -> None:
    """The server closes those that have waited longest."""
    pid, port = server.process.process.pid, server.ports["roomy"]
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    async with bounded(server, 16), AsyncExitStack() as stack:
        highest = max(int(number) for number in os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 20, limits[1]))
        try:
            streams = [await stack.enter_async_context(rude(await connect(port))) for _ in range(100)]
            await ask(port)
            # The server closes one for each new one, and no more.
            assert len([stream for stream in streams if not await is_closed(stream)]) >= 15
            for _ in range(20):
                await ask(port)
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        await ask(port)

    assert server.process.stderr.count("could not be accepted") <= 3


async def is_closed(stream: trio.SocketStream) -> bool:
    with trio.move_on_after(0.02):
        try:
            return not await stream.receive_some(1)
        except trio.BrokenResourceError:
            return True
    return False


async def test_stalled_bodies_time_out(server: HostileServer) -> None:
    """The server's timeout protects an application that has none."""
    async with bounded(server, 16), AsyncExitStack() as stack:
        for _ in range(100):
            stream = await stack.enter_async_context(rude(await connect(server.ports["stalling"])))
            await stream.send_all(post(b"content-length: 10", body=b"ab"))
        assert (await state(server.ports["roomy"]))["running"] == 0


async def is_served(port: int) -> bool:
    try:
        await ask(port)
    except (AssertionError, ValueError, trio.BrokenResourceError):
        await trio.sleep(0.05)
        return False
    return True


async def test_compression_bomb_is_limited(server: HostileServer) -> None:
    """A server that accepts compression must count the decompressed bytes."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = compressor.compress(b"\0" * 64 * MB) + compressor.flush(zlib.Z_SYNC_FLUSH)
    async with bounded(server, 24):
        stream = await open_socket(server.ports["roomy"], b"/ws", extension=b"permessage-deflate")
        async with stream:
            await stream.send_all(frame(BINARY, zeros[:-4], rsv=4))
            with trio.fail_after(60):
                try:
                    while await stream.receive_some():
                        pass
                except trio.BrokenResourceError:
                    pass


async def pings(server: HostileServer) -> None:
    async with rude(await open_socket(server.ports["roomy"], b"/ws", window=4096)) as stream:
        assert await pour(stream, frame(PING, b"x" * 125) * 500) < MOST


async def echoes(server: HostileServer) -> None:
    async with rude(await open_socket(server.ports["roomy"], b"/ws", window=4096)) as stream:
        assert await pour(stream, frame(TEXT, b"x" * 50_000)) < MOST


async def large_messages(server: HostileServer) -> None:
    """To an application that does not read them."""
    async with rude(await open_socket(server.ports["roomy"], b"/ws-deaf?large")) as stream:
        assert await pour(stream, frame(BINARY, b"x" * 3_000_000)) < MOST
    await ask(server.ports["roomy"], b"/release?large")


async def small_messages(server: HostileServer) -> None:
    """To an application that does not read them."""
    async with rude(await open_socket(server.ports["roomy"], b"/ws-deaf?small")) as stream:
        assert await pour(stream, frame(TEXT, b"x") * 1000, 8 * MB) < 8 * MB
    await ask(server.ports["roomy"], b"/release?small")


async def one_large_frame(server: HostileServer) -> None:
    """Its announced size, and its data, exceed the limit of a message."""
    async with rude(await open_socket(server.ports["roomy"], b"/ws")) as stream:
        try:
            await stream.send_all(frame(BINARY, length=b"\x7f" + struct.pack("!Q", 2**33)))
            await pour(stream, b"x" * MB)
        except trio.BrokenResourceError:
            pass


async def test_many_tiny_fragments_are_bounded(server: HostileServer) -> None:
    """One message of very many: each may cost no more than it holds. Objects are counted, since memory that floods
    before have left is used again without a trace."""
    port = server.ports["roomy"]
    async with bounded(server, 16), rude(await open_socket(port, b"/ws")) as stream:
        await stream.send_all(frame(BINARY, b"x", fin=False))
        before = (await ask(port, b"/state"))["blocks"]
        with trio.fail_after(60):
            try:
                await stream.send_all(frame(CONTINUATION, b"", fin=False) * 20_000)
                await stream.send_all(frame(CONTINUATION, b"x", fin=False) * 20_000)
                await stream.send_all(frame(PING))
                await stream.receive_some()
            except trio.BrokenResourceError:
                pass
        after = (await ask(port, b"/state"))["blocks"]

    assert after - before < 10_000


async def test_heads_that_straddle_reads_are_bounded(server: HostileServer) -> None:
    async with bounded(server, 8):
        await straddling_heads(server)


async def test_many_offers_of_other_protocols_in_one_packet_are_bounded(server: HostileServer) -> None:
    async with bounded(server, 8):
        await offers(server)


FLOODS: dict[str, tuple[int, tuple[Callable[[HostileServer], Awaitable[None]], ...]]] = {
    "requests": (32, (pipelined_requests, sized_body, chunked_body, tiny_chunks, unread_streams, knocks)),
    "sockets": (32, (pings, echoes, small_messages, one_large_frame)),
    "large messages": (64, (large_messages,)),
}
"""By name: the megabytes that they may use together, and the concurrent load."""


@pytest.mark.parametrize("name", FLOODS)
async def test_flood_is_bounded(name: str, server: HostileServer) -> None:
    megabytes, floods = FLOODS[name]
    async with bounded(server, megabytes), trio.open_nursery() as nursery:
        for flood in floods:
            nursery.start_soon(flood, server)


async def test_websocket_whose_client_stops_reading_is_closed(server: HostileServer) -> None:
    """The server closes it after the write timeout, and the application gets an error."""
    async with bounded(server, 16):
        stream = await open_socket(server.ports["tight"], b"/ws-flood", window=4096)
        with trio.fail_after(90):
            assert (await state(server.ports["roomy"]))["running"] == 0
        await trio.aclose_forcefully(stream)


async def test_abandoned_upgrade_is_closed(server: HostileServer) -> None:
    async with bounded(server, 8):
        for cut in (20, 60, 120):
            async with rude(await connect(server.ports["roomy"])) as stream:
                await stream.send_all(get(b"/ws", *UPGRADE, KEY, VERSION)[:cut])
        with pytest.raises(NotHTTP):
            await open_socket(server.ports["roomy"], b"/ws-refuse")


async def test_no_task_spins_after_the_floods(server: HostileServer) -> None:
    """A task that spins on a closed connection would use processor time."""
    with trio.fail_after(60):
        while True:
            before = server.cpu_seconds()
            await trio.sleep(0.5)
            if server.cpu_seconds() - before < 0.1:
                break
