"""The process that runs SQL: it opens databases, answers, and can be killed at any moment.

Started by ``Lane``, so that of this package only what it needs is imported. The one rule: nothing here outlives the
server: a thread reads what the server says, and ends the process when there is nobody any more.

Why a process: one call of an SQL function over megabytes cannot be interrupted, and all that a query takes of memory
and of disk is taken from a limit that the system keeps. SQLite itself offers neither.

Source: getrlimit(2); sqlite.org/tempfiles.html.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from pickle import loads
from queue import SimpleQueue
from typing import Final

from mcptrio import ToolError

from .config import Config
from .connections import open_database
from .frames import LENGTH, CallDone, Failed, Message, Order, Ready, Stop, Undone, largest, packed, said_frame
from .policy import SQLitePolicy
from .watching import CallStopped, Watch

__all__ = ["main"]

_FILES: Final = 64
"""Open files, temporary ones included; so these are bounded together, and not only each."""
_SPARE: Final = 5
"""Seconds of processor time beyond those of a query, so that the server, who knows why, stops it first."""
_JOURNALS: Final = 2
"""How many times the size of a database its files may have: a WAL grows beyond what it stands for."""


def main() -> None:
    """Do what the server says, one thing after another."""
    requests, answers = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    config = _read(requests)
    if not isinstance(config, Config):
        raise SystemExit(2)
    _Child(requests, answers, config).run()


class _Child:
    def __init__(self, requests: int, answers: int, config: Config) -> None:
        self._requests = requests
        self._answers = answers
        self._config = config
        self._orders: SimpleQueue[tuple[Order, Watch]] = SimpleQueue()

    def run(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_NOFILE, _FILES)
        _limit_memory(self._config.max_memory_bytes)
        self._say(Ready())
        while True:
            order, watch = self._orders.get()
            self._limit_for(order)
            message = self._obey(order, watch)
            self._say(message)
            if isinstance(message, Failed) and message.is_spent:
                return

    def _obey(self, order: Order, watch: Watch) -> Message:
        config = self._config
        policy = SQLitePolicy(order.job.access, config.deny)
        try:
            with open_database(order.database, policy, config, watch) as opened:
                answer = packed(order.job.run(opened))
        except CallStopped:
            return Undone()
        except ToolError as error:
            return Failed(str(error).encode(errors="backslashreplace").decode())
        except MemoryError:
            return Failed(
                f"this takes more memory than max_memory_bytes of the configuration, {config.max_memory_bytes} bytes; "
                "ask for fewer or shorter values at once",
                is_spent=True,
            )
        if len(answer) > largest(config) - 1000:
            return Failed("the answer is far larger than max_result_bytes of the configuration; ask for less")
        return CallDone(answer)

    def _say(self, message: Message) -> None:
        data = memoryview(said_frame(message))
        while data:
            data = data[os.write(self._answers, data) :]

    def _listen(self) -> None:
        """Hear what the server says, while the other thread computes. The only way out is that there is no server."""
        current: tuple[int, Watch] | None = None
        while True:
            order = _read(self._requests)
            if isinstance(order, Order):
                watch = Watch(self._say)
                current = order.number, watch
                self._orders.put((order, watch))
            elif isinstance(order, Stop) and current is not None and current[0] == order.number:
                current[1].stop()

    def _limit_for(self, order: Order) -> None:
        """What one call may take."""
        config = self._config
        _limit(resource.RLIMIT_CPU, int(time.process_time() + config.query_timeout) + _SPARE)
        most = config.max_temp_bytes
        if order.job.access.writes:
            most = max(most, _JOURNALS * max(config.max_database_bytes, _size(order.database.path)))
        _limit(resource.RLIMIT_FSIZE, most)


def _read(descriptor: int) -> object:
    (length,) = LENGTH.unpack(_exactly(descriptor, LENGTH.size))
    order: object = loads(_exactly(descriptor, length))
    return order


def _exactly(descriptor: int, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = os.read(descriptor, count - len(data))
        if not piece:
            os._exit(0)  # the server is gone, or needs us no more; a transaction is undone by who opens the file next
        data += piece
    return bytes(data)


def _limit(which: int, value: int) -> None:
    """Set a limit, which may be raised again as far as it was at the start."""
    hard = resource.getrlimit(which)[1]
    soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (soft, hard))


def _limit_memory(more: int) -> None:
    """Limit the address space to what it is now and ``more``. Only Linux keeps to that."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + more)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
