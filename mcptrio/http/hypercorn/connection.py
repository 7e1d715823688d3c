"""One HTTP connection of the hardened Hypercorn.

Made by :mod:`mcptrio.http.hypercorn.serving` for every accepted socket. Differs from Hypercorn's own in that

- whatever goes wrong inside ends this connection only, and is logged;
- a write is shielded (half a chunk would garble the response) but bounded: a peer that stops reading is cut off;
- idle connections and slow request heads have a deadline on the reader instead of a task for each request;
- HTTP/1.1 is :mod:`mcptrio.http.hypercorn.http1`'s, 1.5 to 1.9 times the requests per second;
- the end lingers for a moment, so that a peer which is still uploading reads why it was refused.

The one rule: ``run`` never raises but for cancellation, and has closed the socket when it returns.

Source: hypercorn 0.18 ``trio/tcp_server.py``; RFC 9112 sections 6.3 and 9.6.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, Final

import h11
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol import ProtocolWrapper
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ConnectionState, LifespanState
from hypercorn.utils import parse_socket_addr

from mcptrio.http.engine.limits import LOG, ConnectionLimits
from mcptrio.http.engine.tls import tls_extension
from mcptrio.http.hypercorn.http1 import HTTP1

__all__ = ["Connection"]

_CHUNK: Final = 64 * 1024
_LAST: Final = ("http.disconnect", "websocket.disconnect")
_LINGER: Final = 0.5
"""Seconds of reading away an upload that was refused, before the socket is closed."""


class _Inbox:
    """What an application receives. No checkpoint while there is room or something to take, unlike a memory channel.

    Args:
        max_events: how many may be queued; then the reader of the socket waits. The disconnect, after which nothing
            comes, has always room.
        before_waiting: awaited when the application is about to wait.
    """

    def __init__(self, max_events: int, before_waiting: Callable[[], Awaitable[None]] | None) -> None:
        self._max = max(1, max_events)
        self._before_waiting = before_waiting
        self._events: deque[Any] = deque()
        self._takers = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()

    async def send(self, event: Any) -> None:
        """Queue an event; waits while the queue is full."""
        while len(self._events) >= self._max and event["type"] not in _LAST:
            await self._room.park()
        self._events.append(event)
        self._takers.unpark()

    async def receive(self) -> Any:
        """The next event; waits while there is none."""
        if not self._events and self._before_waiting is not None:
            await self._before_waiting()
        while not self._events:
            await self._takers.park()
        self._room.unpark()
        return self._events.popleft()


class _Tasks(TaskGroup):
    """Hypercorn's, with our queue to the application."""

    before_waiting: Callable[[], Awaitable[None]] | None = None

    async def spawn_app(self, app: AppWrapper, config: Config, scope: Any, send: Any) -> Any:
        inbox = _Inbox(config.max_app_queue_size, self.before_waiting)
        self.spawn(_run, app, scope, inbox.receive, send)
        return inbox.send


async def _run(app: AppWrapper, scope: Any, receive: Any, send: Any) -> None:
    """Run the application for one request; what it raises ends that request only."""
    try:
        await app(scope, receive, send, trio.to_thread.run_sync, trio.from_thread.run)
    except* Exception:
        LOG.exception("the application failed")
    finally:
        with trio.move_on_after(_LINGER, shield=True):
            await send(None)


class _Told:
    """An application that is told of the TLS below the connection."""

    def __init__(self, app: AppWrapper, tls: dict[str, Any]) -> None:
        self._app = app
        self._tls = tls

    async def __call__(self, scope: Any, receive: Any, send: Any, sync_spawn: Any, call_soon: Any) -> None:
        scope.setdefault("extensions", {})["tls"] = self._tls
        await self._app(scope, receive, send, sync_spawn, call_soon)


class Connection:
    """One accepted socket, from its first byte to its close. ``run`` may be called once."""

    def __init__(
        self,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        state: LifespanState,
        stream: Any,
        limits: ConnectionLimits,
    ) -> None:
        self._app = app
        self._config = config
        self._context = context
        self._state = state
        self._stream = stream
        self._limits = limits
        self._send_lock = trio.Lock()
        self._reader = trio.CancelScope()
        self._writer: trio.CancelScope | None = None
        self._protocol: ProtocolWrapper
        self._idle = True
        self._broken = False
        self._unread = False

    async def run(self) -> None:
        try:
            await self._run()
        except* trio.Cancelled:
            raise
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):
            LOG.debug("connection lost", exc_info=True)
        except* Exception:  # whatever Hypercorn, h11, h2 or wsproto trip over: it must not reach the other connections
            LOG.warning("connection closed after an error", exc_info=True)
        finally:
            await trio.aclose_forcefully(self._stream)

    def end_if_idle(self) -> None:
        """Close now unless a request is being served."""
        if self._idle:
            self._reader.cancel()

    def cut(self) -> None:
        """Give up: a write in progress ends, and with it the connection."""
        self._broken = True
        if self._writer is not None:
            self._writer.cancel()
        self._reader.cancel()

    async def _run(self) -> None:
        transport = self._stream
        alpn: str | None = None
        if isinstance(transport, trio.SSLStream):
            with trio.move_on_after(self._limits.tls_timeout) as handshake:
                await transport.do_handshake()
            if handshake.cancelled_caught:
                return
            alpn = transport.selected_alpn_protocol()
            self._app = _Told(self._app, tls_extension(transport))
            transport = transport.transport_stream
        sock = transport.socket
        tasks = _Tasks()
        async with tasks as task_group:
            self._protocol = ProtocolWrapper(
                self._app,
                self._config,
                self._context,
                task_group,
                ConnectionState(self._state.copy()),
                isinstance(self._stream, trio.SSLStream),
                parse_socket_addr(sock.family, sock.getpeername()),
                parse_socket_addr(sock.family, sock.getsockname()),
                self._send,
                alpn,
            )
            if alpn != "h2":
                inner = self._protocol.protocol
                protocol = HTTP1(
                    self._app,
                    self._config,
                    self._context,
                    task_group,
                    inner.connection_state,
                    self._protocol.ssl,
                    self._protocol.client,
                    self._protocol.server,
                    self._send,
                )
                protocol.begin(self._limits)
                tasks.before_waiting = protocol.ask_to_continue
                self._protocol.protocol = protocol
            await self._protocol.initiate()
            await self._read()
        await self._linger()

    async def _read(self) -> None:
        """Feed the protocol until the peer, the deadline or :meth:`_send` ends it."""
        self._reader.deadline = trio.current_time() + self._limits.keepalive_timeout
        head_began = False
        with self._reader:
            while True:
                # Only while the client is waited for; the application may take its time with what has come.
                is_uploading = not self._idle and self._is_uploading() and not self._awaits_continue()
                if is_uploading:
                    self._reader.deadline = trio.current_time() + self._limits.body_timeout
                data = await self._receive()
                if is_uploading and not self._idle:
                    self._reader.deadline = inf
                await self._protocol.handle(RawData(data))
                if not data:
                    break
                if not self._idle:
                    head_began = False
                elif not head_began:
                    head_began = True
                    self._reader.deadline = trio.current_time() + self._limits.header_timeout
        self._idle = True
        await self._tell_application()

    async def _receive(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(_CHUNK))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return b""

    async def _send(self, event: Event) -> None:
        """What Hypercorn's protocols call to write, to close, and to say whether a request is being served."""
        if isinstance(event, RawData):
            await self._write(event.data)
        elif isinstance(event, Updated):
            self._idle = event.idle
            self._reader.deadline = trio.current_time() + self._limits.keepalive_timeout if event.idle else inf
            if event.idle and self._context.terminated.is_set():
                self._reader.cancel()
        elif isinstance(event, Closed):
            self._unread = self._is_uploading()
            self._half_close()
            await self._tell_application()
            self._reader.cancel()

    async def _write(self, data: bytes) -> None:
        data = self._write_now(data)
        if not data:
            return
        async with self._send_lock:
            if self._broken:
                return
            with trio.CancelScope(shield=True, deadline=trio.current_time() + self._limits.write_timeout) as scope:
                self._writer = scope
                try:
                    await self._stream.send_all(data)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    self._broken = True
                finally:
                    self._writer = None
            if scope.cancelled_caught:
                self._broken = True
        if self._broken:
            await self._tell_application()
            self._reader.cancel()

    def _write_now(self, data: bytes) -> bytes:
        """Write what there is room for, and return the rest. Nearly always there is room, and no deadline is needed.

        Whatever is wrong, the write that waits finds it again.
        """
        if self._broken or self._send_lock.locked() or sys.platform == "win32":
            return data
        if not isinstance(self._stream, trio.SocketStream):
            return data
        try:
            return data[os.write(self._stream.socket.fileno(), data) :]
        except OSError:
            return data

    async def _tell_application(self) -> None:
        """Queue the disconnect, before the reader is cancelled: it may be the one who queues it."""
        with trio.move_on_after(_LINGER):
            await self._protocol.handle(Closed())

    def _is_uploading(self) -> bool:
        """Whether the peer is still sending a request that is refused or answered already."""
        protocol = self._protocol.protocol
        return isinstance(protocol, HTTP1) and protocol.connection.their_state in (h11.SEND_BODY, h11.ERROR)

    def _awaits_continue(self) -> bool:
        """Whether the client waits to be asked for the body."""
        protocol = self._protocol.protocol
        return isinstance(protocol, HTTP1) and protocol.awaits_continue

    def _half_close(self) -> None:
        """Tell the peer that the response has ended, even while the application is still tidying up."""
        if isinstance(self._stream, trio.SocketStream):
            try:
                self._stream.socket.shutdown(trio.socket.SHUT_WR)
            except OSError:
                self._broken = True

    async def _linger(self) -> None:
        """Read on for a moment: closing a socket with unread data resets it, and the peer may lose our response."""
        if self._broken or not self._unread or not isinstance(self._stream, trio.SocketStream):
            return
        with trio.move_on_after(_LINGER):
            while await self._receive():
                pass
