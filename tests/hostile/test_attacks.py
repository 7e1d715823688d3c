"""Attacks on ``mcptrio serve``: its memory stays in bounds, and a healthy client is served at nearly its usual latency.

Each attack states its bound on the growth of the server's resident memory. Latency is measured at rest and under attack
in the same run, on one connection, since the load of the machine changes from run to run.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import trio

from mcptrio.transports.http.exchange import HTTPLimits
from tests.hostile.answers import Answers
from tests.hostile.conversations import KEY, UPGRADE, VERSION
from tests.hostile.frames import TEXT, frame
from tests.hostile.playing import connect, rude
from tests.hostile.serving import HostileServer
from tests.processes import HELLO, serving
from tests.runtime.peers import envelope

__all__: list[str] = []

MB = 1024 * 1024
RATIO = 5.0
"""The 99th percentile of the latency under attack, divided by that at rest."""
FLOOR = 0.75
"""Seconds that a call may take in any case: server, attacker and client share two slow cores with other tests."""
CALLS = 50
PLUGIN = """
from typing import Any

import trio
from mcptrio import tool


class Slow:
    @tool
    async def hold(self, items: Any) -> str:
        await trio.sleep(60)
        return "held"

    @tool
    async def echo(self, text: Any) -> str:
        return text if isinstance(text, str) else "well"
"""
SHAPES = {
    "nested": (b"[" * 50 + b"]" * 50 + b",") * 980 + b"0",
    "objects": b'{"a":{}},' * 24_500 + b"0",
    "too many values": b"1," * 2_000_000 + b"0",
    "text": b'"' + b"[{," * 1_300_000 + b'"',
}
PROTOCOL = b"sec-websocket-protocol: mcp"
META = b'"_meta":%b' % json.dumps(envelope()).encode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileServer]:
    with started(tmp_path_factory.mktemp("attacked")) as server:
        yield server


@contextmanager
def started(folder: Path, **environment: str) -> Iterator[HostileServer]:
    (folder / "slow.py").write_text(PLUGIN)
    address = ("--port", "0", "--log-level", "warning")
    with serving("--http", *address, "--plugin", str(folder / "slow.py"), cwd=folder, env=environment) as process:
        yield HostileServer(process, {"http": process.port}, folder, frozenset())


def post(body: bytes, *headers: bytes) -> bytes:
    lines = [
        b"POST /mcp HTTP/1.1",
        b"host: 127.0.0.1",
        b"content-type: application/json",
        b"accept: application/json, text/event-stream",
        *headers,
        b"content-length: %d" % len(body),
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def call(tool: bytes, arguments: bytes) -> bytes:
    params = b'{"name":"%b","arguments":%b,%b}' % (tool, arguments, META)
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}' % params
    return post(body, b"mcp-protocol-version: 2026-07-28", b"mcp-method: tools/call", b"mcp-name: " + tool)


async def answer_of(stream: trio.SocketStream, request: bytes) -> int:
    """The status of the answer."""
    answers = Answers()
    await stream.send_all(request)
    while not answers.complete:
        data = await stream.receive_some()
        assert data, "closed"
        answers.feed(bytes(data))
    return answers.complete[0].status


async def latency(server: HostileServer) -> float:
    """The 99th percentile of a healthy client's calls, in seconds."""
    seconds = []
    async with await connect(server.ports["http"]) as stream:
        for _ in range(CALLS):
            begin = trio.current_time()
            assert await answer_of(stream, call(b"echo", b'{"text":"well"}')) == 200
            seconds.append(trio.current_time() - begin)
            await trio.sleep(0.002)
    return sorted(seconds)[CALLS * 99 // 100]


@asynccontextmanager
async def attacked(server: HostileServer, megabytes: int) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Gives what checks, while an attack lasts, that healthy calls are nearly as quick as at rest.

    At the end the server lives, and its memory has grown by so much at most.
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
async def repeated(attack: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Inside, the attack is made again and again, and has been made once."""
    made = trio.Event()

    async def repeat() -> None:
        while True:
            await attack()
            made.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(repeat)
        await made.wait()
        yield
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("shape", SHAPES)
async def test_large_json_in_a_row(shape: str, server: HostileServer) -> None:
    request = call(b"echo", b'{"text":[%b]}' % SHAPES[shape])

    async def attack() -> None:
        # 400: too many values. 429: the client has used its share of the time for parsing.
        assert await answer_of(stream, request) in (200, 400, 429)

    async with attacked(server, 64) as check, await connect(server.ports["http"]) as stream, repeated(attack):
        await check()


async def test_calls_that_hold_large_arguments(tmp_path: Path) -> None:
    """Half of ``server.limits.held_bytes`` is what one client may hold; the estimate is above what they take."""
    request = call(b"hold", b'{"items":[%b]}' % SHAPES["objects"])
    refused = trio.Semaphore(0)

    async def attack() -> None:
        async with rude(await connect(server.ports["http"])) as stream:
            if await answer_of(stream, request) == 503:
                refused.release()

    with started(tmp_path, MCPTRIO_HTTP_PARSE_SHARE="0") as server:
        async with attacked(server, 192) as check, trio.open_nursery() as nursery:
            for _ in range(40):
                nursery.start_soon(attack)
            for _ in range(28):
                await refused.acquire()
            await check()
            nursery.cancel_scope.cancel()


async def test_sessions_that_are_never_used(server: HostileServer) -> None:
    body = json.dumps(HELLO).encode()

    async def attack() -> None:
        async with await connect(server.ports["http"]) as stream:
            for _ in range(50):
                assert await answer_of(stream, post(body)) in (200, 429)

    async with attacked(server, 96) as check, repeated(attack):
        await check()


async def test_bodies_that_stall(server: HostileServer) -> None:
    """One client holds half of the exchanges, and others are served."""
    head = call(b"echo", b'{"text":"x"}')[:-1]
    async with attacked(server, 48) as check, AsyncExitStack() as stack:
        for _ in range(HTTPLimits().streams // 2 - 10):
            stream = await stack.enter_async_context(rude(await connect(server.ports["http"])))
            await stream.send_all(head)
        await check()


async def test_websocket_that_never_reads_its_answers(server: HostileServer) -> None:
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


async def test_unix_socket_that_never_reads_its_answers(tmp_path: Path) -> None:
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
