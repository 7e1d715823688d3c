"""A server and its raw clients, on one transport.

The ``serve`` fixture creates it; tests call it with the contents of their server, which is the public
:class:`mcptrio.Server`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from types import SimpleNamespace
from typing import Any

import trio
from attrs import define, field

from mcptrio import Server
from mcptrio.abc import Principal
from mcptrio.serve.http import serve_http
from mcptrio.serve.stream import serve_stream
from mcptrio.serving import (
    RunningServer,
    memory_channel_pair,
)
from mcptrio.transports.stdio import open_stdio
from tests.http.raw_websocket import Socket
from tests.interaction.client import Answerer, Peer
from tests.interaction.wires import HTTPWire, MemoryWire, PipeWire, SSEWire, WebSocketWire
from tests.server_options import server_options

__all__ = ["Serve"]

WAIT_TIMEOUT = 30.0
"""Timeout of a client's wait, in seconds."""
VIRTUAL_WAIT_TIMEOUT = 1e6
"""The timeout with the autojump clock: longer than every deadline of the server."""


@define(eq=False)
class Serve:
    """Starts a server with these functions (or plugins), and a client that has begun the handshake.

    Attributes:
        server: The last one started.
    """

    revision: str
    transport: str
    jumps: bool
    nursery: trio.Nursery
    stack: AsyncExitStack
    servers: list[Server] = field(factory=list)
    runnings: list[RunningServer] = field(factory=list)
    peers: list[Peer] = field(factory=list)
    shutdown: trio.Event = field(factory=trio.Event)
    """Set to shut the server down."""
    closed: trio.Event = field(factory=trio.Event)
    """Set when the last server has ended."""
    _ports: dict[Server, int] = field(factory=dict)

    async def __call__(
        self,
        *functions: Callable[..., Any],
        plugins: Any = (),
        capabilities: dict[str, Any] | None = None,
        answers: dict[str, Answerer] | None = None,
        **options: Any,
    ) -> Peer:
        await self.start(*functions, plugins=plugins, **options)
        return await self.connect(capabilities=capabilities, answers=answers)

    async def start(self, *functions: Callable[..., Any], plugins: Any = (), **options: Any) -> Server:
        """Start the server alone. Accepts the arguments of :class:`Server`."""
        marked = SimpleNamespace(**{function.__name__: function for function in functions})
        if not isinstance(plugins, list | tuple):
            options["plugins"] = plugins
        else:
            options["plugins"] = [*([marked] if functions else []), *plugins]
        server = Server("tested", version="7", **server_options(options))
        self.shutdown, self.closed = trio.Event(), trio.Event()
        started = self._over_http if self.transport in ("http", "sse", "websocket") else self._in_process
        if self.transport == "stream":
            started = self._over_stream
        await self.nursery.start(started, server, self.shutdown, self.closed)
        self.servers.append(server)
        return server

    @property
    def server(self) -> Server:
        return self.servers[-1]

    async def connect(
        self,
        *,
        capabilities: dict[str, Any] | None = None,
        answers: dict[str, Answerer] | None = None,
        revision: str | None = None,
        principal: Principal | None = None,
        begin: bool = True,
    ) -> Peer:
        """Connect another client.

        Args:
            principal: The caller; not over HTTP, SSE and WebSocket, where headers identify the caller.
        """
        peer = Peer(
            revision=revision or self.revision,
            wire=await self._wire(principal),
            nursery=self.nursery,
            capabilities=capabilities or {},
            answers=answers or {},
            seconds=VIRTUAL_WAIT_TIMEOUT if self.jumps else WAIT_TIMEOUT,
        )
        await self.nursery.start(peer.run)
        self.peers.append(peer)
        if begin:
            await peer.begin()
        return peer

    async def _wire(self, principal: Principal | None) -> Any:
        if self.transport == "http":
            return HTTPWire(self._ports[self.server])
        if self.transport == "sse":
            wire = SSEWire(self._ports[self.server])
            await wire.open()
            return wire
        if self.transport == "websocket":
            return WebSocketWire(await Socket.open(self._ports[self.server]))
        if self.transport == "stream":
            stream: Any = await trio.open_tcp_stream("127.0.0.1", self._ports[self.server])
            wire = PipeWire(stream, stream)
            self.stack.push_async_callback(wire.aclose)
            return wire
        if self.transport == "memory":
            ours, theirs = memory_channel_pair()
            self.nursery.start_soon(partial(self.runnings[-1].serve, theirs, principal=principal))
            return MemoryWire(ours)
        # The server's ends are closed here, and the client's ends by its streams.
        (reads, sends), (receives, writes) = os.pipe(), os.pipe()
        for end in (reads, writes):
            self.stack.callback(os.close, end)
        wire = PipeWire(trio.lowlevel.FdStream(receives), trio.lowlevel.FdStream(sends))
        self.stack.push_async_callback(wire.aclose)
        channel = await self.stack.enter_async_context(open_stdio(stdin_fd=reads, stdout_fd=writes))
        self.nursery.start_soon(partial(self.runnings[-1].serve, channel, principal=principal))
        return wire

    async def _in_process(
        self, server: Server, shutdown: trio.Event, closed: trio.Event, *, task_status: trio.TaskStatus[None]
    ) -> None:
        async with server.open() as running:
            self.runnings.append(running)
            task_status.started()
            await shutdown.wait()
        closed.set()

    async def _over_http(
        self, server: Server, shutdown: trio.Event, closed: trio.Event, *, task_status: trio.TaskStatus[None]
    ) -> None:
        async with trio.open_nursery() as nursery:
            urls = await nursery.start(partial(serve_http, server, port=0, shutdown=shutdown))
            self._ports[server] = int(urls[0].split(":")[2].split("/")[0])
            task_status.started()
        closed.set()

    async def _over_stream(
        self, server: Server, shutdown: trio.Event, closed: trio.Event, *, task_status: trio.TaskStatus[None]
    ) -> None:
        async with trio.open_nursery() as nursery:
            names = await nursery.start(partial(serve_stream, server, "127.0.0.1:0", shutdown=shutdown))
            self._ports[server] = int(names[0].rpartition(":")[2])
            task_status.started()
        closed.set()
