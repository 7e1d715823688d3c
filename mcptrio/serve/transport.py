"""Opens a server and serves it over any transport, with a bounded shutdown.

:mod:`mcptrio.serve.stream` and :mod:`mcptrio.serve.http` use it, and the command line for the transports of plugins.
Shutting down takes at most the server's shutdown timeout and :data:`CLOSE_TIMEOUT`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

import trio

from mcptrio.abc import Engine
from mcptrio.ground.expected import expect
from mcptrio.ground.nurseries import open_hidden_nursery, require_trio, unwrap_single_exceptions
from mcptrio.server import Server

__all__ = ["CLOSE_TIMEOUT", "Transport", "over_transport", "serve_transport", "serving_block"]

CLOSE_TIMEOUT = 1.0
"""Seconds for a transport to close its connections after the requests have ended."""


class Transport(Protocol):
    """A function that connects peers to a server, for :func:`over_transport` and the hook ``transports``."""

    def __call__(
        self, engine: Engine, *, stopping: trio.Event, task_status: trio.TaskStatus[list[str]]
    ) -> Awaitable[None]:
        """Run until cancelled; returning or raising ends the server.

        Args:
            engine: The engine of the open server. ``await engine.serve(channel)`` serves one peer until either side
                ends it, and closes the channel. Within ``await engine.run_guarded(partial(engine.serve, channel), "a
                peer")``, errors of one peer are logged and do not affect others.
            stopping: Once set, accept no more peers. Requests of the others have the server's shutdown timeout, and a
                second later the transport is cancelled.
            task_status: Start it when peers can connect, with the addresses as text for the log.
        """
        ...


class Serve(Protocol):
    """A function that opens a server and serves it until ``shutdown`` is set."""

    def __call__(self, *, shutdown: trio.Event, task_status: trio.TaskStatus[list[str]]) -> Awaitable[None]: ...


@asynccontextmanager
async def serving_block(serve: Serve) -> AsyncIterator[list[str]]:
    """Serve during the block. The end of the block shuts the server down; an exception cancels the server.

    Returns:
        The value with which ``serve`` starts its ``task_status``: the addresses.
    """
    shutdown = trio.Event()
    with unwrap_single_exceptions():
        async with trio.open_nursery() as nursery:
            addresses: list[str] = await nursery.start(partial(serve, shutdown=shutdown))
            yield addresses
            shutdown.set()


@asynccontextmanager
async def over_transport(server: Server, transport: Transport) -> AsyncIterator[list[str]]:
    """Open the server and serve it over a custom transport during the block.

    At the end of the block, the transport accepts no more peers. Requests in flight have the server's shutdown timeout;
    a second later the transport is cancelled. An exception of the transport cancels the block.

    Returns:
        The value with which the transport starts its ``task_status``: the addresses.
    """
    require_trio("over_transport")
    expect(server, Server, "over_transport: server")
    async with serving_block(partial(serve_transport, server, transport)) as addresses:
        yield addresses


async def serve_transport(
    server: Server,
    transport: Transport,
    *,
    shutdown: trio.Event | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Open the server and serve it over a transport.

    Runs until ``shutdown`` is set, the caller is cancelled, or the transport returns.

    Args:
        shutdown: Set it to stop.
        task_status: Started with the addresses of the transport.

    Raises:
        OSError: An address cannot be bound. Exceptions of the transport are raised unchanged.
    """
    require_trio("serve_transport")
    shutdown = trio.Event() if shutdown is None else shutdown
    stopping = trio.Event()
    async with open_hidden_nursery() as nursery:
        nursery.start_soon(_stop_after, shutdown, server, stopping, nursery.cancel_scope)
        async with server.open(), trio.open_nursery() as serving:
            serving.start_soon(_drain_after, stopping, server, serving.cancel_scope)
            task_status.started(await _start(serving, transport, server, stopping))


async def _start(serving: trio.Nursery, transport: Transport, server: Server, stopping: trio.Event) -> list[str]:
    async def run(*, task_status: trio.TaskStatus[list[str]]) -> None:
        await transport(server.supervisor, stopping=stopping, task_status=task_status)
        if not stopping.is_set():
            serving.cancel_scope.cancel()
        # Otherwise requests continue until the shutdown timeout, also those of clients that are not connected now.

    addresses: list[str] = await serving.start(run)
    return addresses


async def _stop_after(shutdown: trio.Event, server: Server, stopping: trio.Event, scope: trio.CancelScope) -> None:
    await shutdown.wait()
    stopping.set()
    if not server.is_open:
        # A lifespan that is still starting may take long, so cancel it; those that have started are left in order.
        scope.cancel()


async def _drain_after(stopping: trio.Event, server: Server, scope: trio.CancelScope) -> None:
    await stopping.wait()
    await server.supervisor.drain()
    scope.deadline = trio.current_time() + CLOSE_TIMEOUT
