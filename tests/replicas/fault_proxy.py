"""A TCP proxy between replicas and their engine that can delay, hold or drop bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum
from typing import Final

import trio
from attrs import define, field

__all__ = ["Direction", "FaultProxy", "fault_proxy"]

_CHUNK: Final = 65536
_MAX_CHUNKS: Final = 64
"""Chunks of one direction of one connection that may wait; then the proxy stops reading."""
_CONNECT_SECONDS: Final = 2.0


class Direction(Enum):
    TO_ENGINE = "to the engine"
    FROM_ENGINE = "from the engine"


@define(eq=False)
class FaultProxy:
    """A TCP proxy in front of an engine, which delays, holds and drops bytes.

    Attributes:
        port: Where replicas connect.
        target: The port of the engine.
        breaks_on: Bytes on the way to the engine that reset their connection, once.
    """

    target: int
    port: int = 0
    breaks_on: bytes | None = None
    connections: int = 0
    _delay: float = 0.0
    _held: bool = False
    _lost: Direction | None = None
    _damaged: set[trio.CancelScope] = field(factory=set)
    """Connections that have lost data. They must not continue."""
    _healed: trio.Event = field(factory=trio.Event)

    @property
    def has_lost(self) -> bool:
        """Whether a connection has lost data in the present cut."""
        return bool(self._damaged)

    @asynccontextmanager
    async def delayed(self, seconds: float) -> AsyncIterator[None]:
        """Deliver everything later during the block."""
        self._delay = seconds
        try:
            yield
        finally:
            self._delay = 0.0

    @asynccontextmanager
    async def stalled(self) -> AsyncIterator[None]:
        """Deliver nothing during the block, and everything after it."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
            self._heal()

    @asynccontextmanager
    async def cut(self, direction: Direction) -> AsyncIterator[None]:
        """Lose the data of one direction during the block; then reset the connections that have lost some."""
        self._lost = direction
        try:
            yield
        finally:
            self._lost = None
            damaged, self._damaged = self._damaged, set()
            for scope in damaged:
                scope.cancel()
            self._heal()

    def _heal(self) -> None:
        self._healed.set()
        self._healed = trio.Event()

    async def serve(self, client: trio.SocketStream) -> None:
        """Pass on one connection until either end closes it."""
        self.connections += 1
        try:
            with suppress(OSError, trio.TooSlowError):
                with trio.fail_after(_CONNECT_SECONDS):
                    engine = await trio.open_tcp_stream("127.0.0.1", self.target)
                async with engine:
                    await self._join(client, engine)
        finally:
            self.connections -= 1
            await trio.aclose_forcefully(client)

    async def _join(self, client: trio.SocketStream, engine: trio.SocketStream) -> None:
        async with trio.open_nursery() as nursery:
            scope = nursery.cancel_scope
            for source, sink, direction in (
                (client, engine, Direction.TO_ENGINE),
                (engine, client, Direction.FROM_ENGINE),
            ):
                put, take = trio.open_memory_channel[tuple[float, bytes]](_MAX_CHUNKS)
                nursery.start_soon(self._read, source, put, direction, scope)
                nursery.start_soon(self._write, sink, take, scope)

    async def _read(
        self,
        source: trio.SocketStream,
        put: trio.MemorySendChannel[tuple[float, bytes]],
        direction: Direction,
        scope: trio.CancelScope,
    ) -> None:
        async with put:
            while True:
                try:
                    data = await source.receive_some(_CHUNK)
                except trio.BrokenResourceError:
                    data = b""
                if self.breaks_on is not None and direction is Direction.TO_ENGINE and self.breaks_on in data:
                    self.breaks_on = None
                    scope.cancel()
                if self._lost is direction:
                    self._damaged.add(scope)
                    if not data:
                        # The other end does not learn of the end either, until the cut is over.
                        await self._healed.wait()
                    continue
                if not data:
                    return
                await put.send((trio.current_time() + self._delay, data))

    async def _write(
        self, sink: trio.SocketStream, take: trio.MemoryReceiveChannel[tuple[float, bytes]], scope: trio.CancelScope
    ) -> None:
        async for due, data in take:
            await trio.sleep_until(due)
            while self._held:
                await self._healed.wait()
            try:
                await sink.send_all(data)
            except trio.BrokenResourceError:
                break
        # Neither Redis nor PostgreSQL uses half-closed connections.
        scope.cancel()


@asynccontextmanager
async def fault_proxy(target: int) -> AsyncIterator[FaultProxy]:
    """Run a proxy in front of a port on loopback."""
    proxy = FaultProxy(target)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    proxy.port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, proxy.serve, listeners)
        yield proxy
        nursery.cancel_scope.cancel()
