"""The proxy delays, holds and loses what passes, and passes everything on when it is healed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from tests.replicas.fault_proxy import Direction, FaultProxy, fault_proxy

__all__: list[str] = []


async def _echo(stream: trio.SocketStream) -> None:
    async with stream:
        async for data in stream:
            await stream.send_all(data)


@asynccontextmanager
async def proxied() -> AsyncIterator[tuple[FaultProxy, trio.SocketStream]]:
    """A proxy in front of a server that echoes, and a connection through it."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, _echo, listeners)
        async with fault_proxy(listeners[0].socket.getsockname()[1]) as proxy:
            stream = await trio.open_tcp_stream("127.0.0.1", proxy.port)
            async with stream:
                with trio.fail_after(20):
                    yield proxy, stream
        nursery.cancel_scope.cancel()


async def exchange(stream: trio.SocketStream, data: bytes) -> bytes:
    await stream.send_all(data)
    return bytes(await stream.receive_some(1000))


async def test_proxy_without_faults_passes_everything_on() -> None:
    async with proxied() as (_, stream):
        assert await exchange(stream, b"one") == b"one"


async def test_delay_is_for_each_direction() -> None:
    async with proxied() as (proxy, stream), proxy.delayed(0.1):
        start_time = trio.current_time()

        assert await exchange(stream, b"one") == b"one"

        assert trio.current_time() - start_time >= 0.2


async def test_stalled_bytes_arrive_later() -> None:
    async with proxied() as (proxy, stream):
        async with proxy.stalled():
            await stream.send_all(b"one")
            with trio.move_on_after(0.1):
                raise AssertionError(await stream.receive_some(1000))

        assert await stream.receive_some(1000) == b"one"


@pytest.mark.parametrize("direction", Direction)
async def test_connection_that_has_lost_data_is_reset_after_the_cut(direction: Direction) -> None:
    async with proxied() as (proxy, stream):
        async with proxy.cut(direction):
            await stream.send_all(b"one")
            while not proxy.has_lost:  # noqa: ASYNC110 - no event reports it
                await trio.sleep(0.01)

        try:
            assert await stream.receive_some(1000) == b""
        except trio.BrokenResourceError:
            pass
        async with await trio.open_tcp_stream("127.0.0.1", proxy.port) as other:
            assert await exchange(other, b"two") == b"two"


async def test_connection_that_has_lost_nothing_survives_a_cut() -> None:
    async with proxied() as (proxy, stream):
        async with proxy.cut(Direction.TO_ENGINE):
            pass

        assert await exchange(stream, b"one") == b"one"


async def test_missing_engine_closes_the_connection() -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()
    async with fault_proxy(port) as proxy, await trio.open_tcp_stream("127.0.0.1", proxy.port) as stream:
        try:
            assert await stream.receive_some(1000) == b""
        except trio.BrokenResourceError:
            pass
