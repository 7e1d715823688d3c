"""A server on stream sockets. Each connection is a session with one message per line, as over stdio.

The command line and embedding programs call it. Connections are not authenticated: any client that can connect can use
the server. A Unix socket is protected by its permissions, which by default admit only its owner. A network address is
open to the whole network.

Source: MCP 2026-07-28, basic/transports, "Custom Transports"; basic/transports/stdio (the framing).
"""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from functools import partial

import trio

from mcptrio.abc import Engine
from mcptrio.errors import ConnectionClosed, Overloaded
from mcptrio.ground.expected import expect
from mcptrio.ground.nurseries import require_trio
from mcptrio.protocol.messages import Batch, ErrorResponse, Incoming, Request
from mcptrio.serve.stream_options import StreamOptions
from mcptrio.serve.transport import serve_transport, serving_block
from mcptrio.server import Server
from mcptrio.transports.listeners import StreamListener
from mcptrio.transports.sockets import ListeningSockets, keep_alive, listen
from mcptrio.transports.stream import StreamChannel

__all__ = ["over_streams", "serve_stream"]

_log = logging.getLogger("mcptrio.serve")

MAX_REFUSALS = 64
"""Connections above the limit that receive an error at the same time; further ones are closed without one."""
# Seconds for sending that error.
_REFUSAL_TIMEOUT = 1.0


@asynccontextmanager
async def over_streams(
    server: Server, addresses: str | Sequence[str], *, options: StreamOptions | None = None
) -> AsyncIterator[list[str]]:
    """Open the server and serve connections during the block.

    At the end of the block, the server accepts no more connections, and requests in flight have its shutdown timeout.

    Args:
        addresses: One address or several: ``host:port``, ``[v6]:port``, ``unix:/path``, or ``fd://N`` for an inherited
            socket.
        options: Limits of connections and messages.

    Returns:
        The addresses as a client names them: ``tcp://127.0.0.1:9000``, ``unix:/path``.

    Raises:
        OSError: An address cannot be bound; the message has the address and the reason.
    """
    require_trio("over_streams")
    expect(server, Server, "over_streams: server")
    expect(options or StreamOptions(), StreamOptions, "over_streams: options")
    async with serving_block(partial(serve_stream, server, addresses, options=options)) as names:
        yield names


async def serve_stream(
    server: Server,
    addresses: str | Sequence[str],
    *,
    options: StreamOptions | None = None,
    shutdown: trio.Event | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve connections until ``shutdown`` is set or the caller is cancelled. Opens the server.

    Args:
        addresses: The addresses, as for :func:`over_streams`.
        options: Limits of connections and messages.
        shutdown: Set it to stop.
        task_status: Started with the addresses as a client names them.

    Raises:
        OSError: An address cannot be bound; the message has the address and the reason.
    """
    serve = partial(
        _serve,
        addresses=[addresses] if isinstance(addresses, str) else list(addresses),
        options=options or StreamOptions(),
    )
    await serve_transport(server, serve, shutdown=shutdown, task_status=task_status)


async def _serve(
    engine: Engine,
    *,
    addresses: Sequence[str],
    options: StreamOptions,
    stopping: trio.Event,
    task_status: trio.TaskStatus[list[str]],
) -> None:
    with ExitStack() as stack:
        bound = [stack.enter_context(closing(listen(address, unix_mode=options.unix_mode))) for address in addresses]
        for listening in bound:
            _warn_if_public(listening)
        # Duplicates, because Trio closes its listeners when it is cancelled, and the file of a Unix socket has to be
        # removed before that.
        listeners = [StreamListener(each.dup(), _log) for listening in bound for each in listening.sockets]
        connections = _Connections(engine, options)
        async with trio.open_nursery() as nursery:
            async with trio.open_nursery() as accepting:
                accepting.start_soon(
                    partial(trio.serve_listeners, connections.handle, listeners, handler_nursery=nursery)
                )
                task_status.started([_url(name) for listening in bound for name in listening.names])
                await stopping.wait()
                accepting.cancel_scope.cancel()
            # From now on the system refuses new connections at once; they no longer wait in the backlog.
            stack.close()


class _Connections:
    """The connections of one server.

    Args:
        engine: The engine of the open server.
    """

    def __init__(self, engine: Engine, options: StreamOptions) -> None:
        self._engine = engine
        self._options = options
        self._open = 0
        self._refusals = 0
        # True once the limit was logged; further refusals are logged at level DEBUG until a connection ends.
        self._is_full = False

    async def handle(self, stream: trio.SocketStream) -> None:
        """Serve a connection until it ends. Logs errors instead of raising them."""
        name = _enable_keepalive(stream)
        channel = StreamChannel(
            stream,
            name=name,
            limits=self._options.limits,
            write_timeout=self._options.write_timeout,
            first_message_timeout=self._options.first_message_timeout,
        )
        try:
            if self._open >= self._options.connections:
                await self._refuse(
                    channel, Overloaded(f"too many connections: the limit is {self._options.connections}")
                )
                return
            self._open += 1
            try:
                await self._engine.run_guarded(partial(self._serve_channel, channel), f"connection {name}")
            finally:
                self._open -= 1
                self._is_full = False
        finally:
            with trio.move_on_after(_REFUSAL_TIMEOUT, shield=True):
                await channel.aclose()

    async def _serve_channel(self, channel: StreamChannel) -> None:
        try:
            await self._engine.serve(channel)
        except Overloaded as error:
            await self._refuse(channel, error)

    async def _refuse(self, channel: StreamChannel, error: Overloaded) -> None:
        """Send an error as the response to the peer's first request."""
        _log.log(logging.DEBUG if self._is_full else logging.WARNING, "%s: refused: %s", channel.name, error.message)
        self._is_full = True
        if self._refusals >= MAX_REFUSALS:
            return
        self._refusals += 1
        try:
            with trio.move_on_after(_REFUSAL_TIMEOUT):
                await _answer_first(channel, error)
        except ConnectionClosed:
            # The peer has disconnected.
            pass
        finally:
            self._refusals -= 1


async def _answer_first(channel: StreamChannel, error: Overloaded) -> None:
    """Respond to the first request with an error. If no request arrives in time, the error has no id."""
    id = None
    with trio.move_on_after(_REFUSAL_TIMEOUT / 2):
        try:
            id = next((item.id for item in _flatten(await channel.receive()) if isinstance(item, Request)), None)
        except trio.EndOfChannel:
            pass
    await channel.send([ErrorResponse.of(id, error)])
    await channel.send_eof()
    # Closing a socket with unread input resets the connection, and the error may not reach the peer.
    try:
        while True:
            await channel.receive()
    except trio.EndOfChannel:
        pass


def _flatten(received: Sequence[Incoming]) -> list[Incoming]:
    return [message for item in received for message in (item.messages if isinstance(item, Batch) else (item,))]


def _enable_keepalive(stream: trio.SocketStream) -> str:
    """Enable keepalive on a connection; return its name for the log."""
    if stream.socket.family not in (socket.AF_INET, socket.AF_INET6):
        return "unix"
    try:
        host, port = stream.socket.getpeername()[:2]
        keep_alive(stream)
    except OSError:
        # The peer has already disconnected; the first read reports it.
        return "tcp"
    return f"tcp [{host}]:{port}" if ":" in host else f"tcp {host}:{port}"


def _url(name: str) -> str:
    return name if name.startswith("unix:") else f"tcp://{name}"


def _warn_if_public(listening: ListeningSockets) -> None:
    for each, name in zip(listening.sockets, listening.names, strict=True):
        if each.family in (socket.AF_INET, socket.AF_INET6):
            host = each.getsockname()[0]
            if not ipaddress.ip_address(host.partition("%")[0]).is_loopback:
                _log.warning("%s: accepts connections from other machines without authentication", name)
