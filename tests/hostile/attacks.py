"""Attacks on ``mcptrio serve``, each of which is repeated until it is cancelled.

Used by the tests of attacks, and by ``benchmarks/attacked.py``, which makes them from another process: ``python -m
tests.hostile.attacks NAME PORT``.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Final, TypeAlias

import trio

from mcptrio.http.server.limits import HTTPLimits
from tests.hostile.calls import answers_of, call, post
from tests.hostile.cases import get
from tests.hostile.playing import connect, reset, rude
from tests.processes import HELLO

__all__ = ["ATTACKS", "OFFERS", "SHAPES", "STRADDLING", "Attack"]

Made: TypeAlias = Callable[[], None]
"""Called when an attack has been made for the first time, and perhaps again."""
Attack: TypeAlias = Callable[[int, Made], Awaitable[None]]

OFFERS: Final = get(b"/early", b"connection: upgrade", b"upgrade: h") * 600
"""One packet."""
HEADS: Final = 100
INITIALIZES: Final = 100
"""Requests that are sent before their responses are read."""
SESSIONS: Final = 10_000
MAX_OPEN: Final = 60
"""Concurrent calls."""
SHAPES: Final = {
    "nested": (b"[" * 50 + b"]" * 50 + b",") * 980 + b"0",
    "objects": b'{"a":{}},' * 24_500 + b"0",
    "too many values": b"1," * 2_000_000 + b"0",
    "text": b'"' + b"[{," * 1_300_000 + b'"',
}
STRADDLING: Final = get(b"/early", b"x-long: " + b"y" * 8000 + b" RTSP/")


async def json_in_a_row(shape: bytes, port: int, made: Made) -> None:
    request = call(b"echo", b'{"text":[%b]}' % shape)

    async def make(stream: trio.SocketStream) -> None:
        # 400: too many values. 429: the client has used its share of the time for parsing.
        statuses = await answers_of(stream, request)
        assert statuses[0] in (200, 400, 429), statuses

    await _repeat(make, port, made)


async def sessions(port: int, made: Made) -> None:
    """Open many sessions and never use them."""
    requests = post(json.dumps(HELLO).encode()) * INITIALIZES

    async def make(stream: trio.SocketStream) -> None:
        for _ in range(SESSIONS // INITIALIZES):
            assert set(await answers_of(stream, requests, INITIALIZES)) <= {200, 429}

    await _repeat(make, port, made)


async def offers(port: int, made: Made) -> None:
    """Send packets of requests that each offer another protocol."""

    async def make(stream: trio.SocketStream) -> None:
        await answers_of(stream, OFFERS, 600)

    await _repeat(make, port, made)


async def straddling_heads(port: int, made: Made) -> None:
    """Each write contains the end of one head and the beginning of the next."""
    middle = len(STRADDLING) // 2

    async def make(stream: trio.SocketStream) -> None:
        await stream.send_all(STRADDLING[:middle])
        for _ in range(HEADS):
            await answers_of(stream, STRADDLING[middle:] + STRADDLING[:middle])
        await answers_of(stream, STRADDLING[middle:])

    await _repeat(make, port, made)


async def stall(port: int, made: Made) -> None:
    """Send bodies without an end. One client may use half of the exchanges."""
    head = call(b"echo", b'{"text":"x"}')[:-1]
    async with AsyncExitStack() as stack:
        for _ in range(HTTPLimits().streams // 2 - 10):
            stream = await stack.enter_async_context(rude(await connect(port)))
            await stream.send_all(head)
        made()
        await trio.sleep_forever()


async def hold(port: int, made: Made) -> None:
    """Make long calls with large arguments; each new one closes the oldest."""
    request = call(b"hold", b'{"items":[%b]}' % SHAPES["objects"])
    held: deque[trio.SocketStream] = deque()
    try:
        while True:
            stream = await connect(port)
            held.append(stream)
            with suppress(trio.BrokenResourceError):
                await stream.send_all(request)
            if len(held) > MAX_OPEN:
                made()
                reset(held.popleft())
    finally:
        for stream in held:
            reset(stream)


ATTACKS: Final[Mapping[str, Attack]] = {
    **{shape: partial(json_in_a_row, text) for shape, text in SHAPES.items()},
    "sessions": sessions,
    "offers": offers,
    "heads": straddling_heads,
    "stall": stall,
    "hold": hold,
}


async def _repeat(make: Callable[[trio.SocketStream], Awaitable[None]], port: int, made: Made) -> None:
    while True:
        with suppress(trio.BrokenResourceError, OSError):
            async with await connect(port) as stream:
                while True:
                    await make(stream)
                    made()


if __name__ == "__main__":
    trio.run(ATTACKS[sys.argv[1]], int(sys.argv[2]), partial(print, "made", flush=True))
