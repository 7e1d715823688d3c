"""A server that is open for as long as a transport runs, and ends in order.

Called by :mod:`mcptrio.serve.stream` and, for the transports of plugins, by the command line.
The one rule: whatever happens, the end takes no longer than the server's shutdown timeout and :data:`CLOSE_TIMEOUT`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

import trio

from mcptrio.abc import Engine
from mcptrio.ground.expected import expect
from mcptrio.ground.nurseries import open_hidden_nursery, raised_alone, require_trio
from mcptrio.server import Server

__all__ = ["CLOSE_TIMEOUT", "Transport", "over_transport", "serve_transport", "until_left"]

CLOSE_TIMEOUT = 1.0
"""Seconds a transport gets after the requests have ended, for closing its connections."""


class Transport(Protocol):
    """Brings peers to a server. What :func:`over_transport` and the hook ``transports`` take."""

    def __call__(
        self, engine: Engine, *, stopping: trio.Event, task_status: trio.TaskStatus[list[str]]
    ) -> Awaitable[None]:
        """Run until cancelled; returning ends the server, and so does raising.

        Args:
            engine: of the open server. ``await engine.serve(channel)`` serves one peer until either side ends it, and
                closes the channel; in ``await engine.contained(partial(engine.serve, channel), "a peer")`` what goes
                wrong with one is logged and ends nothing else.
            stopping: once it is set, no more peers are wanted. Those that are served get the server's shutdown timeout,
                and a second later the transport is cancelled.
            task_status: started with where it serves, in words for the log, when peers can come.
        """
        ...


class Serve(Protocol):
    """Opens a server and serves it until ``shutdown`` is set."""

    def __call__(self, *, shutdown: trio.Event, task_status: trio.TaskStatus[list[str]]) -> Awaitable[None]: ...


@asynccontextmanager
async def until_left(serve: Serve) -> AsyncIterator[list[str]]:
    """Serve for as long as the block lasts. Its end is the orderly end of the server, an exception cancels the server.

    Returns:
        The addresses that ``serve`` is started with.
    """
    shutdown = trio.Event()
    with raised_alone():
        async with trio.open_nursery() as nursery:
            where: list[str] = await nursery.start(partial(serve, shutdown=shutdown))
            yield where
            shutdown.set()


@asynccontextmanager
async def over_transport(server: Server, transport: Transport) -> AsyncIterator[list[str]]:
    """Open the server and serve it over a transport of your own for as long as the block lasts.

    At the end no more peers are accepted, requests in flight have the server's shutdown timeout, and
    a second later the transport is cancelled. An exception of the transport cancels the block.

    Returns:
        The addresses that the transport is started with.
    """
    require_trio("over_transport", side="server")
    expect(server, Server, "over_transport: server")
    async with until_left(partial(serve_transport, server, transport)) as where:
        yield where


async def serve_transport(
    server: Server,
    transport: Transport,
    *,
    shutdown: trio.Event | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve over a transport until ``shutdown`` is set, the caller is cancelled, or it returns. Opens the server.

    Args:
        task_status: started with what the transport is started with.

    Raises:
        OSError: an address cannot be bound, say: what the transport raises comes out here.
    """
    require_trio("serve_transport", side="server")
    shutdown = trio.Event() if shutdown is None else shutdown
    stopping = trio.Event()
    async with open_hidden_nursery() as nursery:
        nursery.start_soon(_stop_after, shutdown, server, stopping, nursery.cancel_scope)
        async with server.open(), trio.open_nursery() as serving:
            serving.start_soon(_drain_after, stopping, server, serving.cancel_scope)
            task_status.started(await _started(serving, transport, server, stopping))


async def _started(serving: trio.Nursery, transport: Transport, server: Server, stopping: trio.Event) -> list[str]:
    async def run(*, task_status: trio.TaskStatus[list[str]]) -> None:
        await transport(server.supervisor, stopping=stopping, task_status=task_status)
        if not stopping.is_set():
            serving.cancel_scope.cancel()
        # Otherwise the requests whose client is not connected at the moment have their time to end.

    where: list[str] = await serving.start(run)
    return where


async def _stop_after(shutdown: trio.Event, server: Server, stopping: trio.Event, scope: trio.CancelScope) -> None:
    await shutdown.wait()
    stopping.set()
    if not server.is_open:
        # A lifespan that is still being entered may take its time; those that are open are left in their order.
        scope.cancel()


async def _drain_after(stopping: trio.Event, server: Server, scope: trio.CancelScope) -> None:
    await stopping.wait()
    await server.supervisor.drain()
    scope.deadline = trio.current_time() + CLOSE_TIMEOUT
