"""Trio listeners that accept connections from a socket, and handle the errors of ``accept``.

The HTTP engine and the servers of streams use them. An error is logged and never ends the server. Linux reports network
errors of the new connection in ``accept``, a firewall rule can cause EPERM, and descriptors can run out.

Source: accept(2), "Error handling".
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from mcptrio.transports.rate_limited_log import RateLimitedLog

__all__ = ["AcceptedSocket", "ConnectionListener", "StreamListener"]

_PAUSE: Final = 0.1
"""Seconds until the next attempt after an error that is likely to repeat."""
_CAPACITY_ERRORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
"""Errors for which ``make_room`` is called."""
# Errors of a single new connection, after which the next attempt need not wait.
_CONNECTION_ERRORS: Final = frozenset(
    getattr(errno, name)
    for name in (
        *("EPERM", "ECONNABORTED", "EPROTO", "ENETDOWN", "ENOPROTOOPT"),
        *("EHOSTDOWN", "ENONET", "EHOSTUNREACH", "EOPNOTSUPP", "ENETUNREACH"),
    )
    if hasattr(errno, name)
)


class AcceptedSocket(trio.abc.AsyncResource):
    """A connected, non-blocking socket. Its receiver must close it."""

    def __init__(self, sock: socket.socket, peer: Any) -> None:
        self.sock = sock
        self.peer = peer

    async def aclose(self) -> None:
        self.sock.close()
        await trio.lowlevel.checkpoint()


class ConnectionListener(trio.abc.Listener[AcceptedSocket]):
    """A listener for ``trio.serve_listeners`` whose :meth:`accept` raises no system errors.

    Args:
        sock: The listening, non-blocking socket. The listener owns it.
        log: The logger for the errors of ``accept``.
        wait_turn: A function awaited before each connection is accepted.
        make_room: A function called when no descriptor is left. It returns True if it has closed a connection.
    """

    def __init__(
        self,
        sock: socket.socket,
        log: logging.Logger,
        *,
        wait_turn: Callable[[], Awaitable[None]] | None = None,
        make_room: Callable[[], bool] | None = None,
    ) -> None:
        self._sock = sock
        self._log = RateLimitedLog(log, per_key=1, total=10)
        self._wait_turn = wait_turn
        self._make_room = make_room

    async def accept(self) -> AcceptedSocket:
        """Return the next connection.

        Raises:
            trio.ClosedResourceError: The listener was closed.
        """
        while True:
            await trio.lowlevel.wait_readable(self._sock)
            if self._wait_turn is not None:
                await self._wait_turn()
            try:
                sock, peer = self._sock.accept()
            except BlockingIOError:
                continue  # another worker has accepted the connection
            except OSError as error:
                await self._handle_accept_error(error)
                continue
            try:
                sock.setblocking(False)
                if sock.family in (socket.AF_INET, socket.AF_INET6):
                    # Nagle's algorithm would delay small messages that follow each other.
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:  # macOS: the client has already disconnected
                sock.close()
                continue
            return AcceptedSocket(sock, peer)

    async def aclose(self) -> None:
        if self._sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()
        await trio.lowlevel.checkpoint()

    async def _handle_accept_error(self, error: OSError) -> None:
        if self._sock.fileno() < 0:
            raise trio.ClosedResourceError("the listener was closed") from error
        if error.errno in _CAPACITY_ERRORS and self._make_room is not None and self._make_room():
            return
        # ECONNABORTED only means that the client disconnected first.
        if error.errno != errno.ECONNABORTED:
            self._log.write(
                logging.WARNING, str(error.errno), "a connection could not be accepted; trying again: %s", error
            )
        if error.errno not in _CONNECTION_ERRORS:
            await trio.sleep(_PAUSE)


class StreamListener(trio.abc.Listener[trio.SocketStream]):
    """A :class:`ConnectionListener` that returns Trio streams.

    Args:
        sock: The listening socket, as for :class:`ConnectionListener`.
        log: The logger, as for :class:`ConnectionListener`.
    """

    def __init__(self, sock: socket.socket, log: logging.Logger) -> None:
        self._listener = ConnectionListener(sock, log)

    async def accept(self) -> trio.SocketStream:
        while True:
            accepted = await self._listener.accept()
            try:
                return trio.SocketStream(trio.socket.from_stdlib_socket(accepted.sock))
            except OSError:  # the client has already disconnected
                accepted.sock.close()

    async def aclose(self) -> None:
        await self._listener.aclose()
