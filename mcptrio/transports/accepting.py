"""Accepting connections from a listening socket, for as long as the socket exists.

The HTTP engines and the server of streams use it. An error of ``accept`` is logged and never ends the server: Linux
reports network errors of the new connection there, a firewall rule can cause EPERM, and descriptors can run out.
Source: accept(2), "Error handling".
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from mcptrio.transports.sparing_log import SparingLog

__all__ = ["Accepted", "Accepting", "StreamAccepting"]

_PAUSE: Final = 0.1
"""Seconds until the next attempt, after an error that is likely to repeat itself."""
_CAPACITY: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
_OF_THE_CONNECTION: Final = frozenset(
    getattr(errno, name)
    for name in (
        *("EPERM", "ECONNABORTED", "EPROTO", "ENETDOWN", "ENOPROTOOPT"),
        *("EHOSTDOWN", "ENONET", "EHOSTUNREACH", "EOPNOTSUPP", "ENETUNREACH"),
    )
    if hasattr(errno, name)
)
"""Errors of one connection attempt. The next attempt does not have to wait."""


class Accepted(trio.abc.AsyncResource):
    """A connected, non-blocking socket on its way to the connection that will own it."""

    def __init__(self, sock: socket.socket, peer: Any) -> None:
        self.sock = sock
        self.peer = peer

    async def aclose(self) -> None:
        self.sock.close()
        await trio.lowlevel.checkpoint()


class Accepting(trio.abc.Listener[Accepted]):
    """A listener for ``trio.serve_listeners`` whose :meth:`accept` raises no error of the system.

    Args:
        sock: listens, non-blocking. Owned from now on.
        log: receives the errors, a few lines a minute at most.
        wait_turn: awaited before each connection is accepted.
        make_room: called when there are no descriptors left. Returns whether it has closed a connection.
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
        self._log = SparingLog(log, per_key=1, total=10)
        self._wait_turn = wait_turn
        self._make_room = make_room

    async def accept(self) -> Accepted:
        """
        Raises:
            trio.ClosedResourceError: the listener was closed.
        """
        while True:
            await trio.lowlevel.wait_readable(self._sock)
            if self._wait_turn is not None:
                await self._wait_turn()
            try:
                sock, peer = self._sock.accept()
            except BlockingIOError:
                continue  # another process was faster
            except OSError as error:
                await self._survive(error)
                continue
            try:
                sock.setblocking(False)
                if sock.family in (socket.AF_INET, socket.AF_INET6):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:  # macOS: the client has left again
                sock.close()
                continue
            return Accepted(sock, peer)

    async def aclose(self) -> None:
        if self._sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()
        await trio.lowlevel.checkpoint()

    async def _survive(self, error: OSError) -> None:
        if self._sock.fileno() < 0:
            raise trio.ClosedResourceError("the listener was closed") from error
        if error.errno in _CAPACITY and self._make_room is not None and self._make_room():
            return
        if error.errno != errno.ECONNABORTED:
            self._log.write(
                logging.WARNING, str(error.errno), "a connection could not be accepted; trying again: %s", error
            )
        if error.errno not in _OF_THE_CONNECTION:
            await trio.sleep(_PAUSE)


class StreamAccepting(trio.abc.Listener[trio.SocketStream]):
    """The same, giving streams.

    Args:
        sock: as :class:`Accepting` has it.
        log: as well.
    """

    def __init__(self, sock: socket.socket, log: logging.Logger) -> None:
        self._accepting = Accepting(sock, log)

    async def accept(self) -> trio.SocketStream:
        while True:
            accepted = await self._accepting.accept()
            try:
                return trio.SocketStream(trio.socket.from_stdlib_socket(accepted.sock))
            except OSError:  # the client has left again
                accepted.sock.close()

    async def aclose(self) -> None:
        await self._accepting.aclose()
