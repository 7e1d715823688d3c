"""The control socket of a process that serves, which sends the status to processes of the same user.

The command line opens one for each server. A reader connects and receives one document
(:mod:`mcptrio.serve.process_status`). Without a reader, the socket costs one waiting task.

Source: unix(7), "SO_PEERCRED".
"""

from __future__ import annotations

import logging
import math
import os
import socket
import struct
from collections.abc import Sequence
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Final

import trio

from mcptrio.serve.process_status import SUFFIX, ProcessStatus, encode_status
from mcptrio.serve.runtime_folder import make_runtime_folder
from mcptrio.transports.listeners import StreamListener
from mcptrio.transports.unix_socket import UnixSocket

if TYPE_CHECKING:
    # The parent of workers loads neither the server nor JSON.
    from mcptrio.server import Server

__all__ = ["ControlSocket"]

_log = logging.getLogger("mcptrio.serve")

_WRITE_TIMEOUT: Final = 1.0
"""Seconds for a reader to take the document."""
_BACKLOG: Final = 8
_MAX_SHARE: Final = 0.02
"""Share of the processor time that encoding documents may take. With thousands of sessions, a document is reused for
seconds."""
_CREDENTIALS: Final = struct.Struct("3i")
"""``struct ucred``: the process, user and group of the peer."""


class ControlSocket:
    """The control socket of one process, which sends its status to each reader.

    Args:
        transport: See :class:`mcptrio.serve.process_status.ProcessStatus`.
        parent: The process id of the parent, in a worker.
    """

    def __init__(self, transport: str, parent: int | None = None) -> None:
        self._transport = transport
        self._parent = parent
        self._opened = trio.Event()
        self._server: Server | None = None
        self._addresses: tuple[str, ...] = ()
        self._opened_at = 0.0
        self._document = b""
        self._fresh_until = -math.inf

    def opened(self, server: Server, addresses: Sequence[str]) -> None:
        """Send the status of this server, which is open now."""
        self._server, self._addresses, self._opened_at = server, tuple(addresses), trio.current_time()
        self._opened.set()

    async def run(self) -> None:
        """Send the status to each reader, once the server is open and until cancelled."""
        await self._opened.wait()
        try:
            bound = _listen()
        except OSError as error:
            # Nothing else depends on the socket.
            _log.debug("mcptrio ps does not show this process: %s", error)
            return
        async with StreamListener(bound.listener, _log) as listener:
            try:
                while True:
                    # One reader at a time bounds the memory and time that readers take.
                    await self._answer(await listener.accept())
            finally:
                bound.remove()

    async def _answer(self, stream: trio.SocketStream) -> None:
        with trio.move_on_after(_WRITE_TIMEOUT):
            async with stream:
                if not _is_same_user(stream.socket):
                    return
                try:
                    await stream.send_all(self._current_document())
                except trio.BrokenResourceError:
                    pass  # the reader has disconnected

    def _current_document(self) -> bytes:
        if perf_counter() >= self._fresh_until:
            is_first, started = not self._document, thread_time()
            self._document = encode_status(self._status())
            # The first time includes imports, and says nothing about the next ones.
            cost = 0.0 if is_first else thread_time() - started
            self._fresh_until = perf_counter() + cost / _MAX_SHARE
        return self._document

    def _status(self) -> ProcessStatus:
        server = self._server
        assert server is not None, "run() has waited for it"
        return ProcessStatus(
            pid=os.getpid(),
            parent=self._parent,
            transport=self._transport,
            addresses=self._addresses,
            age=trio.current_time() - self._opened_at,
            sessions=sum(session.is_counted for session in server.supervisor.sessions),
            status=server.status,
        )


def _listen() -> UnixSocket:
    if not hasattr(socket, "AF_UNIX"):
        raise OSError("there are no Unix sockets on this platform")
    path = make_runtime_folder() / f"{os.getpid()}{SUFFIX}"
    return UnixSocket.listen(os.fspath(path), backlog=_BACKLOG, mode=0o600)


def _is_same_user(sock: trio.socket.SocketType) -> bool:
    # Other systems than Linux protect the socket with its permissions and those of its folder alone.
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(data)
    return bool(user == os.getuid())
