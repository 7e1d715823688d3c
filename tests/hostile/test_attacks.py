"""Attacks on ``mcptrio serve``: its memory stays in bounds, and a healthy client is served at nearly its usual latency.

Each attack states its bound on the growth of the server's resident memory. Latency is measured at rest and under attack
in the same run, on one connection, since the load of the machine changes from run to run.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from tests.hostile.attacks import ATTACKS, SHAPES, Attack
from tests.hostile.calls import META, PLUGIN, answers_of, call, latencies, post, started
from tests.hostile.conversations import KEY, UPGRADE, VERSION
from tests.hostile.frames import TEXT, frame
from tests.hostile.playing import connect, rude
from tests.hostile.serving import HostileServer
from tests.processes import HELLO, serving

__all__: list[str] = []

MB = 1024 * 1024
RATIO = 5.0
"""The 99th percentile of the latency under attack, divided by that at rest."""
FLOOR = 2.0
"""Seconds that a call may always take: server, attacker and client share two slow cores with other tests. An attack
that blocks the server holds a call up for longer."""
CALLS = 50
MEGABYTES = {**dict.fromkeys(SHAPES, 64), "stall": 48}
"""The permitted growth of the server's memory, by attack."""
PROTOCOL = b"sec-websocket-protocol: mcp"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileServer]:
    with started(tmp_path_factory.mktemp("attacked")) as server:
        yield server


async def latency(server: HostileServer) -> float:
    """The 99th percentile of a healthy client's calls, in seconds."""
    return (await latencies(server.ports["http"], CALLS))[CALLS * 99 // 100]


@asynccontextmanager
async def attacked(server: HostileServer, megabytes: int) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Yield a check that healthy calls are nearly as fast as at rest.

    At the end the server is alive, and its memory has grown by at most this many megabytes.
    """
    with trio.fail_after(60):
        rest = await latency(server)

        async def check() -> None:
            under = await latency(server)
            print(f"p99 {rest * 1000:.1f} ms at rest, {under * 1000:.1f} ms under attack")
            assert under <= max(RATIO * rest, FLOOR)

        before = server.reset_peak()
        yield check
    grown = (server.peak() - before) / MB
    print(f"bound {megabytes} MB, peak {grown:.1f} MB")
    assert server.lives
    assert grown < megabytes


@asynccontextmanager
async def under(attack: Attack, server: HostileServer) -> AsyncIterator[None]:
    """Run the attack around the block, after its first round."""
    made = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(attack, server.ports["http"], made.set)
        await made.wait()
        yield
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("attack", MEGABYTES)
async def test_attack_is_bounded(attack: str, server: HostileServer) -> None:
    async with attacked(server, MEGABYTES[attack]) as check, under(ATTACKS[attack], server):
        await check()


async def test_calls_with_large_arguments_are_bounded(tmp_path: Path) -> None:
    """One client may hold half of ``server.limits.held_bytes``; the estimate is higher than the actual use."""
    request = call(b"hold", b'{"items":[%b]}' % SHAPES["objects"])
    refused = trio.Semaphore(0)

    async def attack() -> None:
        async with rude(await connect(server.ports["http"])) as stream:
            if await answers_of(stream, request) == [503]:
                refused.release()

    with started(tmp_path, MCPTRIO_HTTP_PARSE_SHARE="0") as server:
        async with attacked(server, 192) as check, trio.open_nursery() as nursery:
            for _ in range(40):
                nursery.start_soon(attack)
            for _ in range(28):
                await refused.acquire()
            await check()
            nursery.cancel_scope.cancel()


async def test_10_000_unused_sessions_are_bounded(server: HostileServer) -> None:
    """From one address, which gets no more sessions; another address still gets one."""
    async with attacked(server, 96) as check, under(ATTACKS["sessions"], server):
        await check()
        async with await connect(server.ports["http"], source="127.0.0.2") as stream:
            assert await answers_of(stream, post(json.dumps(HELLO).encode())) == [200]


async def test_websocket_with_unread_responses_is_bounded(server: HostileServer) -> None:
    request = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%b"},%b}}'
    async with attacked(server, 96) as check, AsyncExitStack() as stack:
        stream = await stack.enter_async_context(rude(await connect(server.ports["http"], window=4096)))
        await stream.send_all(
            b"\r\n".join((b"GET /ws HTTP/1.1", b"host: 127.0.0.1", *UPGRADE, KEY, VERSION, PROTOCOL, b"", b""))
        )
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 101 ")
        with trio.move_on_after(1):
            for number in range(100):
                await stream.send_all(frame(TEXT, request % (number, b"x" * 3 * MB, META)))
        await check()


async def test_unix_socket_with_unread_responses_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(PLUGIN)
    request = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%b"},%b}}\n'
    with serving("--listen", f"unix:{tmp_path / 's'}", "--plugin", str(tmp_path / "slow.py"), cwd=tmp_path) as process:
        process.until("serving")
        server = HostileServer(process, {}, tmp_path, frozenset())
        before = server.reset_peak()
        async with await trio.open_unix_socket(str(tmp_path / "s")) as stream:
            with trio.move_on_after(2):
                for number in range(100):
                    await stream.send_all(request % (number, b"x" * 3 * MB, META))
        grown = (server.peak() - before) / MB
        async with await trio.open_unix_socket(str(tmp_path / "s")) as stream:
            await stream.send_all(request % (0, b"well", META))
            with trio.fail_after(60):
                assert b"well" in await stream.receive_some()

    print(f"bound 96 MB, peak {grown:.1f} MB")
    assert grown < 96
