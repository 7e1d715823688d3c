"""An attacked server, and the calls of attackers and healthy clients.

Used by the tests of attacks, and by ``benchmarks/attacked.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import trio

from tests.hostile.answers import Answers
from tests.hostile.playing import connect
from tests.hostile.serving import HostileServer
from tests.processes import serving
from tests.runtime.peers import envelope

__all__ = ["META", "PLUGIN", "answers_of", "call", "latencies", "post", "started"]

PLUGIN: Final = """
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
META: Final = b'"_meta":%b' % json.dumps(envelope()).encode()


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


async def answers_of(stream: trio.SocketStream, requests: bytes, count: int = 1) -> list[int]:
    """Return the statuses of the responses to this number of requests, which are sent at once."""
    answers = Answers()
    await stream.send_all(requests)
    while len(answers.complete) < count:
        data = await stream.receive_some()
        if not data:
            raise trio.BrokenResourceError("the server closed the connection before it answered")
        answers.feed(bytes(data))
    return [answer.status for answer in answers.complete]


async def latencies(port: int, calls: int) -> list[float]:
    """Return the duration in seconds of each call of a healthy client, in ascending order."""
    seconds = []
    async with await connect(port) as stream:
        for _ in range(calls):
            began = trio.current_time()
            assert await answers_of(stream, call(b"echo", b'{"text":"well"}')) == [200]
            seconds.append(trio.current_time() - began)
            await trio.sleep(0.002)
    return sorted(seconds)
