"""The worker's side of a process that a parent of workers has started.

The command line calls :func:`current_worker` to find out if this process is a worker. A worker does not outlive its
parent: when the link ends, it shuts down as after a signal.
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
from mcptrio.serve.worker_balance import ConnectionCounter
from mcptrio.serve.worker_bus import WorkerBus
from mcptrio.serve.worker_link import ALIVE_INTERVAL, FrameKind, WorkerLink, read_first

__all__ = ["LINK_VARIABLE", "WorkerProcess", "WorkerShutdown", "WorkerStart", "current_worker"]

LINK_VARIABLE: Final = "MCPTRIO_WORKER"
"""The environment variable with the descriptor of a worker's link."""

# Seconds that a worker without a parent has in addition to the shutdown timeout, to close connections, leave lifespans
# and end the interpreter.
_EXIT_TIMEOUT: Final = 3.0
# The shutdown timeout of a worker without a parent, if the configured one is longer or infinite.
_MAX_SHUTDOWN_SECONDS: Final = 3600.0
# The fields of WorkerStart that are sent as JSON without conversion.
_PLAIN_FIELDS: Final = ("number", "sockets", "counters", "index", "folder", "last_request_timeout", "shutdown")


@frozen(kw_only=True)
class WorkerStart:
    """The start parameters that the parent sends to a worker.

    Attributes:
        number: The number of the worker, counted from 1 over all that the parent has started.
        sockets: The descriptors of the listening sockets.
        counters: The descriptor of the shared memory with each worker's number of connections.
        index: The index of this worker in that memory.
        key: The sealing key, if no key is configured.
        folder: A folder for files that the workers share. The parent removes it.
        last_request_timeout: Seconds for connected clients to send one more request after a LEAVE frame.
        shutdown: Seconds for requests in flight.
    """

    number: int
    sockets: tuple[int, ...]
    counters: int
    index: int
    key: bytes = field(repr=False)
    folder: str | None
    last_request_timeout: float
    shutdown: float

    def encode(self) -> bytes:
        key = base64.b64encode(self.key).decode()
        values = {name: getattr(self, name) for name in _PLAIN_FIELDS}
        return json.dumps({**values, "key": key}).encode()

    @classmethod
    def decode(cls, body: bytes) -> WorkerStart:
        values = json.loads(body)
        return cls(
            **{**values, "sockets": tuple(values["sockets"]), "key": base64.b64decode(values["key"])},
        )


@frozen(kw_only=True)
class WorkerShutdown:
    """The events that end a worker: first ``leaving``, later ``shutdown``, or ``shutdown`` alone.

    Attributes:
        leaving: Once set, accept no more connections, and close each connection after its next response.
        shutdown: Once set, stop.
    """

    leaving: trio.Event
    shutdown: trio.Event


class WorkerProcess:
    """This process as a worker. Made by :func:`current_worker`."""

    def __init__(self, start_parameters: WorkerStart, link: WorkerLink) -> None:
        self.start_parameters = start_parameters
        self.bus = WorkerBus(link)
        self.counter = ConnectionCounter(start_parameters.counters, start_parameters.index)
        self._link = link

    @property
    def addresses(self) -> list[str]:
        """The addresses for the HTTP server to bind."""
        return [f"fd://{number}" for number in self.start_parameters.sockets]

    def release(self) -> None:
        """Close the inherited sockets. The HTTP server has duplicated them."""
        for number in self.start_parameters.sockets:
            os.close(number)

    def report_ready(self, urls: list[str]) -> None:
        """Report to the parent that this worker serves requests."""
        self._link.queue(FrameKind.READY, "\n".join(urls).encode())

    async def run(self, serve: Callable[[WorkerShutdown], Awaitable[None]], shutdown: trio.Event) -> None:
        """Run ``serve`` until it returns, and process the parent's frames meanwhile."""
        stopping = WorkerShutdown(leaving=trio.Event(), shutdown=shutdown)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._link.send)
            nursery.start_soon(self._receive_frames, stopping)
            nursery.start_soon(self._send_alive)
            await serve(stopping)
            nursery.cancel_scope.cancel()

    async def _receive_frames(self, stopping: WorkerShutdown) -> None:
        async with trio.open_nursery() as nursery:
            try:
                while True:
                    for kind, body in await self._link.receive():
                        if kind is FrameKind.MESSAGE:
                            self.bus.deliver(body)
                        elif kind is FrameKind.LOST:
                            self.bus.report_lost()
                        elif kind is FrameKind.LEAVE and not stopping.leaving.is_set():
                            self.counter.leave()
                            stopping.leaving.set()
                            nursery.start_soon(self._leave, stopping)
            except trio.EndOfChannel:
                # The thread that watches the link starts the shutdown.
                pass

    async def _send_alive(self) -> None:
        """Report at intervals that the event loop is responsive."""
        while True:
            await trio.sleep(ALIVE_INTERVAL)
            self._link.queue(FrameKind.ALIVE)

    async def _leave(self, stopping: WorkerShutdown) -> None:
        with trio.move_on_after(self.start_parameters.last_request_timeout):
            await stopping.shutdown.wait()
        stopping.shutdown.set()


def current_worker(environment: MutableMapping[str, str] = os.environ) -> WorkerProcess | None:
    """Return this process as a worker, or ``None`` if no parent of workers has started it.

    Removes the variable from the environment. From then on the process ends when the parent ends.

    Raises:
        ConfigError: The variable is set, but does not name a link to a parent.
    """
    value = environment.pop(LINK_VARIABLE, None)
    if value is None:
        return None
    try:
        sock = socket.socket(fileno=int(value))
        sock.set_inheritable(False)
        _, body = read_first(sock)
        start_parameters = WorkerStart.decode(body)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{LINK_VARIABLE}: expected the link to a parent, got something else: {error}") from error
    for number in start_parameters.sockets:
        # Child processes of plugins must not inherit the sockets: they would keep the port open.
        os.set_inheritable(number, False)
    # A duplicate, because the link may be closed while the thread waits.
    watch = partial(_end_with_parent, os.dup(sock.fileno()), start_parameters)
    threading.Thread(target=watch, name="mcptrio parent", daemon=True).start()
    return WorkerProcess(start_parameters, WorkerLink(sock))


def _end_with_parent(fd: int, start_parameters: WorkerStart) -> None:
    """Wait until the parent has ended, then end this process; runs in a thread."""
    # A thread, because a plugin may block the event loop.
    poll = select.poll()
    poll.register(fd, select.POLLHUP)
    poll.poll()
    if start_parameters.folder is not None:
        # Open files in the folder stay usable, and no other process is left to remove it.
        shutil.rmtree(Path(start_parameters.folder), ignore_errors=True)
    # The signal starts the orderly shutdown. If that takes too long, the process exits below.
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(min(start_parameters.shutdown, _MAX_SHUTDOWN_SECONDS) + _EXIT_TIMEOUT)
    os._exit(128 + signal.SIGTERM)
