"""A process that was started by a parent of workers: what it was given, and how it and its parent hear of each other.

Called by the command line, which asks first of all whether this process is one.
The one rule: it does not outlive its parent. When the link ends, whatever the plugins are doing, the process ends in an
orderly way, and where that takes too long, at once.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from pathlib import Path
from typing import Final

import trio
from attrs import field, frozen

from mcptrio.errors import ConfigError
from mcptrio.serve.worker_balance import BoardPlace
from mcptrio.serve.worker_bus import WorkerBus
from mcptrio.serve.worker_link import BEAT_INTERVAL, FrameKind, WorkerLink, read_first

__all__ = ["VARIABLE", "Beginning", "Ends", "WorkerProcess", "adopt"]

VARIABLE: Final = "MCPTRIO_WORKER"
"""In the environment of a worker: the number of the descriptor of its link."""

_EXIT_TIMEOUT: Final = 3.0
"""Seconds beyond the shutdown timeout, for connections, lifespans and the interpreter, when the parent is gone."""
_MAX_SHUTDOWN_SECONDS: Final = 3600.0
"""Seconds of a shutdown timeout that has no end, when the parent is gone."""


_PLAIN: Final = ("number", "sockets", "board", "place", "folder", "last_request_timeout", "shutdown")


@frozen(kw_only=True)
class Beginning:
    """What a worker is given by its parent."""

    number: int
    """Counted from 1 over all that the parent has started."""
    sockets: tuple[int, ...]
    """The descriptors of the listening sockets."""
    board: int
    """The descriptor of the memory in which each worker's connections are counted."""
    place: int
    """Of this worker in there."""
    key: bytes = field(repr=False)
    """Seals what travels through clients, where no key is configured."""
    folder: str | None
    """For files that the workers share; the parent removes it."""
    last_request_timeout: float
    """Seconds for those that are connected to send one request more, when it has to leave."""
    shutdown: float
    """Seconds for what is in flight."""

    def encode(self) -> bytes:
        key = base64.b64encode(self.key).decode()
        values = {name: getattr(self, name) for name in _PLAIN}
        return json.dumps({**values, "key": key}).encode()

    @classmethod
    def decode(cls, body: bytes) -> Beginning:
        values = json.loads(body)
        return cls(
            **{**values, "sockets": tuple(values["sockets"]), "key": base64.b64decode(values["key"])},
        )


@frozen(kw_only=True)
class Ends:
    """How a worker is told to end. Both are set in this order, or the second alone."""

    leaving: trio.Event
    """Accept nothing more, and close each connection after its next response."""
    shutdown: trio.Event


class WorkerProcess:
    """This process, as a worker. Made by :func:`adopt`."""

    def __init__(self, beginning: Beginning, link: WorkerLink) -> None:
        self.beginning = beginning
        self.bus = WorkerBus(link)
        self.place = BoardPlace(beginning.board, beginning.place)
        self._link = link

    @property
    def addresses(self) -> list[str]:
        """What the HTTP server is to bind."""
        return [f"fd://{number}" for number in self.beginning.sockets]

    def release(self) -> None:
        """Close the sockets that were inherited, where the HTTP server has duplicates of its own."""
        for number in self.beginning.sockets:
            os.close(number)

    def ready(self, urls: list[str]) -> None:
        """Tell the parent that requests are served."""
        self._link.order(FrameKind.READY, "\n".join(urls).encode())

    async def run(self, serve: Callable[[Ends], Awaitable[None]], shutdown: trio.Event) -> None:
        """Run ``serve`` until it returns, and hear the parent meanwhile."""
        ends = Ends(leaving=trio.Event(), shutdown=shutdown)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._link.send)
            nursery.start_soon(self._hear, ends)
            nursery.start_soon(self._beat)
            await serve(ends)
            nursery.cancel_scope.cancel()

    async def _hear(self, ends: Ends) -> None:
        async with trio.open_nursery() as nursery:
            try:
                while True:
                    for kind, body in await self._link.receive():
                        if kind is FrameKind.NEWS:
                            self.bus.arrived(body)
                        elif kind is FrameKind.LEAVE and not ends.leaving.is_set():
                            self.place.leave()
                            ends.leaving.set()
                            nursery.start_soon(self._leave, ends)
            except trio.EndOfChannel:
                pass  # the thread sees that too, and asks for the end

    async def _beat(self) -> None:
        """Tell the parent that the event loop turns."""
        while True:
            await trio.sleep(BEAT_INTERVAL)
            self._link.order(FrameKind.ALIVE)

    async def _leave(self, ends: Ends) -> None:
        with trio.move_on_after(self.beginning.last_request_timeout):
            await ends.shutdown.wait()
        ends.shutdown.set()


def adopt(environment: MutableMapping[str, str] = os.environ) -> WorkerProcess | None:
    """This process as a worker, if a parent has started it as one. Takes the variable out of the environment.

    From now on it ends when the parent does.

    Raises:
        ConfigError: it is said to be one, and is not.
    """
    said = environment.pop(VARIABLE, None)
    if said is None:
        return None
    try:
        sock = socket.socket(fileno=int(said))
        sock.set_inheritable(False)
        _, body = read_first(sock)
        beginning = Beginning.decode(body)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{VARIABLE}: expected the link to a parent, got something else: {error}") from error
    for number in beginning.sockets:
        os.set_inheritable(number, False)
    # A descriptor of its own, which stays the same whatever becomes of the link.
    watch = partial(_end_with_parent, os.dup(sock.fileno()), beginning)
    threading.Thread(target=watch, name="mcptrio parent", daemon=True).start()
    return WorkerProcess(beginning, WorkerLink(sock))


def _end_with_parent(fd: int, beginning: Beginning) -> None:
    """In a thread, since the event loop may be blocked by a plugin: as if a signal had come when the parent is gone."""
    poll = select.poll()
    poll.register(fd, select.POLLHUP)
    poll.poll()
    if beginning.folder is not None:
        # What is open in there stays usable; nobody else is left to remove it.
        shutil.rmtree(Path(beginning.folder), ignore_errors=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(min(beginning.shutdown, _MAX_SHUTDOWN_SECONDS) + _EXIT_TIMEOUT)
    os._exit(128 + signal.SIGTERM)
